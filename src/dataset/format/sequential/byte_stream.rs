//! [`ByteStream`]: sequential bytes, decompressed as they are read.

use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::parse::{Found, Trouble};
use super::source::{Failure, SourceBytes, StreamSource};
use crate::Error;
use crate::dataset::StopSignal;
use crate::dataset::format::file::known_format::{SIGNATURE_BYTES, begins_signature};
use crate::dataset::format::packing::zstd_frames::ZstdFrames;

/// Bytes that are read and decompressed at a time.
const PIECE: usize = 128 << 10;

/// The bytes that are enough to recognize the compression of a stream.
const MAGIC: usize = 6;

/// The first bytes of compressed streams: gzip, Zstandard (a frame, or a skippable frame), bzip2 and xz.
const MAGICS: [&[u8]; 5] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"BZh1", b"\xfd7zXZ\0"];

/// True if `head` is a proper prefix of `magic`, where 0x50 stands for 0x50 to 0x5f. (The last byte of a magic, such as
/// the digit of bzip2, is not in a proper prefix.)
fn may_begin(magic: &[u8], head: &[u8]) -> bool {
    let may_match = |(&a, &b): (&u8, &u8)| a == b || (a == 0x50 && b & 0xf0 == 0x50);
    head.len() < magic.len() && magic.iter().zip(head).all(may_match)
}

/// How a stream is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamPacking {
    /// Determined from its first bytes.
    #[default]
    ByContent,
    /// Not compressed.
    None,
}

/// The bytes of one source, with a buffer of those that were read but not consumed.
pub(crate) struct ByteStream {
    name: PathBuf,
    reader: Unpacking,
    failure: Failure,
    buffer: Vec<u8>,
    /// The part of the buffer that was not consumed.
    start: usize,
    end: usize,
    /// The offset of `start` in the stream.
    offset: u64,
    /// If set, consumed bytes stay in the buffer to be read again: the most bytes that may.
    kept: Option<usize>,
    has_ended: bool,
    /// Checked between pieces: decompressing highly compressed data takes long without waiting for the source.
    stop: StopSignal,
}

impl ByteStream {
    pub(crate) fn open(source: &StreamSource, packing: StreamPacking, stop: &StopSignal) -> Found<Self> {
        let name = source.name();
        let mut source = source.open(stop)?;
        let failure = source.failure();
        let begin = source.begin().map_err(|source| Error::Io { path: name.clone(), source })?;
        let head = Head { bytes: Vec::with_capacity(MAGIC), taken: 0, begin, source };
        // Plain, until the first bytes show otherwise.
        let (buffer, reader) = (Vec::new(), Unpacking::Plain(head));
        let (start, end, offset) = (0, 0, 0);
        let (kept, has_ended, stop) = (None, false, stop.clone());
        let mut stream = Self { name, reader, failure, buffer, start, end, offset, kept, has_ended, stop };
        if packing == StreamPacking::ByContent {
            stream.look_at_head()?;
        }
        Ok(stream)
    }

