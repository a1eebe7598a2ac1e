//! [`StreamPart`]: which samples of a stream one of its readers owns.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How a stream is split: among ranks sample by sample, and the samples of a rank among its workers in runs of `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSplit {
    /// The rank that is reading, below `world_size`.
    pub rank: u64,
    /// The number of ranks, at least one.
    pub world_size: u64,
    /// The number of workers of each rank, at least one.
    pub num_workers: u64,
    /// The number of consecutive samples of the rank that belong to one worker, at least one.
    pub run: u64,
}

impl StreamSplit {
    /// The split of a single reader.
    pub const WHOLE: Self = Self { rank: 0, world_size: 1, num_workers: 1, run: 1 };

    /// Returns the worker of the rank that owns the sample of this ordinal; `None` if it belongs to another rank.
    #[must_use]
    pub fn worker_of(self, ordinal: u64) -> Option<u64> {
        let (of_rank, rank) = divided(ordinal, self.world_size);
        (rank == self.rank).then(|| divided(divided(of_rank, self.run).0, self.num_workers).1)
    }
}

/// Returns the quotient and the remainder. Every reader asks for every sample, mostly with a divisor of one.
fn divided(number: u64, divisor: u64) -> (u64, u64) {
    if divisor <= 1 { (number, 0) } else { (number / divisor, number % divisor) }
}

/// What the workers of a rank had read before reading resumed with a different number of workers.
///
/// # Example
/// ```
/// use sluicegate::StreamPart;
/// use sluicegate::internal::{ConsumedSamples, StreamSplit};
///
/// let owned = |part: &StreamPart| (0..8).filter(|&ordinal| part.owns(ordinal)).collect::<Vec<u64>>();
/// let two = StreamSplit { num_workers: 2, ..StreamSplit::WHOLE };
/// assert_eq!(owned(&StreamPart { split: two, worker: 1, consumed: Vec::new() }), [1, 3, 5, 7]);
/// // Worker 0 had read samples 0, 2 and 4, worker 1 nothing; now there is one.
/// let consumed = vec![ConsumedSamples { split: two, until: vec![5, 0], held: Vec::new() }];
/// assert_eq!(owned(&StreamPart { consumed, ..StreamPart::WHOLE }), [1, 3, 5, 6, 7]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumedSamples {
    /// How the stream was split among those workers.
    pub split: StreamSplit,
    /// Per worker: its samples with ordinals below this one were read.
    pub until: Vec<u64>,
    /// Ordinals of read samples that were still in a shuffle buffer, not yet delivered, ascending.
    pub held: Vec<u64>,
}

impl ConsumedSamples {
    fn has(&self, ordinal: u64) -> bool {
        let worker = self.split.worker_of(ordinal).and_then(|worker| usize::try_from(worker).ok());
        worker.and_then(|worker| self.until.get(worker)).is_some_and(|&until| ordinal < until)
            && self.held.binary_search(&ordinal).is_err()
    }
}

/// The samples of a stream that one of several readers owns: those of its worker that were not read before.
///
/// # Example
/// ```
/// use sluicegate::StreamPart;
///
/// let owned = |part: &StreamPart| (0..8).filter(|&ordinal| part.owns(ordinal)).collect::<Vec<u64>>();
/// assert_eq!(owned(&StreamPart::of_rank(1, 3)), [1, 4, 7]);
/// assert_eq!(owned(&StreamPart::WHOLE).len(), 8);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPart {
    /// How the stream is split.
    #[doc(hidden)]
    pub split: StreamSplit,
    /// The worker, below `split.num_workers`.
    #[doc(hidden)]
    pub worker: u64,
    /// What this rank read under earlier splits.
    #[doc(hidden)]
    pub consumed: Vec<ConsumedSamples>,
}

impl StreamPart {
    /// The part of a single reader.
    pub const WHOLE: Self = Self { split: StreamSplit::WHOLE, worker: 0, consumed: Vec::new() };

    /// The samples whose ordinal is `rank` more than a multiple of `world_size`.
    #[must_use]
    pub fn of_rank(rank: u64, world_size: u64) -> Self {
        Self { split: StreamSplit { rank, world_size, ..StreamSplit::WHOLE }, ..Self::WHOLE }
    }

    /// True if the sample of this ordinal belongs to this part.
    #[must_use]
    pub fn owns(&self, ordinal: u64) -> bool {
        self.split.worker_of(ordinal) == Some(self.worker) && !self.consumed.iter().any(|samples| samples.has(ordinal))
    }
}

impl StreamPart {
    /// # Errors
    /// [`Error::InvalidArgument`] if the rank or the worker does not exist.
    pub(crate) fn check(&self) -> Result<()> {
        let StreamSplit { rank, world_size, num_workers, .. } = self.split;
        if rank < world_size && self.worker < num_workers {
            return Ok(());
        }
        let reason =
            format!("expected a rank below the number of ranks, and a worker below the number of workers, got {self}");
        Err(Error::invalid("part", reason))
    }
}

impl fmt::Display for StreamPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamSplit { rank, world_size, num_workers, run } = self.split;
        write!(
            formatter,
            "rank {rank} of {world_size}, worker {} of {num_workers}, {run} samples in a row",
            self.worker
        )?;
        if !self.consumed.is_empty() {
            write!(formatter, ", except the samples that {} earlier splits had read", self.consumed.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_partition_all_samples() {
        for (world_size, num_workers, run) in [(1, 1, 1), (2, 1, 3), (1, 3, 2), (3, 2, 1), (2, 3, 4)] {
            for ordinal in (0..60).chain([u64::MAX - 1, u64::MAX]) {
                let owners = (0..world_size * num_workers).filter(|number| {
                    let split = StreamSplit { rank: number % world_size, world_size, num_workers, run };
                    StreamPart { split, worker: number / world_size, consumed: Vec::new() }.owns(ordinal)
                });
                assert_eq!(owners.count(), 1, "{world_size} ranks, {num_workers} workers, runs of {run}: {ordinal}");
            }
        }
        assert!(StreamPart::WHOLE.owns(7));
    }

    #[test]
    fn runs_rotate_among_the_workers_of_a_rank() {
        let split = StreamSplit { rank: 1, world_size: 2, num_workers: 2, run: 3 };
        let workers: Vec<_> = (0..14).filter_map(|ordinal| split.worker_of(ordinal)).collect();
        assert_eq!(workers, [0, 0, 0, 1, 1, 1, 0]);
    }

    #[test]
    fn samples_read_under_earlier_splits_belong_to_no_part() {
        let (two, three) = (StreamSplit { num_workers: 2, ..StreamSplit::WHOLE }, 3);
        let consumed = [
            ConsumedSamples { split: two, until: vec![7, 4], held: vec![1, 2] },
            ConsumedSamples { split: two, until: vec![0, 12], held: vec![5] },
        ];
        let owned = (0..three).flat_map(|worker| {
            let split = StreamSplit { num_workers: three, ..StreamSplit::WHOLE };
            let part = StreamPart { split, worker, consumed: consumed.to_vec() };
            (0..16).filter(move |&ordinal| part.owns(ordinal))
        });
        let mut owned: Vec<u64> = owned.collect();
        owned.sort_unstable();
        assert_eq!(owned, [2, 5, 8, 10, 12, 13, 14, 15]);
    }
}
