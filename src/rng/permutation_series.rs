//! [`PermutationSeries`]: many permutations of one epoch.

use std::sync::{Arc, Mutex};

use super::key_stream::{KeyStream, Purpose};
use super::{BulkPermutation, Permutation};

/// What a series of permutations is for. Permutations of different series are unrelated, whatever their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Series {
    /// An epoch that passes over its samples more than once. Pass 0 is the order of the epoch itself.
    Pass,
    /// The order inside of each window of an epoch.
    Window,
    /// Which part of a mixture comes where, block of positions by block.
    Mixture,
    /// The order of each cycle over this part of a mixture.
    Part(u64),
}

/// Unrelated permutations, numbered from 0, that belong to (series, seed, epoch).
///
/// Making one takes a fraction of a microsecond. The one that was used last is kept, because positions are mostly read
/// in ascending order; that only saves time, and no thread ever waits for it.
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

    /// The permutation of `len` indices that has this number.
    pub(crate) fn at(&self, number: u64, len: u64) -> Arc<BulkPermutation> {
        // Never waits: a lock that another thread holds, or held when this process was forked, only costs time.
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
