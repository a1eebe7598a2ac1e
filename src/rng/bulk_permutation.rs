//! [`BulkPermutation`]: a permutation that is queried for many positions at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Permutation;
use super::round_tables::RoundTables;

/// A [`Permutation`] that computes blocks of positions, and speeds up with use.
///
/// Values are those of the permutation. Once enough indices have been requested to repay the cost, the rounds are
/// tabulated (see [`RoundTables`]): after the square root of the length, and for lengths above 2^16 after at least
/// 8192, so that reading only a batch or two never pays that cost. Lengths over 2^32 are always computed. The tables
/// take 45 KiB for 10^6 indices, 1.4 MiB for 10^9, 3 MiB for 2^32, and 8 KiB for up to 2^16.
///
/// Threads may share it, and none ever waits: one thread creates the tables while the others continue to compute. A
/// process that is forked meanwhile never gets tables.
#[derive(Debug)]
pub(crate) struct BulkPermutation {
    permutation: Permutation,
    /// Number of indices requested before there were tables.
    asked: AtomicU64,
    /// Set by the one thread whose request raised `asked` to `worth`, so that setting it never blocks.
    tables: OnceLock<Option<RoundTables>>,
    worth: u64,
}

/// Minimum number of requested indices before wide tables are created: mapping memory for them costs as much as
/// computing them.
const MAPPING: u64 = 8192;

impl BulkPermutation {
    pub(crate) fn new(permutation: Permutation) -> Self {
        let worth = permutation.network().map_or(u64::MAX, |network| {
            let values = 1 << network.right_bits();
            if RoundTables::are_narrow(network) { values } else { MAPPING.max(values) }
        });
        BulkPermutation { permutation, asked: AtomicU64::new(0), tables: OnceLock::new(), worth }
    }

    /// Returns the number of indices.
    pub(crate) fn len(&self) -> u64 {
        self.permutation.len()
    }

    /// Returns the index at `position`, which must be below the length.
    #[inline]
    pub(crate) fn index_at(&self, position: u64) -> u64 {
        self.permutation.index_at(position)
    }

    /// Fills `into` with the indices at the positions `start`, `start + step`, and so on.
    ///
    /// # Panics
    /// If one of the positions is not below the length.
    pub(crate) fn indices(&self, start: u64, step: u64, into: &mut [usize]) {
        let Some(last) = into.len().checked_sub(1) else { return };
        let last = (last as u64).checked_mul(step).and_then(|reach| reach.checked_add(start));
        assert!(
            last.is_some_and(|last| last < self.len()),
            "{} positions from {start} by {step} of an order of {} indices",
            into.len(),
            self.len()
        );
        match self.tables(into.len() as u64) {
            Some(tables) => {
                if !tables.forward_all(start, step, self.len(), into) {
                    self.walk_on(into);
                }
            }
            None => {
                for (place, index) in into.iter_mut().enumerate() {
                    *index = self.permutation.index_at(start + place as u64 * step) as usize;
                }
            }
        }
    }

    /// Replaces words of the domain that are out of range. They are rare: at most one in sqrt(len).
    #[cold]
    fn walk_on(&self, images: &mut [usize]) {
        let len = self.len() as usize;
        let walk = |index: &mut usize| *index = self.permutation.walk_on(*index as u64) as usize;
        images.iter_mut().filter(|index| **index >= len).for_each(walk);
    }

    fn tables(&self, wanted: u64) -> Option<&RoundTables> {
        if let Some(tables) = self.tables.get() {
            return tables.as_ref();
        }
        if self.worth == u64::MAX {
            return None;
        }
        let before = self.asked.fetch_add(wanted, Ordering::Relaxed);
        if before < self.worth && before.saturating_add(wanted) >= self.worth {
            let tables = self.permutation.network().and_then(RoundTables::new);
            // No other thread sets it: only one request takes the counter over the threshold.
            let _ = self.tables.set(tables);
            return self.tables.get().and_then(Option::as_ref);
        }
        None
    }
}
