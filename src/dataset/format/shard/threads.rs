//! [`ShardThreads`]: threads that write shards while the next samples are prepared.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::mem;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::ThreadPool;

use super::thread_pool::pool;
use crate::error::catch;
use crate::watch;
use crate::{Error, Result};

/// The polling interval while a queue is full.
const PAUSE: Duration = Duration::from_millis(1);

/// The interval at which waiting for a shard checks for an interruption.
const PATIENCE: Duration = Duration::from_millis(20);

/// The time without any finished shard after which `close` gives up waiting, because a file system hangs.
const GRACE: Duration = Duration::from_secs(20);

/// A complete shard, under its final name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenShard {
    /// Its position in the order in which shards were begun.
    pub number: usize,
    /// The number of its samples.
    pub samples: usize,
    /// Its size, including that of its index file, if any.
    pub bytes: u64,
}

/// Which shards to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// None: returns those that are complete.
    ForNone,
    /// All that were ended.
    ForAll,
}

/// Writes one shard, on a thread.
pub(crate) trait ShardWriter<Piece> {
    fn write(&mut self, piece: Piece) -> Result<()>;

    /// Ends the shard, waits until it is on disk, and gives it its name. Returns its size.
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// Shards written by threads, one thread per shard, its pieces in order. A shard that is not ended is removed.
pub(crate) struct ShardThreads<Piece: Send + 'static> {
    threads: ThreadPool,
    /// How many pieces may be queued for a shard; then the sender waits.
    waiting: usize,
    current: Option<SyncSender<Sent<Piece>>>,
    begun: usize,
    reported: usize,
    /// The sender is `None` once no more shards will be begun.
    outcomes: (Option<Sender<Numbered>>, Mutex<Receiver<Numbered>>),
    /// By number, the paths of the shards that were begun and have no outcome yet.
    unreported: BTreeMap<usize, PathBuf>,
    /// Complete shards that were not returned yet, because they are new or another shard had failed.
    written: Vec<WrittenShard>,
    /// Set when unfinished shards are no longer wanted.
    is_given_up: Arc<AtomicBool>,
    /// The interruption that made us give up, until it is reported.
    ended: Mutex<Option<Error>>,
    process: u32,
}

enum Sent<Piece> {
    Piece(Piece),
    End { samples: usize },
}

/// The number of a shard, and its outcome.
type Numbered = (usize, Outcome);

enum Outcome {
    Whole(WrittenShard),
    Failed(Error),
    /// The shard was not ended.
    Removed,
}

