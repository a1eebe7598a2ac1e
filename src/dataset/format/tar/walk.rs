//! [`TarWalk`]: the members of an archive that is read sequentially.

use super::extended::{ExtendedHeaders, SPARSE, Stored, TRUNCATED};
use super::header::{BLOCK, TarHeader, TarKind};
use super::members::{TarEnd, describe_non_archive, shown};
use crate::dataset::format::sequential::byte_stream::ByteStream;
use crate::dataset::format::sequential::parse::{Found, Trouble};

/// The zeros after which an archive ends while fields are inferred: they might never end, and all of them would be
/// kept. Concatenated archives have fewer between them, usually 10 KiB.
const LONGEST_PADDING: u64 = 1 << 20;

/// A regular file in an archive, whose contents are to be read next.
#[derive(Debug)]
pub(super) struct WalkedMember {
    pub(super) name: Vec<u8>,
    /// Offset of its first header, which may be an extended one.
    pub(super) begin: u64,
    pub(super) bytes: u64,
    /// Why its contents can't be read.
    pub(super) refusal: Option<String>,
}

/// Reads the headers; the caller consumes contents and padding. Anything that is not a regular file is skipped.
#[derive(Debug, Default)]
pub(super) struct TarWalk {
    end: TarEnd,
    has_begun: bool,
    has_ended: bool,
    has_members: bool,
}

impl TarWalk {
    pub(super) fn new(end: TarEnd) -> Self {
        Self { end, ..Self::default() }
    }

    /// Begins another archive, or resumes within this one.
    pub(super) fn restart(&mut self) {
        (self.has_begun, self.has_ended, self.has_members) = (false, false, false);
    }

    /// Returns the next regular file; `None` at the end of the archive, after consuming everything that follows.
    pub(super) fn next(&mut self, bytes: &mut ByteStream) -> Found<Option<WalkedMember>> {
        let (mut extended, mut begin) = (ExtendedHeaders::default(), None);
        while !self.has_ended {
            let Some((at, header)) = self.header(bytes)? else { break };
            let (kind, first) = (header.kind, *begin.get_or_insert(at));
            let Stored { name, bytes: size, is_sparse } = extended.stored(header);
            let Some(name) = name else {
                let text = extension(bytes, at, size)?;
                extended.see(kind, at, &text).map_err(|(place, reason)| rest(place, reason))?;
                continue;
            };
            if let TarKind::Sparse { mut is_extended } = kind {
                while is_extended {
                    is_extended = block(bytes)?.is_some_and(|block| block[504] != 0);
                }
            }
            begin = None;
            let is_file = kind == TarKind::File && !name.ends_with(b"/");
            if is_file || is_sparse {
                let refusal = is_sparse.then(|| format!("it is {SPARSE}"));
                self.has_members = true;
                return Ok(Some(WalkedMember { name, begin: first, bytes: size, refusal }));
            }
            skip_member(bytes, at, &name, size)?;
        }
        begin.map_or(Ok(None), |at| Err(rest(at, TRUNCATED.into())))
    }

    /// Returns the next header and its offset; `None` at the end.
    fn header(&mut self, bytes: &mut ByteStream) -> Found<Option<(u64, TarHeader)>> {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        let start = bytes.offset();
        loop {
            let at = bytes.offset();
            let Some(block) = block(bytes)? else {
                if at == 0 && !has_begun {
                    return Err(rest(0, "it is empty, so it is not a tar archive; write it again".into()));
                }
                break;
            };
            if block.iter().any(|&byte| byte != 0) {
                return TarHeader::parse(&block).map(|header| Some((at, header))).map_err(|reason| {
                    let reason = if at == 0 { describe_non_archive(&block) } else { reason };
                    rest(at, format!("{reason}; the archive is damaged here"))
                });
            }
            let is_past = bytes.is_kept() && self.has_members && at - start > LONGEST_PADDING;
            if self.end == TarEnd::ZeroBlock || is_past {
                break;
            }
        }
        self.has_ended = true;
        // The stream will be read again, and would be kept entirely until then.
        if bytes.is_kept() {
            return Ok(None);
        }
        // Its writer may still be writing, and would fail without a reader.
        bytes.skip(u64::MAX)?;
        Ok(None)
    }
}

/// Takes the next block; `None` at the end, or if only a few zeros are left.
fn block(bytes: &mut ByteStream) -> Found<Option<[u8; BLOCK]>> {
    let is_whole = bytes.fill(BLOCK)?;
    if let Some(&block) = bytes.window().first_chunk::<BLOCK>().filter(|_| is_whole) {
        bytes.consume(BLOCK);
        return Ok(Some(block));
    }
    let (left, at) = (bytes.window().len(), bytes.offset());
    if bytes.window().iter().all(|&byte| byte == 0) {
        bytes.consume(left);
        return Ok(None);
    }
    let mut block = [0; BLOCK];
    block[..left].copy_from_slice(bytes.window());
    let what = if at == 0 { describe_non_archive(&block) } else { "it is truncated".into() };
    Err(rest(at, format!("expected a header of 512 bytes, but {left} are left: {what}")))
}

/// Takes the contents of the extended header at `at`, and their padding.
fn extension(bytes: &mut ByteStream, at: u64, size: u64) -> Found<Vec<u8>> {
    ExtendedHeaders::check_size(size).map_err(|reason| rest(at, reason))?;
    let mut text = Vec::new();
    if bytes.take(size, &mut text)? < size {
        return Err(rest(
            at,
            format!("an extended header has {size} bytes, but only {} are left; it is truncated", text.len()),
        ));
    }
    pass_padding(bytes, size)?;
    Ok(text)
}

/// Skips the contents of a member of `size` bytes, and their padding.
pub(super) fn skip_member(bytes: &mut ByteStream, at: u64, name: &[u8], size: u64) -> Found<()> {
    let found = bytes.skip(size)?;
    if found < size { Err(cut(at, name, size, found)) } else { pass_padding(bytes, size) }
}

/// Skips the padding after `size` bytes. Fails if it is cut short, because what should follow is then missing too.
pub(super) fn pass_padding(bytes: &mut ByteStream, size: u64) -> Found<()> {
    let (at, padding) = (bytes.offset(), size.wrapping_neg() % BLOCK as u64);
    let found = bytes.skip(padding)?;
    if found < padding {
        let reason = format!("expected {padding} bytes of padding, but {found} are left; it is truncated");
        return Err(rest(at, reason));
    }
    Ok(())
}

/// Returns the error for a member of which only `found` bytes are left.
pub(crate) fn cut(at: u64, name: &[u8], size: u64, found: u64) -> Trouble {
    let reason = format!(
        "member {} has {size} bytes, but only {found} are left; it is truncated, or the size is damaged",
        shown(name)
    );
    rest(at, reason)
}

fn rest(offset: u64, reason: String) -> Trouble {
    Trouble::Rest { offset, reason }
}
