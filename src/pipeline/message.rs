//! What the consumer and a worker process say to each other: one descriptor each, with what is longer beside it.

use std::ops::Range;

/// What a worker is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Fetch one batch, and answer.
    Fetch,
    /// Begin another epoch. There is no answer.
    Resume,
    /// End: there is no more work. There is no answer.
    Stop,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is there.
    Batch,
    /// Fetching it failed.
    Failed,
    /// The worker's stream has ended.
    Ended,
}

/// Which batch: those of an epoch that was left are told apart from those of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchNumber {
    /// The number of the epoch, counted by whoever asks.
    pub epoch: u64,
    /// The number of the batch in the epoch.
    pub batch_in_epoch: u64,
}

/// A request: the kind of task, what belongs to it (pickled indices, for example), and where the batch may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: TaskKind,
    pub(crate) number: BatchNumber,
    pub(crate) payload: Range<usize>,
    pub(crate) room: Range<usize>,
    /// New spare room, from this request on; empty when the worker keeps the one it has.
    pub(crate) spare: Range<usize>,
}

/// An answer: a range of the segment, in which the tensors lie first, then their table, then the envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) outcome: Outcome,
    pub(crate) number: BatchNumber,
    /// In nanoseconds of the monotonic clock: among the answers of several workers, the first comes first.
    pub(crate) at: u64,
    pub(crate) used: Range<usize>,
    /// From the start of what is used: where the table starts, and where the envelope.
    pub(crate) table: usize,
    pub(crate) envelope: usize,
}

fn head(code: u64, epoch: u64) -> u64 {
    code | epoch << 8
}

impl Request {
    pub(crate) fn to_words(&self) -> [u64; 8] {
        let code = match self.kind {
            TaskKind::Fetch => 1,
            TaskKind::Resume => 2,
            TaskKind::Stop => 3,
        };
        let range = |range: &Range<usize>| [range.start as u64, range.end as u64];
        let ([a, b], [c, d], [e, f]) = (range(&self.payload), range(&self.room), range(&self.spare));
        [head(code, self.number.epoch), self.number.batch_in_epoch, a, b, c, d, e, f]
    }

    pub(crate) fn from_words(words: [u64; 8]) -> Option<Self> {
        let kind = match words[0] & 0xff {
            1 => TaskKind::Fetch,
            2 => TaskKind::Resume,
            3 => TaskKind::Stop,
            _ => return None,
        };
        let range = |at: usize| words[at] as usize..words[at + 1] as usize;
        let number = BatchNumber { epoch: words[0] >> 8, batch_in_epoch: words[1] };
        Some(Self { kind, number, payload: range(2), room: range(4), spare: range(6) })
    }
}

impl Reply {
    pub(crate) fn to_words(&self) -> [u64; 8] {
        let code = match self.outcome {
            Outcome::Batch => 1,
            Outcome::Failed => 2,
            Outcome::Ended => 3,
        };
        let Range { start, end } = self.used;
        let numbers = [self.at, start as u64, end as u64, self.table as u64, self.envelope as u64];
        let [at, start, end, table, envelope] = numbers;
        [head(code, self.number.epoch), self.number.batch_in_epoch, at, start, end, table, envelope, 0]
    }

    /// Nothing when the words make no sense: a worker's memory may have been overwritten by its own code.
    pub(crate) fn from_words(words: [u64; 8]) -> Option<Self> {
        let outcome = match words[0] & 0xff {
            1 => Outcome::Batch,
            2 => Outcome::Failed,
            3 => Outcome::Ended,
            _ => return None,
        };
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
        fn whatever_the_words_an_answer_lies_in_itself(words in any::<[u64; 8]>(), code in 0..5_u64, shift in 0..64_u32) {
            // Small numbers too: of large ones hardly any are in order.
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
