//! [`Readers`]: the readers of one pass over a stream, and the blocks that each has yet to take.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;

use crate::dataset::{StreamPart, StreamPosition, StreamSplit};
use crate::{Error, Result, SampleBlock};

/// A reader is excluded from a pass when it is this many times as far behind as the pass reads ahead.
const MOST_BEHIND: usize = 4;

/// How a reader's part of a pass ends.
pub(super) enum Outcome {
    /// The stream has ended.
    End,
    Failed(Error),
    /// The reader continues by itself from this position.
    Elsewhere(StreamPosition),
}

/// The readers of one pass.
#[derive(Default)]
pub(super) struct Readers {
    all: Vec<Reader>,
    /// The number of bytes to read ahead of the readers.
    ahead: usize,
    /// The most bytes that a reader has collected during one wait: those of a batch.
    in_hand: usize,
}

struct Reader {
    part: StreamPart,
    from: StreamPosition,
    /// Blocks that it has not taken, each with true if it must report the items that were skipped.
    blocks: VecDeque<(Arc<SampleBlock>, bool)>,
    bytes: usize,
    /// The number of samples that it is waiting for.
    awaited: usize,
    outcome: Option<Outcome>,
    /// True if it receives no more blocks.
    is_done: bool,
    has_left: bool,
}

impl Reader {
    fn later_of(&self, position: StreamPosition) -> StreamPosition {
        if self.from.ordinal > position.ordinal { self.from } else { position }
    }

    fn is_starving(&self) -> bool {
        self.awaited > 0 && self.blocks.is_empty()
    }
}

impl Readers {
    /// Adds a reader and returns its number, or `None` if its split differs from that of the others.
    pub(super) fn join(&mut self, part: &StreamPart, from: StreamPosition, bytes_ahead: usize) -> Option<usize> {
        if self.all.first().is_some_and(|first| first.part.split != part.split) {
            return None;
        }
        self.ahead = self.ahead.saturating_add(bytes_ahead);
        let (part, blocks, outcome) = (part.clone(), VecDeque::new(), None);
        self.all.push(Reader { part, from, blocks, bytes: 0, awaited: 0, outcome, is_done: false, has_left: false });
        Some(self.all.len() - 1)
    }

    /// Returns the part of the stream that all readers read together, and where it begins.
    pub(super) fn whole(&self) -> (StreamPart, StreamPosition) {
        let first = self.active().min_by_key(|reader| reader.from.ordinal);
        let Some(first) = first else { return (StreamPart::WHOLE, StreamPosition::default()) };
        if self.active().count() == 1 {
            return (first.part.clone(), first.from);
        }
        // From the first reader: one that is further along may have forgotten what was read under earlier splits.
        let split = StreamSplit { num_workers: 1, run: 1, ..first.part.split };
        (StreamPart { split, worker: 0, consumed: first.part.consumed.clone() }, first.from)
    }

    fn active(&self) -> impl Iterator<Item = &Reader> {
        self.all.iter().filter(|reader| !reader.is_done)
    }

    /// True if all readers are done.
    pub(super) fn is_empty(&self) -> bool {
        self.active().next().is_none()
    }

    /// True if all readers have left.
    pub(super) fn have_all_left(&self) -> bool {
        self.all.iter().all(|reader| reader.has_left)
    }

    /// True if the block, which has this many samples, probably has enough of them for a reader that waits.
    pub(super) fn satisfies_a_reader(&self, samples: usize) -> bool {
        let awaited = self.active().map(|reader| reader.awaited).filter(|&awaited| awaited > 0).min();
        awaited.is_some_and(|awaited| samples >= awaited.saturating_mul(self.active().count()))
    }

    /// True if there is no room for a block: a reader has enough bytes, and none is starving.
    pub(super) fn are_full(&self, block: &SampleBlock) -> bool {
        let is_full = |reader: &Reader| reader.bytes > 0 && reader.bytes.saturating_add(size(block)) > self.ahead;
        self.active().any(is_full) && !self.active().any(Reader::is_starving)
    }

