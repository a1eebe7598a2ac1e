//! [`TokenShards`]: files of tokens, flat or Megatron pairs, written by threads while the next documents are prepared.

use std::path::PathBuf;

use super::files::check_dtype;
use super::megatron_index::{code_of, encode_index};
use crate::dataset::format::shard::file::ShardFile;
use crate::dataset::format::shard::threads::{ShardThreads, ShardWriter, Wait, WrittenShard};
use crate::{DType, Error, Result};

/// The bytes that are passed to a thread at a time, and how many such pieces may be queued.
const PIECE: usize = 1 << 20;
const PIECES: usize = 4;

/// The format of a shard of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenShardLayout {
    /// Only tokens.
    Flat,
    /// A `.bin` of tokens, and a `.idx` with the documents.
    Megatron,
}

/// Distributes documents over files of tokens, each of at most a given number of bytes, or of one document. One file is
/// filled while threads write the earlier ones, sync them to disk, and give them their names. A shard dropped before
/// its end leaves no file.
///
/// # Example
/// ```
/// use sluicegate::internal::{TokenShardLayout, TokenShards, Wait};
/// use sluicegate::{DType, Documents, TokenFiles, TokenLayout};
/// # let folder = tempfile::TempDir::new().unwrap();
/// # let path = folder.path().join("a.bin");
/// let mut shards = TokenShards::new(1 << 20, TokenShardLayout::Megatron, DType::UInt8, 1)?;
/// shards.begin(path.clone());
/// for document in [[1, 2, 3].as_slice(), &[], &[4]] {
///     assert!(shards.append(document)?);
/// }
/// shards.end();
/// assert_eq!(shards.written(Wait::ForAll)?[0].samples, 3);
/// let files = TokenFiles::open([&path], &TokenLayout::default(), Documents::Apart)?;
/// assert_eq!((files.document_len(0), files.document_len(1), files.tokens()), (3, 0, 4));
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct TokenShards {
    shard_bytes: u64,
    layout: TokenShardLayout,
    dtype: DType,
    threads: ShardThreads<Documents>,
    current: Option<Current>,
}

/// Documents, one after the other.
#[derive(Default)]
struct Documents {
    tokens: Vec<u8>,
    lengths: Vec<i32>,
}

#[derive(Default)]
struct Current {
    piece: Documents,
    bytes: u64,
    samples: usize,
}

impl TokenShards {
    /// Shards of at most `shard_bytes` bytes of tokens of `dtype`, written by `threads` threads.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a data type that the layout does not support; [`Error::Threads`].
    pub fn new(shard_bytes: u64, layout: TokenShardLayout, dtype: DType, threads: usize) -> Result<Self> {
        check_dtype(dtype)?;
        if layout == TokenShardLayout::Megatron {
            code_of(dtype)?;
        }
        let threads = ShardThreads::new(threads, PIECES)?;
        Ok(Self { shard_bytes, layout, dtype, threads, current: None })
    }

    /// Appends a document of these tokens, little-endian, to the current shard. Returns `false`, and appends nothing,
    /// if the shard is full or none was begun.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if they are not a whole number of tokens, or too many for the index.
    pub fn append(&mut self, tokens: &[u8]) -> Result<bool> {
        let invalid = |reason| Error::invalid("tokens", reason);
        if !tokens.len().is_multiple_of(self.dtype.bytes()) {
            return Err(invalid(format!("{} bytes are not a whole number of {} tokens", tokens.len(), self.dtype)));
        }
        let count = tokens.len() / self.dtype.bytes();
        let length = match (self.layout, i32::try_from(count)) {
            (TokenShardLayout::Megatron, Err(_)) => {
                return Err(invalid(format!(
                    "a document has {count} tokens, but a Megatron index allows at most 2^31 - 1"
                )));
            }
            (_, length) => length.unwrap_or(i32::MAX),
        };
        let Some(current) = &mut self.current else { return Ok(false) };
        let bytes = tokens.len() as u64;
        // A flat shard without tokens would be an empty file, so empty documents neither fill one nor begin one.
        let may_end = match self.layout {
            TokenShardLayout::Flat => current.bytes > 0 && bytes > 0,
            TokenShardLayout::Megatron => current.samples > 0,
        };
        if may_end && current.bytes + bytes > self.shard_bytes {
            return Ok(false);
        }
        current.bytes += bytes;
        current.samples += 1;
        current.piece.tokens.extend(tokens);
        current.piece.lengths.push(length);
        if current.piece.tokens.len() >= PIECE {
            self.threads.send(std::mem::take(&mut current.piece));
        }
        Ok(true)
    }

    /// Ends the current shard, and begins the one that will be at `path`; an index is written next to it, with the
    /// extension `idx`.
    pub fn begin(&mut self, path: PathBuf) {
        self.end();
        let (layout, dtype) = (self.layout, self.dtype);
        self.threads.begin(path.clone(), move || TokenWriter::create(path, layout, dtype));
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
    /// [`Error::Io`] if a thread does not end within 20 seconds because its file system hangs; it names the shard.
    pub fn close(&mut self) -> Result<()> {
        self.current = None;
        self.threads.close()
    }
}

struct TokenWriter {
    tokens: ShardFile,
    index: Option<ShardFile>,
    dtype: DType,
    lengths: Vec<i32>,
}

impl TokenWriter {
    fn create(path: PathBuf, layout: TokenShardLayout, dtype: DType) -> Result<Self> {
        let index = match layout {
            TokenShardLayout::Flat => None,
            TokenShardLayout::Megatron => Some(ShardFile::create(path.with_extension("idx"))?),
        };
        Ok(Self { tokens: ShardFile::create(path)?, index, dtype, lengths: Vec::new() })
    }
}

impl ShardWriter<Documents> for TokenWriter {
    fn write(&mut self, documents: Documents) -> Result<()> {
        if self.index.is_some() {
            self.lengths.extend(documents.lengths);
        }
        self.tokens.write(&documents.tokens)
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        let Self { tokens, index, dtype, lengths } = *self;
        let mut bytes = 0;
        // The index first, because a `.bin` without one would be read as a flat file.
        if let Some(mut index) = index {
            encode_index(dtype, &lengths, |part| index.write(part))?;
            bytes += index.finish()?;
        }
        Ok(bytes + tokens.finish()?)
    }
}
