//! [`TarMembers`]: the members of an archive in order, found from their headers alone.

use std::ops::Range;

use super::extended::{ExtendedHeaders, SPARSE, Stored, TRUNCATED};
use super::header::{BLOCK, TarHeader, TarKind};
use crate::Error;
use crate::dataset::format::file::known_format::foreign;
use crate::dataset::format::file::open_file::OpenFile;

/// Bytes that are read at once: a header, and if the member is small, the next headers too.
const WINDOW: usize = 4 * BLOCK;

/// Where an archive ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TarEnd {
    /// At the first block of zeros, as the standard says, or at the end of the file.
    #[default]
    ZeroBlock,
    /// At the end of the file: blocks of zeros are skipped, so that concatenated archives are read to their end.
    FileEnd,
}

/// A regular file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TarMember {
    pub(super) name: Vec<u8>,
    /// Offset of its own header.
    pub(super) header: u64,
    /// Offset and size of its contents.
    pub(super) data: u64,
    pub(super) bytes: u64,
}

/// Walks through the headers of an archive. Anything that is not a regular file is skipped.
pub(super) struct TarMembers<'a> {
    file: &'a OpenFile,
    end: TarEnd,
    /// Offset of the next header.
    next: u64,
    window: Vec<u8>,
    window_start: u64,
    has_ended: bool,
    /// The walk ends at the first header at or after this offset.
    stop: u64,
}

/// The result of reading a part of an archive.
type Found<T> = std::result::Result<T, TarDamage>;

/// A position where the archive can't be read, and the name of the affected member, if known.
#[derive(Debug)]
pub(super) struct TarDamage {
    pub(super) member: Option<Vec<u8>>,
    pub(super) error: Error,
    /// True if reading can continue after it.
    pub(super) can_continue: bool,
}

impl<'a> TarMembers<'a> {
    pub(super) fn new(file: &'a OpenFile, end: TarEnd) -> Self {
        Self::within(file, end, 0..u64::MAX)
    }

    /// The members whose headers begin in this range, the first one at its start.
    pub(super) fn within(file: &'a OpenFile, end: TarEnd, range: Range<u64>) -> Self {
        let Range { start, end: stop } = range;
        Self { file, end, next: start, window: Vec::new(), window_start: 0, has_ended: false, stop }
    }

    /// True if the walk ended exactly where it should: at the start of a header, or at the end of the archive.
    pub(super) fn is_at_end(&self) -> bool {
        self.next == self.stop || self.stop == u64::MAX
    }

    /// Returns the next regular file; `None` at the end of the archive.
    pub(super) fn next(&mut self) -> Found<Option<TarMember>> {
        if !self.has_ended && self.next == 0 && self.file.bytes() == 0 {
            return Err(self.fatal(0, "the file is empty, so it is not a tar archive; write it again".into()));
        }
        let (mut extended, mut extended_at) = (ExtendedHeaders::default(), None);
        while !self.has_ended && (self.next < self.stop || extended_at.is_some()) {
            let at = self.next;
            let Some((at, header)) = self.header(at)? else { break };
            let (kind, mut data) = (header.kind, at + BLOCK as u64);
            let Stored { name, bytes, is_sparse } = extended.stored(header);
            if let TarKind::Sparse { mut is_extended } = kind {
                while is_extended {
                    is_extended = self.block(data)?.is_some_and(|block| block[504] != 0);
                    data += BLOCK as u64;
                }
            }
            let end = data.checked_add(bytes).filter(|&end| end <= self.file.bytes());
            let Some(end) = end else {
                let left = self.file.bytes().saturating_sub(data);
                let what = name.as_ref().map_or("an extended header".into(), |name| format!("member {}", shown(name)));
                let reason = format!(
                    "{what} has {bytes} bytes, but the file has only {left} left; it is truncated, or the size is \
                     damaged"
                );
                return Err(TarDamage { member: name, ..self.fatal(at, reason) });
            };
            self.next = end.next_multiple_of(BLOCK as u64);
            let Some(name) = name else {
                // A link target does not affect the member.
                if kind != TarKind::LongLink {
                    let text = self.extension(at, data, bytes)?;
                    extended.see(kind, at, &text).map_err(|(place, reason)| self.fatal(place, reason))?;
                }
                extended_at = Some(at);
                continue;
            };
            extended_at = None;
            if is_sparse {
                let reason = format!("member {} is {SPARSE}", shown(&name));
                let error = Error::Format { path: self.file.source().path.clone(), offset: at, reason };
                return Err(TarDamage { member: Some(name), error, can_continue: true });
            }
            if kind == TarKind::File && !name.ends_with(b"/") {
                return Ok(Some(TarMember { name, header: at, data, bytes }));
            }
        }
        extended_at.map_or(Ok(None), |at| Err(self.fatal(at, TRUNCATED.into())))
    }

