//! [`Readers`]: the readers of one pass over a stream, and the blocks that each has yet to take.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;

use crate::dataset::{StreamPart, StreamPosition, StreamSplit};
use crate::{Error, Result, SampleBlock};

/// A reader may be this many times as far behind as the others read ahead before it is left behind.
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
    /// The most bytes that a reader has collected while it waited: those of a batch.
    in_hand: usize,
}

struct Reader {
    part: StreamPart,
    from: StreamPosition,
    /// Blocks that it has not taken, each with true if it reports what was left out.
    blocks: VecDeque<(Arc<SampleBlock>, bool)>,
    bytes: usize,
    /// The number of samples that it is waiting for.
    awaited: usize,
    outcome: Option<Outcome>,
    /// True if it gets no more blocks.
    is_done: bool,
    is_gone: bool,
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
    /// Adds a reader and returns its number; `None` for one of another split.
    pub(super) fn join(&mut self, part: &StreamPart, from: StreamPosition, bytes_ahead: usize) -> Option<usize> {
        if self.all.first().is_some_and(|first| first.part.split != part.split) {
            return None;
        }
        self.ahead = self.ahead.saturating_add(bytes_ahead);
        let (part, blocks, outcome) = (part.clone(), VecDeque::new(), None);
        self.all.push(Reader { part, from, blocks, bytes: 0, awaited: 0, outcome, is_done: false, is_gone: false });
        Some(self.all.len() - 1)
    }

    /// What all of them read together, and where that begins.
    pub(super) fn whole(&self) -> (StreamPart, StreamPosition) {
        let first = self.active().min_by_key(|reader| reader.from.ordinal);
        let Some(first) = first else { return (StreamPart::WHOLE, StreamPosition::default()) };
        if self.active().count() == 1 {
            return (first.part.clone(), first.from);
        }
        // One that is further along may have forgotten what was read under earlier splits.
        let split = StreamSplit { num_workers: 1, run: 1, ..first.part.split };
        (StreamPart { split, worker: 0, consumed: first.part.consumed.clone() }, first.from)
    }

    fn active(&self) -> impl Iterator<Item = &Reader> {
        self.all.iter().filter(|reader| !reader.is_done)
    }

    /// True if none gets any more blocks.
    pub(super) fn is_empty(&self) -> bool {
        self.active().next().is_none()
    }

    /// True if none is there any longer.
    pub(super) fn are_gone(&self) -> bool {
        self.all.iter().all(|reader| reader.is_gone)
    }

    /// True if a reader has waited long enough for a block of this many samples, some of which are its own.
    pub(super) fn await_a_block(&self, samples: usize) -> bool {
        let awaited = self.active().map(|reader| reader.awaited).filter(|&awaited| awaited > 0).min();
        awaited.is_some_and(|awaited| samples >= awaited.saturating_mul(self.active().count()))
    }

    /// True if there is no room for a block: a reader has enough, and none is waiting.
    pub(super) fn are_full(&self, block: &SampleBlock) -> bool {
        let is_full = |reader: &Reader| reader.bytes > 0 && reader.bytes.saturating_add(size(block)) > self.ahead;
        self.active().any(is_full) && !self.active().any(Reader::is_starving)
    }

    /// Gives all a block that begins at `at`. A reader that is too far behind the others gets no more.
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

    /// Gives the reader that owns the sample of this ordinal its error.
    pub(super) fn fail(&mut self, ordinal: u64, error: Error) {
        let owns = |reader: &&mut Reader| reader.part.owns(ordinal) && reader.from.ordinal <= ordinal;
        if let Some(reader) = self.all.iter_mut().filter(|reader| !reader.is_done).find(owns) {
            reader.outcome = Some(Outcome::Failed(error));
            reader.is_done = true;
        }
    }

    /// Ends the pass for all that are left; it was at `at` after the last block.
    pub(super) fn end(&mut self, outcome: Result<()>, at: StreamPosition) {
        let has_failed = outcome.is_err();
        let mut failure = outcome.err();
        for reader in self.all.iter_mut().filter(|reader| !reader.is_done) {
            let copy = failure.as_ref().and_then(copied);
            reader.outcome = Some(match mem::replace(&mut failure, copy) {
                Some(error) => Outcome::Failed(error),
                // A reader that continues by itself finds the same error.
                None if has_failed => Outcome::Elsewhere(reader.later_of(at)),
                None => Outcome::End,
            });
            reader.is_done = true;
        }
    }

    /// Notes that a reader waits for this many samples, while it has `in_hand` bytes.
    pub(super) fn wait(&mut self, number: usize, samples: usize, in_hand: usize) {
        self.in_hand = self.in_hand.max(in_hand);
        self.all[number].awaited = samples;
    }

    /// The blocks that a reader has yet to take.
    pub(super) fn take(&mut self, number: usize) -> VecDeque<(Arc<SampleBlock>, bool)> {
        self.all[number].bytes = 0;
        mem::take(&mut self.all[number].blocks)
    }

    /// How it ends for a reader, if it does.
    pub(super) fn outcome(&mut self, number: usize) -> Option<Outcome> {
        self.all[number].outcome.take()
    }

    /// A reader is gone.
    pub(super) fn leave(&mut self, number: usize) {
        let reader = &mut self.all[number];
        (reader.is_done, reader.is_gone, reader.awaited) = (true, true, 0);
        reader.blocks.clear();
    }
}

/// Samples without bytes count, too.
fn size(block: &SampleBlock) -> usize {
    block.bytes() + block.len()
}

/// The same error again, if there can be two of it.
fn copied(error: &Error) -> Option<Error> {
    Some(match error {
        Error::Format { path, offset, reason } => {
            Error::Format { path: path.clone(), offset: *offset, reason: reason.clone() }
        }
        Error::Io { path, source } => {
            Error::Io { path: path.clone(), source: io::Error::from_raw_os_error(source.raw_os_error()?) }
        }
        Error::InvalidArgument { argument, reason } => Error::InvalidArgument { argument, reason: reason.clone() },
        Error::Process { command, status, stderr } => {
            Error::Process { command: command.clone(), status: status.clone(), stderr: stderr.clone() }
        }
        _ => return None,
    })
}
