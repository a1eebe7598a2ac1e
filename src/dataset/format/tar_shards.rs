//! [`TarShards`]: archives of bounded size, written by threads while the next samples are made.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::tar_header::BLOCK;
use super::tar_writer::{TarWriter, push_member};
use crate::{Error, Result};

/// So many bytes go to a thread at once, and so many of these wait for one.
const PIECE: usize = 1 << 20;
const PIECES: usize = 4;

/// A shard that is whole, under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenShard {
    /// Its place in the order in which shards were begun.
    pub number: usize,
    /// The number of its samples.
    pub samples: usize,
    /// Its size.
    pub bytes: u64,
}

/// Distributes samples over archives, each of at most a number of bytes, or of one sample. One archive is filled while threads
/// write what was filled before, wait for the disk, and give it its name.
pub struct TarShards {
    shard_bytes: u64,
    threads: ThreadPool,
    current: Option<Current>,
    begun: usize,
    outcomes: (Sender<Result<WrittenShard>>, Mutex<Receiver<Result<WrittenShard>>>),
    finished: usize,
    member: Vec<u8>,
}

struct Current {
    piece: Vec<u8>,
    /// With the number of samples so far: the last one that arrives is that of the shard.
    pieces: SyncSender<(Vec<u8>, Ending)>,
    bytes: u64,
    samples: usize,
}

#[derive(Clone, Copy)]
enum Ending {
    Goes,
    Ends { samples: usize },
}

impl TarShards {
    /// Shards of at most `shard_bytes` bytes, written by `threads` threads.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn new(shard_bytes: u64, threads: usize) -> Result<Self> {
        let threads = threads.max(1);
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|thread| format!("sluice-write-{thread}"))
            .build()
            .map_err(|error| Error::Threads { threads, reason: error.to_string() })?;
        let (sender, receiver) = channel();
        Ok(Self {
            shard_bytes,
            threads: pool,
            current: None,
            begun: 0,
            outcomes: (sender, Mutex::new(receiver)),
            finished: 0,
            member: Vec::new(),
        })
    }

    /// Appends a sample of these members (name and contents) to the shard that is being filled; `false` when it is full, or none
    /// was begun, and nothing was appended.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a name that no file can have.
    pub fn append<'a>(&mut self, members: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<bool> {
        self.member.clear();
        for (name, contents) in members {
            push_member(&mut self.member, name, contents)?;
        }
        let Some(current) = &mut self.current else { return Ok(false) };
        let bytes = self.member.len() as u64;
        if current.samples > 0 && current.bytes + bytes + 2 * BLOCK as u64 > self.shard_bytes {
            return Ok(false);
        }
        current.bytes += bytes;
        current.samples += 1;
        current.piece.extend(&self.member);
        if current.piece.len() >= PIECE {
            let piece = std::mem::replace(&mut current.piece, Vec::with_capacity(PIECE));
            // A thread that has failed says why in the end.
            let _ = current.pieces.send((piece, Ending::Goes));
        }
        Ok(true)
    }

    /// Ends the shard that is being filled, and begins the one that is to be at `path`.
    pub fn begin(&mut self, path: PathBuf) {
        self.end();
        let (pieces, arriving) = sync_channel(PIECES);
        let (number, outcomes) = (self.begun, self.outcomes.0.clone());
        self.threads.spawn(move || {
            // Nobody listens any more when the writer was dropped.
            if let Some(outcome) = write_shard(path, number, &arriving).transpose() {
                let _ = outcomes.send(outcome);
            }
        });
        self.begun += 1;
        self.current = Some(Current { piece: Vec::with_capacity(PIECE), pieces, bytes: 0, samples: 0 });
    }

    /// Ends the shard that is being filled.
    pub fn end(&mut self) {
        if let Some(current) = self.current.take() {
            let _ = current.pieces.send((current.piece, Ending::Ends { samples: current.samples }));
        }
    }

    /// The shards that are whole since this was asked last; with [`Wait::ForAll`] all that were ended.
    ///
    /// # Errors
    /// Those of writing.
    pub fn written(&mut self, wait: Wait) -> Result<Vec<WrittenShard>> {
        let outcomes = self.outcomes.1.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written = Vec::new();
        let ended = self.begun - usize::from(self.current.is_some());
        while self.finished < ended {
            let outcome = match wait {
                Wait::ForNone => outcomes.try_recv().ok(),
                Wait::ForAll => outcomes.recv().ok(),
            };
            let Some(outcome) = outcome else { break };
            self.finished += 1;
            written.push(outcome?);
        }
        Ok(written)
    }
}

/// Whether to wait for threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// What is there.
    ForNone,
    /// All there will be.
    ForAll,
}

/// Writes what arrives; nothing when it breaks off, which leaves no file.
fn write_shard(path: PathBuf, number: usize, arriving: &Receiver<(Vec<u8>, Ending)>) -> Result<Option<WrittenShard>> {
    let mut shard = TarWriter::create(path)?;
    for (piece, ending) in arriving {
        shard.write(&piece)?;
        if let Ending::Ends { samples } = ending {
            return Ok(Some(WrittenShard { number, samples, bytes: shard.finish()? }));
        }
    }
    Ok(None)
}
