//! [`ShardThreads`]: threads that write shards while the next samples are made.

use std::mem;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::catch;
use crate::watch;
use crate::{Error, Result};

/// The time between two looks at whether a thread has room for a piece.
const PAUSE: Duration = Duration::from_millis(1);

/// The time after which one who waits for a shard looks at whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(20);

/// A shard that is whole, under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenShard {
    /// Its place in the order in which shards were begun.
    pub number: usize,
    /// The number of its samples.
    pub samples: usize,
    /// Its size, with that of a file that belongs to it.
    pub bytes: u64,
}

/// Whether to wait for threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// What is there.
    ForNone,
    /// All there will be.
    ForAll,
}

/// One shard, as a thread writes it.
pub(super) trait ShardWriter<Piece> {
    fn write(&mut self, piece: Piece) -> Result<()>;

    /// Ends the shard, waits until it is on the disk, and gives it its name. Returns its size.
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// Shards that threads write, one thread a shard: what is sent for a shard arrives in order. One that is not ended is removed.
pub(super) struct ShardThreads<Piece: Send + 'static> {
    threads: ThreadPool,
    /// How many pieces wait for their thread; then whoever sends waits too.
    waiting: usize,
    current: Option<SyncSender<Sent<Piece>>>,
    begun: usize,
    heard: usize,
    /// Nothing once it is known that no more shard will be begun.
    outcomes: (Option<Sender<Outcome>>, Mutex<Receiver<Outcome>>),
    /// What is whole, and was not asked for yet; or was, when another shard had failed.
    written: Vec<WrittenShard>,
    /// Set when shards that are not finished yet are not wanted any more.
    is_given_up: Arc<AtomicBool>,
    /// Why all was given up, until it is told.
    ended: Mutex<Option<Error>>,
    process: u32,
}

enum Sent<Piece> {
    Piece(Piece),
    End { samples: usize },
}

enum Outcome {
    Whole(WrittenShard),
    Failed(Error),
    /// The shard was not ended.
    Removed,
}

impl<Piece: Send + 'static> ShardThreads<Piece> {
    /// `threads` threads, at least one.
    pub(super) fn new(threads: usize, waiting: usize) -> Result<Self> {
        let (sender, receiver) = channel();
        Ok(Self {
            threads: pool(threads, "write")?,
            waiting,
            current: None,
            begun: 0,
            heard: 0,
            outcomes: (Some(sender), Mutex::new(receiver)),
            written: Vec::new(),
            is_given_up: Arc::default(),
            ended: Mutex::default(),
            process: process::id(),
        })
    }

    /// Ends nothing, and begins the shard that `create` creates, on its thread.
    pub(super) fn begin<W: ShardWriter<Piece> + 'static>(
        &mut self,
        create: impl FnOnce() -> Result<W> + Send + 'static,
    ) {
        let (sender, arriving) = sync_channel(self.waiting);
        let (number, outcomes) = (self.begun, self.outcomes.0.clone());
        let is_given_up = Arc::clone(&self.is_given_up);
        self.threads.spawn(move || {
            // A panic that nobody caught would end the process.
            let outcome = match catch(|| write_shard(create, number, &arriving, &is_given_up)) {
                Ok(Some(shard)) => Outcome::Whole(shard),
                Ok(None) => Outcome::Removed,
                Err(error) => Outcome::Failed(error),
            };
            if let Some(outcomes) = outcomes {
                // Nobody listens any more when all was given up.
                let _ = outcomes.send(outcome);
            }
        });
        self.begun += 1;
        self.current = Some(sender);
    }

    /// Sends the next piece of the shard that was begun last.
    pub(super) fn send(&self, piece: Piece) {
        self.put(Sent::Piece(piece));
    }

    fn put(&self, mut sent: Sent<Piece>) {
        let Some(current) = &self.current else { return };
        loop {
            match current.try_send(sent) {
                Err(TrySendError::Full(again)) => sent = again,
                // A thread that has failed says why in the end.
                _ => return,
            }
            // The thread may be waiting for the disk, for seconds.
            if let Err(error) = watch::advance(0) {
                self.is_given_up.store(true, Ordering::Relaxed);
                *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Ends the shard that was begun last, of so many samples.
    pub(super) fn end(&mut self, samples: usize) {
        self.put(Sent::End { samples });
        self.current = None;
    }

    /// The shards that are whole since this was asked last; with [`Wait::ForAll`] all that were ended.
    ///
    /// # Errors
    /// Those of writing, each once: asking again tells what is whole all the same.
    pub(super) fn written(&mut self, wait: Wait) -> Result<Vec<WrittenShard>> {
        if let Some(error) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        let outcomes = self.outcomes.1.lock().unwrap_or_else(PoisonError::into_inner);
        // What fails says so before its end.
        let (begun, ended) = (self.begun, self.begun - usize::from(self.current.is_some()));
        while self.heard < begun {
            let outcome = match wait {
                Wait::ForAll if self.heard < ended => match outcomes.recv_timeout(PATIENCE) {
                    Err(RecvTimeoutError::Timeout) => {
                        watch::advance(0)?;
                        continue;
                    }
                    outcome => outcome.ok(),
                },
                _ => outcomes.try_recv().ok(),
            };
            let Some(outcome) = outcome else { break };
            self.heard += 1;
            match outcome {
                Outcome::Whole(shard) => self.written.push(shard),
                Outcome::Failed(error) => return Err(error),
                Outcome::Removed => {}
            }
        }
        Ok(mem::take(&mut self.written))
    }

    /// Gives up every shard that is not finished, and waits until no thread writes any more. [`written`](Self::written) still
    /// returns the shards that were finished before.
    pub(super) fn close(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.current = None;
        // The threads hold the other senders: the channel closes when the last of them is done.
        self.outcomes.0 = None;
        let outcomes = self.outcomes.1.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(outcome) = outcomes.recv() {
            if let Outcome::Whole(shard) = outcome {
                self.written.push(shard);
            }
        }
    }
}

impl<Piece: Send + 'static> Drop for ShardThreads<Piece> {
    fn drop(&mut self) {
        // A forked child has none of the threads.
        if process::id() == self.process {
            self.close();
        }
    }
}

/// `threads` threads that are called `what`.
pub(super) fn pool(threads: usize, what: &'static str) -> Result<ThreadPool> {
    let threads = threads.max(1);
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |thread| format!("sluice-{what}-{thread}"))
        .build()
        .map_err(|error| Error::Threads { threads, reason: error.to_string() })
}