    /// Returns the header at `at`, or the first one after the zeros there, with its offset; `None` at the end.
    fn header(&mut self, mut at: u64) -> Found<Option<(u64, TarHeader)>> {
        while let Some(block) = self.block(at)? {
            if block.iter().any(|&byte| byte != 0) {
                let header = TarHeader::parse(&block);
                return header.map(|header| Some((at, header))).map_err(|reason| {
                    let reason = if at == 0 { describe_non_archive(&block) } else { reason };
                    self.fatal(at, format!("{reason}; the archive is damaged here"))
                });
            }
            if self.end == TarEnd::ZeroBlock {
                break;
            }
            at += BLOCK as u64;
        }
        self.has_ended = true;
        Ok(None)
    }

    /// Returns the block at `at`; `None` at the end of the file, or if only a few zeros are left.
    fn block(&mut self, at: u64) -> Found<Option<[u8; BLOCK]>> {
        let from = |window: &[u8], start: u64| {
            let place = usize::try_from(at.checked_sub(start)?).ok()?;
            window.get(place..)?.first_chunk::<BLOCK>().copied()
        };
        if let Some(block) = from(&self.window, self.window_start) {
            return Ok(Some(block));
        }
        let left = self.file.bytes().saturating_sub(at);
        self.window.resize(left.min(WINDOW as u64) as usize, 0);
        self.window_start = at;
        self.file.read_at(at, &mut self.window).map_err(|error| self.broken(error))?;
        if self.window.len() < BLOCK {
            if self.window.iter().all(|&byte| byte == 0) {
                return Ok(None);
            }
            let mut block = [0; BLOCK];
            block[..self.window.len()].copy_from_slice(&self.window);
            let what = if at == 0 { describe_non_archive(&block) } else { "the file is truncated".into() };
            return Err(self.fatal(at, format!("expected a header of 512 bytes, but {left} are left: {what}")));
        }
        Ok(from(&self.window, at))
    }

    /// Returns the contents of the extended header at `at`.
    fn extension(&mut self, at: u64, data: u64, bytes: u64) -> Found<Vec<u8>> {
        ExtendedHeaders::check_size(bytes).map_err(|reason| self.fatal(at, reason))?;
        let mut text = vec![0; bytes as usize];
        self.file.read_at(data, &mut text).map_err(|error| self.broken(error))?;
        Ok(text)
    }

    /// Returns an error after which nothing more of this archive can be read.
    fn fatal(&mut self, offset: u64, reason: String) -> TarDamage {
        self.broken(Error::Format { path: self.file.source().path.clone(), offset, reason })
    }

    fn broken(&mut self, error: Error) -> TarDamage {
        self.has_ended = true;
        TarDamage { member: None, error, can_continue: false }
    }
}

/// Describes a file that does not begin with a header.
pub(super) fn describe_non_archive(block: &[u8; BLOCK]) -> String {
    let kinds: [(&[u8], &str); 4] =
        [(b"\x1f\x8b", ".tar.gz"), (b"\x28\xb5\x2f\xfd", ".tar.zst"), (b"BZh", ".tar.bz2"), (b"\xfd7zXZ", ".tar.xz")];
    match kinds.iter().find(|(magic, _)| block.starts_with(magic)) {
        Some((_, name @ (".tar.gz" | ".tar.zst"))) => {
            format!("the archive is compressed; give it a name that ends in {name}, so that it is decompressed first")
        }
        Some((_, name)) => format!("the archive is compressed as {name}, which is not supported; decompress it"),
        None => foreign(block, "a tar archive").unwrap_or_else(|| "not a tar archive".into()),
    }
}

/// Formats a name for errors.
pub(crate) fn shown(name: &[u8]) -> String {
    format!("`{}`", String::from_utf8_lossy(name))
}
