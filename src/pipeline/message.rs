//! Messages between the consumer and a worker process: eight words each, with longer data stored separately.

use std::ops::Range;

/// The kind of a worker's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Fetch one batch, and answer.
    Fetch = 1,
    /// Start a new epoch. The worker sends no answer.
    Resume,
    /// Stop. The worker sends no answer.
    Stop,
}

/// The outcome of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The batch is ready.
    Batch = 1,
    /// The fetch failed.
    Failed,
    /// The worker's stream has ended.
    Ended,
}

/// Identifies a batch, so that batches of an abandoned epoch are distinguishable from those of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchNumber {
    /// The number of the epoch, counted by the sender of the request.
    pub epoch: u64,
    /// The number of the batch in the epoch.
    pub batch_in_epoch: u64,
}

/// A request: the kind of task, the data that belongs to it (pickled indices, for example), and where to write the
/// batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: TaskKind,
    pub(crate) number: BatchNumber,
    pub(crate) payload: Range<usize>,
    pub(crate) room: Range<usize>,
    /// New spare room from this request on; empty if the worker keeps its current one.
    pub(crate) spare: Range<usize>,
}

/// An answer: a range of the segment that contains the tensors, then their table, then the envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) outcome: Outcome,
    pub(crate) number: BatchNumber,
    /// In nanoseconds of the monotonic clock, to order the answers of several workers.
    pub(crate) at: u64,
    pub(crate) used: Range<usize>,
    /// Offsets of the table and of the envelope from the start of the used range.
    pub(crate) table: usize,
    pub(crate) envelope: usize,
}

fn head(code: u64, epoch: u64) -> u64 {
    code | epoch << 8
}

impl Request {
    pub(crate) fn to_words(&self) -> [u64; 8] {
        let range = |range: &Range<usize>| [range.start as u64, range.end as u64];
        let ([a, b], [c, d], [e, f]) = (range(&self.payload), range(&self.room), range(&self.spare));
        [head(self.kind as u64, self.number.epoch), self.number.batch_in_epoch, a, b, c, d, e, f]
    }

    pub(crate) fn from_words(words: [u64; 8]) -> Option<Self> {
        let mut kinds = [TaskKind::Fetch, TaskKind::Resume, TaskKind::Stop].into_iter();
        let kind = kinds.find(|&kind| kind as u64 == words[0] & 0xff)?;
        let range = |at: usize| words[at] as usize..words[at + 1] as usize;
        let number = BatchNumber { epoch: words[0] >> 8, batch_in_epoch: words[1] };
        Some(Self { kind, number, payload: range(2), room: range(4), spare: range(6) })
    }
}

impl Reply {
    pub(crate) fn to_words(&self) -> [u64; 8] {
        let Range { start, end } = self.used;
        let numbers = [self.at, start as u64, end as u64, self.table as u64, self.envelope as u64];
        let [at, start, end, table, envelope] = numbers;
        [head(self.outcome as u64, self.number.epoch), self.number.batch_in_epoch, at, start, end, table, envelope, 0]
    }

    /// Returns None if the words are invalid: a worker's code may have overwritten its memory.
    pub(crate) fn from_words(words: [u64; 8]) -> Option<Self> {
        let mut outcomes = [Outcome::Batch, Outcome::Failed, Outcome::Ended].into_iter();
        let outcome = outcomes.find(|&outcome| outcome as u64 == words[0] & 0xff)?;
        let number = BatchNumber { epoch: words[0] >> 8, batch_in_epoch: words[1] };
        let (used, table, envelope) = (words[3] as usize..words[4] as usize, words[5] as usize, words[6] as usize);
        let sound = used.start <= used.end && table <= envelope && envelope <= used.end - used.start;
        sound.then_some(Self { outcome, number, at: words[2], used, table, envelope })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arbitrary_words_decode_within_bounds(words in any::<[u64; 8]>(), code in 0..5_u64, shift in 0..64_u32) {
            // Test small numbers too: large ones are hardly ever in ascending order.
            let mut words = words.map(|word| word >> shift);
            words[0] = words[0] & !0xff | code;
            if let Some(reply) = Reply::from_words(words) {
                prop_assert!(reply.table <= reply.envelope && reply.used.start + reply.envelope <= reply.used.end);
                prop_assert_eq!(Reply::from_words(reply.to_words()), Some(reply));
            }
            if let Some(request) = Request::from_words(words) {
                prop_assert_eq!(Request::from_words(request.to_words()), Some(request));
            }
            prop_assert_eq!(Request::from_words(words).is_some(), (1..=3).contains(&code));
        }
    }
}
