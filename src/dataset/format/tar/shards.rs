//! [`TarShards`]: archives of bounded size, written by threads while the next samples are prepared.

use std::path::PathBuf;

use super::header::BLOCK;
use super::writer::{TarWriter, push_member};
use crate::Result;
use crate::dataset::format::shard::threads::{ShardThreads, Wait, WrittenShard};

/// The bytes that are passed to a thread at a time, and how many such pieces may be queued.
const PIECE: usize = 1 << 20;
const PIECES: usize = 4;

/// Distributes samples over archives, each of at most a given number of bytes, or of one sample. One is filled while
/// threads write, sync and rename the earlier ones. A shard dropped before its end leaves no file.
pub struct TarShards {
    shard_bytes: u64,
    threads: ShardThreads<Vec<u8>>,
    current: Option<Current>,
    member: Vec<u8>,
}

#[derive(Default)]
struct Current {
    piece: Vec<u8>,
    bytes: u64,
    samples: usize,
}

impl TarShards {
    /// Shards of at most `shard_bytes` bytes, written by `threads` threads.
    ///
    /// # Errors
    /// [`Error::Threads`](crate::Error::Threads).
    pub fn new(shard_bytes: u64, threads: usize) -> Result<Self> {
        let threads = ShardThreads::new(threads, PIECES)?;
        Ok(Self { shard_bytes, threads, current: None, member: Vec::new() })
    }

    /// Appends a sample of these members (name and contents) to the current shard. Returns `false`, and appends
    /// nothing, if the shard is full or none was begun.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an invalid file name.
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
            self.threads.send(std::mem::replace(&mut current.piece, Vec::with_capacity(PIECE)));
        }
        Ok(true)
    }

    /// Ends the current shard, and begins the one that will be at `path`.
    pub fn begin(&mut self, path: PathBuf) {
        self.end();
        self.threads.begin(path.clone(), move || TarWriter::create(path));
        self.current = Some(Current::default());
    }

    /// Ends the current shard.
    pub fn end(&mut self) {
        if let Some(current) = self.current.take() {
            self.threads.send(current.piece);
            self.threads.end(current.samples);
        }
    }

    /// Returns the shards completed since the last call; with [`Wait::ForAll`], waits for all shards that were ended.
    ///
    /// # Errors
    /// Those of writing.
    pub fn written(&mut self, wait: Wait) -> Result<Vec<WrittenShard>> {
        self.threads.written(wait)
    }

    /// Discards the current shard, and waits until no thread is writing.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if a thread does not end within 20 seconds because the file system does not
    /// respond; it names the shard.
    pub fn close(&mut self) -> Result<()> {
        self.current = None;
        self.threads.close()
    }
}