impl<Piece: Send + 'static> ShardThreads<Piece> {
    /// Starts `threads` threads, at least one.
    pub(crate) fn new(threads: usize, waiting: usize) -> Result<Self> {
        let (sender, receiver) = channel();
        Ok(Self {
            threads: pool(threads, "write")?,
            waiting,
            current: None,
            begun: 0,
            reported: 0,
            outcomes: (Some(sender), Mutex::new(receiver)),
            unreported: BTreeMap::new(),
            written: Vec::new(),
            is_given_up: Arc::default(),
            ended: Mutex::default(),
            process: process::id(),
        })
    }

    /// Begins the shard that `create` creates at `path`, on a thread. The previous one must have been ended.
    pub(crate) fn begin<W: ShardWriter<Piece> + 'static>(
        &mut self,
        path: PathBuf,
        create: impl FnOnce() -> Result<W> + Send + 'static,
    ) {
        let (sender, arriving) = sync_channel(self.waiting);
        let (number, outcomes) = (self.begun, self.outcomes.0.clone());
        let is_given_up = Arc::clone(&self.is_given_up);
        self.unreported.insert(number, path);
        self.threads.spawn(move || {
            // An uncaught panic would abort the process.
            let outcome = match catch(|| write_shard(create, number, &arriving, &is_given_up)) {
                Ok(Some(shard)) => Outcome::Whole(shard),
                Ok(None) => Outcome::Removed,
                Err(error) => Outcome::Failed(error),
            };
            if let Some(outcomes) = outcomes {
                // There may be no receiver if everything was given up.
                let _ = outcomes.send((number, outcome));
            }
        });
        self.begun += 1;
        self.current = Some(sender);
    }

    /// Sends the next piece of the current shard.
    pub(crate) fn send(&self, piece: Piece) {
        self.put(Sent::Piece(piece));
    }

    fn put(&self, mut sent: Sent<Piece>) {
        let Some(current) = &self.current else { return };
        loop {
            match current.try_send(sent) {
                Err(TrySendError::Full(again)) => sent = again,
                // A failed thread reports its error at the end.
                _ => return,
            }
            // The thread may be waiting seconds for the disk.
            if let Err(error) = watch::advance(0) {
                self.is_given_up.store(true, Ordering::Relaxed);
                *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Ends the current shard, of this many samples.
    pub(crate) fn end(&mut self, samples: usize) {
        self.put(Sent::End { samples });
        self.current = None;
    }

    /// Returns the shards completed since the last call; with [`Wait::ForAll`], waits for all shards that were ended.
    ///
    /// # Errors
    /// Those of writing, each reported once: a further call still returns the complete shards.
    pub(crate) fn written(&mut self, wait: Wait) -> Result<Vec<WrittenShard>> {
        if let Some(error) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        let outcomes = self.outcomes.1.lock().unwrap_or_else(PoisonError::into_inner);
        // A shard may fail before it is ended.
        let (begun, ended) = (self.begun, self.begun - usize::from(self.current.is_some()));
        while self.reported < begun {
            let outcome = match wait {
                Wait::ForAll if self.reported < ended => match outcomes.recv_timeout(PATIENCE) {
                    Err(RecvTimeoutError::Timeout) => {
                        watch::advance(0)?;
                        continue;
                    }
                    outcome => outcome.ok(),
                },
                _ => outcomes.try_recv().ok(),
            };
            let Some((number, outcome)) = outcome else { break };
            self.reported += 1;
            self.unreported.remove(&number);
            match outcome {
                Outcome::Whole(shard) => self.written.push(shard),
                Outcome::Failed(error) => return Err(error),
                Outcome::Removed => {}
            }
        }
        Ok(mem::take(&mut self.written))
    }

    /// Gives up all unfinished shards, and waits until no thread is writing. [`written`](Self::written) still returns
    /// the shards that were finished before.
    ///
    /// # Errors
    /// [`Error::Io`] if a thread does not end because its file system does not respond, and the error of the watcher.
    /// Threads that are still writing are left to end by themselves, and remove what they have begun.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.close_within(GRACE)
    }

    fn close_within(&mut self, grace: Duration) -> Result<()> {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.current = None;
        // The threads hold the other senders: the channel closes when the last of them is done.
        self.outcomes.0 = None;
        let outcomes = self.outcomes.1.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut last = Instant::now();
        loop {
            match outcomes.recv_timeout(PATIENCE) {
                Ok((number, outcome)) => {
                    last = Instant::now();
                    self.unreported.remove(&number);
                    if let Outcome::Whole(shard) = outcome {
                        self.written.push(shard);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let refused = watch::advance(0).err();
            let refused = refused.or_else(|| (last.elapsed() >= grace).then(|| hanging_error(&self.unreported, grace)));
            if let Some(error) = refused {
                // Dropping this must not wait again.
                *outcomes = channel().1;
                return Err(error);
            }
        }
    }
}

impl<Piece: Send + 'static> Drop for ShardThreads<Piece> {
    fn drop(&mut self) {
        // A forked child has none of these threads.
        if process::id() == self.process {
            let _ = self.close();
        }
    }
}

fn hanging_error(unreported: &BTreeMap<usize, PathBuf>, grace: Duration) -> Error {
    let path = unreported.first_key_value().map(|(_, path)| path.clone()).unwrap_or_default();
    let others = match unreported.len().saturating_sub(1) {
        0 => String::new(),
        others => format!(" (and those of {others} other shards)"),
    };
    let reason = format!(
        "the thread that writes this shard{others} did not end within {} s, because its file system does not respond; \
         check the disk or its network, and end this process before you write there again",
        grace.as_secs()
    );
    Error::Io { path, source: io::Error::new(ErrorKind::TimedOut, reason) }
}

/// Writes the arriving pieces to one shard. Returns `None`, and leaves no file, if the shard is given up.
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
        threads.begin("counting".into(), || Ok(Counting));
        threads.send(piece);
        threads.end(1);
    }

    #[test]
    fn a_failure_is_reported_once_with_the_finished_shards() {
        // With one thread, they end in the order in which they were begun.
        let mut threads = ShardThreads::new(1, 4).unwrap();
        [5, 0, 6].into_iter().for_each(|piece| shard(&mut threads, piece));
        assert!(matches!(threads.written(Wait::ForAll), Err(Error::State { reason }) if reason == "nothing"));
        let whole = threads.written(Wait::ForAll).unwrap();
        assert_eq!(whole.iter().map(|shard| (shard.number, shard.bytes)).collect::<Vec<_>>(), [(0, 7), (2, 7)]);
        assert!(threads.written(Wait::ForAll).unwrap().is_empty());
    }

    #[test]
    fn early_finished_shards_are_reported_at_the_end() {
        let mut threads = ShardThreads::new(1, 4).unwrap();
        shard(&mut threads, 5);
        while threads.written.is_empty() {
            threads.written = threads.written(Wait::ForNone).unwrap();
        }
        threads.begin("counting".into(), || Ok(Counting));
        threads.send(6);
        threads.close().unwrap();
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
        assert_eq!(threads.written(Wait::ForAll).unwrap().len(), 1, "its thread continues");
    }

    /// A shard whose file system hangs: it reports that it is waiting, and waits.
    struct Hanging(Sender<()>, Receiver<()>);

    impl ShardWriter<u64> for Hanging {
        fn write(&mut self, _: u64) -> Result<()> {
            Ok(())
        }

        fn finish(self: Box<Self>) -> Result<u64> {
            self.0.send(()).unwrap();
            let _ = self.1.recv();
            Ok(7)
        }
    }

    /// Threads, one of which hangs until the returned sender is dropped.
    fn hanging(threads: usize) -> (ShardThreads<u64>, Sender<()>) {
        let ((waits, has_waited), (hang, released)) = (channel(), channel());
        let mut threads = ShardThreads::new(threads, 4).unwrap();
        threads.begin("hanging".into(), move || Ok(Hanging(waits, released)));
        threads.end(1);
        has_waited.recv().unwrap();
        (threads, hang)
    }

    #[test]
    fn a_file_system_that_hangs_is_an_error_that_names_the_shard() {
        let (mut threads, _hang) = hanging(2);
        shard(&mut threads, 5);
        while threads.written.is_empty() {
            threads.written = threads.written(Wait::ForNone).unwrap();
        }
        let error = threads.close_within(Duration::from_millis(100)).unwrap_err().to_string();
        assert!(error.starts_with("hanging: "), "{error}");
        // Reported once: neither this nor the drop waits again.
        threads.close_within(Duration::from_secs(600)).unwrap();
        assert_eq!(threads.written(Wait::ForNone).unwrap().len(), 1, "the other is whole");
        drop(threads);
    }

    #[test]
    fn a_watcher_ends_the_wait_for_a_file_system_that_hangs() {
        let (mut threads, _hang) = hanging(1);
        let watcher = Box::new(|_| Err(Error::State { reason: "enough".into() }));
        let error = watch::within(watcher, || threads.close_within(Duration::from_secs(600))).unwrap_err();
        assert!(error.to_string().contains("enough"), "{error}");
        drop(threads);
    }
}