    /// Gives all readers a block that begins at `at`. A reader that is too far behind is excluded instead.
    pub(super) fn push(&mut self, block: SampleBlock, at: StreamPosition) {
        let (bytes, block) = (size(&block), Arc::new(block));
        let readers = self.active().count();
        let rounds = self.in_hand.saturating_mul(readers).saturating_mul(2);
        let most = self.ahead.saturating_mul(MOST_BEHIND).max(rounds);
        let mut reports = true;
        for reader in self.all.iter_mut().filter(|reader| !reader.is_done) {
            if readers > 1 && reader.bytes > 0 && reader.bytes.saturating_add(bytes) > most {
                reader.outcome = Some(Outcome::Elsewhere(reader.later_of(at)));
                reader.is_done = true;
                continue;
            }
            reader.bytes += bytes;
            reader.blocks.push_back((Arc::clone(&block), mem::take(&mut reports)));
        }
    }

    /// Gives `error` to the reader that owns the sample with this ordinal.
    pub(super) fn fail(&mut self, ordinal: u64, error: Error) {
        let owns = |reader: &&mut Reader| reader.part.owns(ordinal) && reader.from.ordinal <= ordinal;
        if let Some(reader) = self.all.iter_mut().filter(|reader| !reader.is_done).find(owns) {
            reader.outcome = Some(Outcome::Failed(error));
            reader.is_done = true;
        }
    }

    /// Ends the pass for all remaining readers; `at` is the position after the last block.
    pub(super) fn end(&mut self, outcome: Result<()>, at: StreamPosition) {
        let has_failed = outcome.is_err();
        let mut failure = outcome.err();
        for reader in self.all.iter_mut().filter(|reader| !reader.is_done) {
            let copy = failure.as_ref().and_then(copied);
            reader.outcome = Some(match mem::replace(&mut failure, copy) {
                Some(error) => Outcome::Failed(error),
                // The error cannot be copied; a reader that continues by itself gets the same one.
                None if has_failed => Outcome::Elsewhere(reader.later_of(at)),
                None => Outcome::End,
            });
            reader.is_done = true;
        }
    }

    /// Records that a reader waits for this many samples, and has collected `in_hand` bytes during this wait.
    pub(super) fn wait(&mut self, number: usize, samples: usize, in_hand: usize) {
        self.in_hand = self.in_hand.max(in_hand);
        self.all[number].awaited = samples;
    }

    /// Removes and returns the blocks that a reader has not taken.
    pub(super) fn take(&mut self, number: usize) -> VecDeque<(Arc<SampleBlock>, bool)> {
        self.all[number].bytes = 0;
        mem::take(&mut self.all[number].blocks)
    }

    /// Removes and returns the outcome for a reader, if there is one.
    pub(super) fn outcome(&mut self, number: usize) -> Option<Outcome> {
        self.all[number].outcome.take()
    }

    /// Records that a reader has left.
    pub(super) fn leave(&mut self, number: usize) {
        let reader = &mut self.all[number];
        (reader.is_done, reader.has_left, reader.awaited) = (true, true, 0);
        reader.blocks.clear();
    }
}

/// Returns the size of a block; samples without bytes count, too.
fn size(block: &SampleBlock) -> usize {
    block.bytes() + block.len()
}

/// Returns a copy of an error, or None if it cannot be copied.
fn copied(error: &Error) -> Option<Error> {
    Some(match error {
        Error::Format { path, offset, reason } => {
            Error::Format { path: path.clone(), offset: *offset, reason: reason.clone() }
        }
        Error::Io { path, source } => {
            Error::Io { path: path.clone(), source: io::Error::from_raw_os_error(source.raw_os_error()?) }
        }
        Error::InvalidArgument { argument, reason } => Error::invalid(argument, reason.clone()),
        Error::Process { command, status, stderr } => {
            Error::Process { command: command.clone(), status: status.clone(), stderr: stderr.clone() }
        }
        _ => return None,
    })
}
