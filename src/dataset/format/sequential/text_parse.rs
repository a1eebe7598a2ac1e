//! Text that is read sequentially.

use super::byte_stream::ByteStream;
use super::parse::{Found, Trouble};
use crate::dataset::format::file::known_format::foreign_to_text;

/// The byte order marks of UTF-8 and of both kinds of UTF-16.
const MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];

/// Skips a byte order mark, and refuses data that is not text.
pub(crate) fn begin_text(bytes: &mut ByteStream) -> Found<()> {
    // Reads no byte more than it takes: the rest may come much later.
    while bytes.window().len() < 3 && MARKS.iter().any(|mark| mark.starts_with(bytes.window())) {
        if !bytes.more()? {
            break;
        }
    }
    if let Some(reason) = foreign_to_text(bytes.signature(1)?) {
        return Err(Trouble::Rest { offset: bytes.offset(), reason });
    }
    let head = bytes.window();
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        let reason = "the text is in UTF-16; convert it to UTF-8".into();
        return Err(Trouble::Rest { offset: bytes.offset(), reason });
    }
    if head.starts_with(b"\xef\xbb\xbf") {
        bytes.consume(3);
    }
    Ok(())
}

/// The current line number, unless some lines were skipped uncounted.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LineCount(Option<u64>);

impl LineCount {
    /// Starts at the first line.
    pub(crate) fn begin(&mut self) {
        self.0 = Some(1);
    }

    /// Makes the line number unknown.
    pub(crate) fn lose(&mut self) {
        self.0 = None;
    }

    /// Counts the lines that end in `text`.
    pub(crate) fn pass(&mut self, text: &[u8]) {
        self.0 = self.0.map(|line| line + memchr::memchr_iter(b'\n', text).count() as u64);
    }

    /// Returns the error of a sample that begins on the current line, where byte `place` of `text` is wrong.
    pub(crate) fn refuse(self, offset: u64, text: &[u8], (place, reason): (usize, String)) -> Trouble {
        let before = memchr::memchr_iter(b'\n', &text[..place.min(text.len())]).count() as u64;
        let line = self.0.map_or(String::new(), |line| format!("line {}: ", line + before));
        Trouble::Sample { offset: offset + place as u64, reason: format!("{line}{reason}") }
    }
}
