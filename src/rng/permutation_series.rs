//! [`PermutationSeries`]: many permutations of one epoch.

use std::sync::{Arc, Mutex};

use super::key_stream::{KeyStream, Purpose};
use super::{BulkPermutation, Permutation};

/// The purpose of a series of permutations. Permutations of different series are unrelated, whatever their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Series {
    /// An epoch with several passes over its samples. Pass 0 is the order of the epoch itself.
    Pass,
    /// The order within each window of an epoch.
    Window,
    /// The positions of the parts of a mixture, for each block of positions.
    Mixture,
    /// The order of each cycle over this part of a mixture.
    Part(u64),
}

/// Unrelated permutations, numbered from 0, that are determined by (series, seed, epoch).
///
/// Creating one takes a fraction of a microsecond. The last one used is cached, because positions are mostly read in
/// ascending order; the cache only saves time, and no thread ever waits for it.
#[derive(Debug)]
pub(crate) struct PermutationSeries {
    series: Series,
    seed: u64,
    epoch: u64,
    last: Mutex<Option<(u64, Arc<BulkPermutation>)>>,
}

impl PermutationSeries {
    pub(crate) fn new(series: Series, seed: u64, epoch: u64) -> Self {
        PermutationSeries { series, seed, epoch, last: Mutex::new(None) }
    }

    /// Returns the permutation of `len` indices that has this number.
    pub(crate) fn at(&self, number: u64, len: u64) -> Arc<BulkPermutation> {
        // Never waits: if the lock is held by another thread, or was held when this process was forked, the only cost
        // is time.
        let last = self.last.try_lock();
        if let Ok(last) = &last
            && let Some((kept_number, kept)) = &**last
            && (*kept_number, kept.len()) == (number, len)
        {
            return Arc::clone(kept);
        }
        let made = Arc::new(BulkPermutation::new(Permutation::from_keys(len, self.keys(number, len))));
        if let Ok(mut last) = last {
            *last = Some((number, Arc::clone(&made)));
        }
        made
    }

    fn keys(&self, number: u64, len: u64) -> KeyStream {
        let keys = |purpose| KeyStream::new(purpose, self.seed, self.epoch).absorb(len);
        match self.series {
            Series::Pass if number == 0 => keys(Purpose::Order),
            Series::Pass => keys(Purpose::Order).absorb(number),
            Series::Window => keys(Purpose::Window).absorb(number),
            Series::Mixture => keys(Purpose::Mixture).absorb(number),
            Series::Part(part) => keys(Purpose::Part).absorb(part).absorb(number),
        }
    }
}