/// Writes the pieces that arrive to one shard. Returns nothing, and leaves no file, if the shard is given up.
fn write_shard<Piece, W: ShardWriter<Piece>>(
    create: impl FnOnce() -> Result<W>,
    number: usize,
    arriving: &Receiver<Sent<Piece>>,
    is_given_up: &AtomicBool,
) -> Result<Option<WrittenShard>> {
    if is_given_up.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut shard = Box::new(create()?);
    for sent in arriving {
        if is_given_up.load(Ordering::Relaxed) {
            break;
        }
        match sent {
            Sent::Piece(piece) => shard.write(piece)?,
            Sent::End { samples } => return Ok(Some(WrittenShard { number, samples, bytes: shard.finish()? })),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;

    impl ShardWriter<u64> for Counting {
        fn write(&mut self, piece: u64) -> Result<()> {
            match piece {
                0 => Err(Error::State { reason: "nothing".into() }),
                1 => panic!("one"),
                _ => Ok(()),
            }
        }

        fn finish(self: Box<Self>) -> Result<u64> {
            Ok(7)
        }
    }

    fn shard(threads: &mut ShardThreads<u64>, piece: u64) {
        threads.begin(|| Ok(Counting));
        threads.send(piece);
        threads.end(1);
    }

    #[test]
    fn what_fails_is_told_once_and_what_is_whole_all_the_same() {
        // One thread: they end in the order in which they were begun.
        let mut threads = ShardThreads::new(1, 4).unwrap();
        [5, 0, 6].into_iter().for_each(|piece| shard(&mut threads, piece));
        assert!(matches!(threads.written(Wait::ForAll), Err(Error::State { reason }) if reason == "nothing"));
        let whole = threads.written(Wait::ForAll).unwrap();
        assert_eq!(whole.iter().map(|shard| (shard.number, shard.bytes)).collect::<Vec<_>>(), [(0, 7), (2, 7)]);
        assert!(threads.written(Wait::ForAll).unwrap().is_empty());
    }

    #[test]
    fn shards_that_finish_before_the_end_are_known_after_it() {
        let mut threads = ShardThreads::new(1, 4).unwrap();
        shard(&mut threads, 5);
        while threads.written.is_empty() {
            threads.written = threads.written(Wait::ForNone).unwrap();
        }
        threads.begin(|| Ok(Counting));
        threads.send(6);
        threads.close();
        assert_eq!(threads.written(Wait::ForNone).unwrap().len(), 1);
        shard(&mut threads, 7);
        assert!(threads.written(Wait::ForAll).unwrap().is_empty(), "given up");
    }

    #[test]
    fn a_panic_is_an_error() {
        let mut threads = ShardThreads::new(2, 1).unwrap();
        shard(&mut threads, 1);
        assert!(matches!(threads.written(Wait::ForAll), Err(Error::Panic { message, .. }) if message == "one"));
        shard(&mut threads, 2);
        assert_eq!(threads.written(Wait::ForAll).unwrap().len(), 1, "its thread goes on");
    }
}