    /// Detects how the stream is compressed.
    fn look_at_head(&mut self) -> Found<()> {
        let Unpacking::Plain(head) = &mut self.reader else { return Ok(()) };
        // Reads no byte more than it takes: the rest may come much later.
        while head.bytes.len() < MAGIC && MAGICS.iter().any(|magic| may_begin(magic, &head.bytes)) {
            let mut more = [0; MAGIC];
            let room = MAGIC - head.bytes.len();
            match head.source.read(&mut more[..room]) {
                Ok(0) => break,
                Ok(read) => head.bytes.extend(&more[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
        let program = match &*head.bytes {
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => "bzip2",
            [0xfd, b'7', b'z', b'X', b'Z', 0] => "xz",
            _ => {
                self.unpack();
                return Ok(());
            }
        };
        let reason = format!(
            "the data is compressed with {program}, which is not supported; decompress it with a command \
             (`pipe:{program} -dc ...`)"
        );
        Err(Trouble::Rest { offset: 0, reason })
    }

    fn unpack(&mut self) {
        let Unpacking::Plain(head) = &self.reader else { return };
        let wrap: fn(Head) -> Unpacking = match &*head.bytes {
            [0x1f, 0x8b, ..] => |head| Unpacking::Gzip(Box::new(MultiGzDecoder::new(head))),
            // A frame, or a skippable frame before it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                |head| Unpacking::Zstd(Box::new(ZstdFrames::new(BufReader::with_capacity(PIECE, head))))
            }
            _ => return,
        };
        if let Unpacking::Plain(head) = std::mem::replace(&mut self.reader, Unpacking::Nothing) {
            self.reader = wrap(head);
        }
    }

    /// The name of the source.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// The number of bytes that were consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that were read but not consumed.
    pub(crate) fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// True if reading more would block.
    pub(crate) fn would_wait(&self) -> bool {
        self.start == self.end && !self.has_ended && self.source().is_some_and(SourceBytes::would_wait)
    }

    /// Consumes bytes of the window.
    pub(crate) fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.end - self.start, "only what was looked at is taken");
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Appends more bytes to the window; returns false at the end.
    pub(crate) fn more(&mut self) -> Found<bool> {
        if self.has_ended {
            return Ok(false);
        }
        self.check_room()?;
        if self.kept.is_none() && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() < self.end + PIECE {
            self.buffer.resize(self.end + PIECE, 0);
        }
        let read = self.reader.read(&mut self.buffer[self.end..]);
        let read = read.map_err(|error| self.broken(error))?;
        self.end += read;
        self.has_ended = read == 0;
        Ok(read > 0)
    }

    /// Reads until the window has this many bytes; returns false if the stream ends before that.
    pub(crate) fn fill(&mut self, bytes: usize) -> Found<bool> {
        while self.window().len() < bytes {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the next bytes, by which a format is recognized. From a pipe it reads no more than the first sample
    /// needs (`first` bytes), unless they begin a signature. The result does not depend on how many bytes arrive at
    /// once.
    pub(crate) fn signature(&mut self, first: usize) -> Found<&[u8]> {
        let is_file = self.source().is_some_and(|source| source.bytes().is_some());
        let mut bytes = if is_file { SIGNATURE_BYTES } else { first.min(SIGNATURE_BYTES) };
        while self.fill(bytes)? && begins_signature(&self.window()[..bytes]) {
            bytes += 1;
        }
        Ok(&self.window()[..bytes.min(self.window().len())])
    }

    /// Skips this many bytes, or as many as there are; returns how many.
    pub(crate) fn skip(&mut self, bytes: u64) -> Found<u64> {
        let mut left = bytes;
        loop {
            let now = left.min(self.window().len() as u64);
            self.consume(now as usize);
            left -= now;
            if left == 0 {
                break;
            }
            if let Some(skipped) = self.leap(left)? {
                left -= skipped;
                break;
            }
            if !self.more()? {
                break;
            }
        }
        Ok(bytes - left)
    }

    /// Skips bytes of a plain file after the window, without reading them.
    fn leap(&mut self, bytes: u64) -> Found<Option<u64>> {
        if self.kept.is_some() || bytes < PIECE as u64 || !self.can_seek() {
            return Ok(None);
        }
        let Some(size) = self.source().and_then(SourceBytes::bytes) else { return Ok(None) };
        let begin = if let Unpacking::Plain(head) = &self.reader { head.begin } else { None };
        let skipped = bytes.min(size.saturating_sub(begin.unwrap_or(0)).saturating_sub(self.offset));
        self.seek(self.offset + skipped)?;
        Ok(Some(skipped))
    }

    /// Appends this many bytes to `into`, or as many as there are; returns how many. Memory is allocated as they
    /// arrive, because a damaged file may claim any size.
    pub(crate) fn take(&mut self, bytes: u64, into: &mut Vec<u8>) -> Found<u64> {
        let mut left = bytes;
        loop {
            let now = left.min(self.window().len() as u64) as usize;
            into.extend(&self.buffer[self.start..self.start + now]);
            self.consume(now);
            left -= now as u64;
            if left == 0 {
                break;
            }
            // The buffer is empty now: large reads go directly to `into`.
            let piece = left.min(8 * PIECE as u64) as usize;
            if self.kept.is_some() || piece < PIECE || self.has_ended {
                if !self.more()? {
                    break;
                }
                continue;
            }
            self.check_room()?;
            let before = into.len();
            into.resize(before + piece, 0);
            let read = self.reader.read(&mut into[before..]).map_err(|error| self.broken(error));
            let read = read.inspect_err(|_| into.truncate(before))?;
            into.truncate(before + read);
            self.offset += read as u64;
            left -= read as u64;
            self.has_ended = read == 0;
        }
        Ok(bytes - left)
    }

    /// From the beginning of the stream on, keeps consumed bytes until [`rewind`](Self::rewind). Reading more than
    /// `most` bytes before that is an error.
    pub(crate) fn keep(&mut self, most: u64) {
        self.kept = Some(usize::try_from(most).unwrap_or(usize::MAX));
    }

    /// Returns to the beginning, and continues to keep consumed bytes.
    pub(crate) fn start_over(&mut self) {
        debug_assert!(self.is_kept(), "the beginning is there only if it was kept");
        (self.start, self.offset) = (0, 0);
    }

    /// True if consumed bytes are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Fails if no more bytes may be read.
    fn check_room(&self) -> Found<()> {
        if self.stop.is_set() {
            return Err(Trouble::Source(Error::Io { path: self.name.clone(), source: ErrorKind::Interrupted.into() }));
        }
        match self.kept {
            Some(most) if self.end > most => {
                let reason = format!(
                    "the fields can't be inferred from the first {most} bytes; name them, or raise max_sample_bytes"
                );
                Err(Trouble::Rest { offset: self.offset, reason })
            }
            _ => Ok(()),
        }
    }

    /// Returns to the beginning, and no longer keeps consumed bytes.
    pub(crate) fn rewind(&mut self) {
        self.kept = None;
        (self.start, self.offset) = (0, 0);
    }

    /// True if any position can be sought: for an uncompressed regular file.
    pub(crate) fn can_seek(&self) -> bool {
        matches!(&self.reader, Unpacking::Plain(head) if head.begin.is_some())
    }

    /// True if an uncompressed regular file has fewer than `offset` bytes.
    pub(crate) fn ends_before(&self, offset: u64) -> bool {
        let Unpacking::Plain(Head { source, begin: Some(begin), .. }) = &self.reader else { return false };
        // Some file systems report a size of 0 for all files.
        source.bytes().is_some_and(|bytes| bytes > 0 && begin.saturating_add(offset) > bytes)
    }

    /// Seeks to byte `offset` of an uncompressed regular file.
    pub(crate) fn seek(&mut self, offset: u64) -> Found<()> {
        if let Unpacking::Plain(head) = &mut self.reader
            && let Some(begin) = head.begin
        {
            head.taken = head.bytes.len();
            let sought = head.source.seek(begin.saturating_add(offset));
            sought.map_err(|source| Error::Io { path: self.name.clone(), source })?;
        }
        (self.start, self.end, self.offset, self.has_ended) = (0, 0, offset, false);
        Ok(())
    }

    fn source(&self) -> Option<&SourceBytes> {
        match &self.reader {
            Unpacking::Plain(head) => Some(&head.source),
            Unpacking::Gzip(decoder) => Some(&decoder.get_ref().source),
            Unpacking::Zstd(frames) => Some(&frames.get_ref().get_ref().source),
            Unpacking::Nothing => None,
        }
    }

    fn broken(&mut self, error: io::Error) -> Trouble {
        self.has_ended = true;
        let offset = self.offset + self.window().len() as u64;
        match (self.failure.take(), &self.reader) {
            (Some(failure), _) => Trouble::Source(failure),
            (None, Unpacking::Plain(_)) => Trouble::Source(Error::Io { path: self.name.clone(), source: error }),
            _ if error.kind() == ErrorKind::Unsupported => Trouble::Rest { offset, reason: error.to_string() },
            _ => {
                let reason = format!("it can't be decompressed from here on ({error}); it is damaged or truncated");
                Trouble::Rest { offset, reason }
            }
        }
    }
}

/// A stream, decompressed as it is read.
enum Unpacking {
    Plain(Head),
    Gzip(Box<MultiGzDecoder<Head>>),
    Zstd(Box<ZstdFrames<BufReader<Head>>>),
    /// Placeholder while the reader is replaced.
    Nothing,
}

impl Unpacking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Self::Plain(head) => head.read(into),
                Self::Gzip(decoder) => decoder.read(into),
                Self::Zstd(frames) => frames.read(into),
                Self::Nothing => Ok(0),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

/// A source, with its first bytes, which were read to recognize the compression.
struct Head {
    bytes: Vec<u8>,
    /// How many of them were consumed.
    taken: usize,
    /// The offset in a regular file where the stream begins.
    begin: Option<u64>,
    source: SourceBytes,
}

impl Read for Head {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[self.taken..];
        if rest.is_empty() {
            return self.source.read(into);
        }
        let now = rest.len().min(into.len());
        into[..now].copy_from_slice(&rest[..now]);
        self.taken += now;
        Ok(now)
    }
}
