//! States of the Python package, as far as a loader of this crate can resume from them.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Deserialize;

use super::{Cut, Fingerprint, LoaderState, VERSION};
use crate::{Error, Result};

/// Maximum number of batches received ahead of a slow one. A damaged state may contain any number.
const MOST_AHEAD: u64 = 1 << 24;

/// The relevant parts of the Python package's `DataLoader.state_dict`. The rest is about workers, generators, and
/// Python objects.
#[derive(Deserialize)]
pub(super) struct PackageState {
    fingerprint: PackageFingerprint,
    epoch: u64,
    batches_received: u64,
    received_ahead: Vec<Numbers>,
    position: usize,
    /// Batch size and number of ranks, if batches beyond the position were received.
    layout: Option<(Option<usize>, usize)>,
    left_out: LeftOut,
}

#[derive(Deserialize)]
struct PackageFingerprint {
    kind: String,
    dataset_len: Option<usize>,
    /// The identity of the order; None if it was drawn, or comes from a Python sampler.
    order: Option<String>,
}

#[derive(Deserialize)]
struct LeftOut {
    batches: Vec<(u64, u64, u64)>,
    samples: Vec<(u64, u64)>,
}

/// A half-open range of numbers; older states contain the numbers themselves.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    Range(u64, u64),
    One(u64),
}

impl Numbers {
    fn range(&self) -> Range<u64> {
        match *self {
            Self::Range(start, stop) => start..stop,
            Self::One(number) => number..number.saturating_add(1),
        }
    }
}

impl PackageState {
    /// Returns the same position as a state of this crate.
    pub(super) fn into_state(self) -> Result<LoaderState> {
        let refuse = |reason: &str| {
            let reason = format!("it was saved by the Python package, and {reason}");
            Err(Error::State { reason })
        };
        if self.fingerprint.kind != "map-style" {
            return refuse(
                "belongs to an iterable-style dataset, whose position only its workers know; resume it in Python",
            );
        }
        let (Some(dataset_len), Some(sampler)) = (self.fingerprint.dataset_len, self.fingerprint.order) else {
            return refuse("its order was drawn by a generator or by a Python sampler; give that loader a seed");
        };
        if !self.left_out.batches.is_empty() || !self.left_out.samples.is_empty() {
            return refuse("it skips batches or samples, which a loader of the crate can't do");
        }
        let lens = self.received_ahead.iter().map(Numbers::range).map(|range| range.end.saturating_sub(range.start));
        if lens.fold(0_u64, u64::saturating_add) > MOST_AHEAD {
            return refuse("it has more batches received out of order than possible; it was modified");
        }
        let (batch_size, world_size) = self.layout.unwrap_or((Some(1), 1));
        if world_size > 1 && !self.received_ahead.is_empty() {
            return refuse(
                "batches were received out of order on one of its ranks, but it does not record which; resume it in \
                 Python",
            );
        }
        let received_ahead: BTreeSet<u64> = self.received_ahead.iter().flat_map(Numbers::range).collect();
        // A sampler that makes batches is recognized by its name.
        let makes_batches = sampler.split('(').next().is_some_and(|name| name.ends_with("BatchSampler"));
        let batch_size = if makes_batches { None } else { batch_size.or(Some(1)) };
        Ok(LoaderState {
            version: VERSION,
            epoch: self.epoch,
            batches_received: self.batches_received,
            received_ahead,
            position: self.position,
            fingerprint: Fingerprint { dataset_len, sampler },
            cut: Cut { batch_size, rank: 0, world_size },
        })
    }
}
