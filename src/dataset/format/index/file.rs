//! The bytes of an index on disk: a header, and columns of numbers.
//!
//! ```text
//! magic (8 bytes), version (u32), length of the header (u32), digest of the header (u64)
//! header: format (text), parameters (text), files {name, bytes (u64), modified (i64), changed (i64), inode (u64), digest of parts
//!         of the contents (u64)}, columns {bytes a number (u8), numbers (u64), place in the file (u64)}, inode of this file (u64),
//!         its size (u64), CRC-32C of all after the header (u32); a text is its length (u32) and its bytes, a list its length
//!         (u64) first
//! columns, each at a multiple of 64 bytes
//! ```
//! All numbers are little-endian. The digest covers the header, the CRC-32C the rest: both are checked on opening.

use super::freshness::IndexedFile;
use crate::rng::digest;

const MAGIC: &[u8; 8] = b"SLUICEIX";
const VERSION: u32 = 3;
/// Magic, version, length and digest.
pub(super) const PRELUDE: usize = 24;
const ALIGNMENT: u64 = 64;
/// The longest header that is read: enough for a million files with long names.
pub(crate) const LONGEST_HEADER: usize = 256 << 20;

/// What an index describes. If any of this differs, the index does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexKey {
    /// The format, with a version for the meaning of its columns.
    pub(crate) format: String,
    /// What the columns depend on besides the files, such as the requested fields.
    pub(crate) parameters: String,
    pub(crate) files: Vec<IndexedFile>,
}

/// What the header records about the index file itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexContents {
    /// Its inode, which a copy does not share.
    pub(super) inode: u64,
    /// Its size.
    pub(super) bytes: u64,
    /// CRC-32C of everything after the header.
    pub(super) sum: u32,
}

/// The contents of an index header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexHeader {
    pub(super) key: IndexKey,
    pub(super) columns: Vec<ColumnPlace>,
    pub(super) contents: IndexContents,
}

/// The position of a column in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnPlace {
    /// 1, 4 or 8.
    pub(super) bytes_per_number: usize,
    pub(super) len: usize,
    pub(super) offset: usize,
}

/// Returns the positions for columns of these widths and lengths in the index of `key`, and the size of the file.
pub(super) fn lay_out(key: &IndexKey, columns: &[(usize, usize)]) -> (Vec<ColumnPlace>, u64) {
    let text = |bytes: usize| 4 + bytes as u64;
    let files: u64 = key.files.iter().map(|file| text(file.name.len()) + 40).sum();
    let header = PRELUDE as u64 + text(key.format.len()) + text(key.parameters.len()) + 8 + files + 8;
    let header = header + columns.len() as u64 * 17 + 20;
    let (mut offset, mut end) = (header.next_multiple_of(ALIGNMENT), header);
    let mut places = Vec::new();
    for &(bytes_per_number, len) in columns {
        places.push(ColumnPlace { bytes_per_number, len, offset: offset as usize });
        end = offset + bytes_per_number as u64 * len as u64;
        offset = end.next_multiple_of(ALIGNMENT);
    }
    (places, end)
}

/// Serializes a header.
pub(super) fn encode(IndexHeader { key, columns, contents }: &IndexHeader) -> Vec<u8> {
    let mut body = Vec::new();
    let text = |body: &mut Vec<u8>, text: &[u8]| {
        body.extend((text.len() as u32).to_le_bytes());
        body.extend(text);
    };
    text(&mut body, key.format.as_bytes());
    text(&mut body, key.parameters.as_bytes());
    body.extend((key.files.len() as u64).to_le_bytes());
    for file in &key.files {
        text(&mut body, &file.name);
        for number in [file.bytes, file.modified as u64, file.changed as u64, file.inode, file.sample] {
            body.extend(number.to_le_bytes());
        }
    }
    body.extend((columns.len() as u64).to_le_bytes());
    for column in columns {
        body.push(column.bytes_per_number as u8);
        body.extend((column.len as u64).to_le_bytes());
        body.extend((column.offset as u64).to_le_bytes());
    }
    body.extend(contents.inode.to_le_bytes());
    body.extend(contents.bytes.to_le_bytes());
    body.extend(contents.sum.to_le_bytes());
    let mut header = MAGIC.to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend((body.len() as u32).to_le_bytes());
    header.extend(digest_of(&body).to_le_bytes());
    header.extend(body);
    header
}

/// Returns the length of the header that begins with these bytes, prelude included; `None` if this is not an index of
/// this version.
pub(crate) fn header_bytes(prelude: &[u8]) -> Option<usize> {
    if !prelude.starts_with(MAGIC) || prelude.get(8..12)? != VERSION.to_le_bytes() {
        return None;
    }
    let body = u32::from_le_bytes(prelude.get(12..16)?.try_into().ok()?) as usize;
    Some(PRELUDE + body).filter(|&bytes| bytes <= LONGEST_HEADER)
}

/// True if these are the first bytes of an index of another version.
pub(super) fn is_other_version(prelude: &[u8]) -> bool {
    prelude.starts_with(MAGIC) && prelude.get(8..12).is_some_and(|version| version != VERSION.to_le_bytes())
}

/// Parses a header whose columns must all lie within a file of `file_bytes` bytes; `None` if it is damaged.
pub(super) fn decode(header: &[u8], file_bytes: u64) -> Option<IndexHeader> {
    let body = header.get(PRELUDE..header_bytes(header)?)?;
    if header.get(16..24)? != digest_of(body).to_le_bytes() {
        return None;
    }
    let mut rest = Rest(body);
    let format = String::from_utf8(rest.text()?.to_vec()).ok()?;
    let parameters = String::from_utf8(rest.text()?.to_vec()).ok()?;
    let mut files = Vec::new();
    for _ in 0..rest.number()? {
        let name = rest.text()?.to_vec();
        let (bytes, modified, changed) = (rest.number()?, rest.number()? as i64, rest.number()? as i64);
        files.push(IndexedFile { name, bytes, modified, changed, inode: rest.number()?, sample: rest.number()? });
    }
    let mut columns = Vec::new();
    for _ in 0..rest.number()? {
        let bytes_per_number = usize::from(rest.take(1)?[0]);
        let (len, offset) = (rest.number()?, rest.number()?);
        let end = len.checked_mul(bytes_per_number as u64)?.checked_add(offset)?;
        if !matches!(bytes_per_number, 1 | 4 | 8) || end > file_bytes {
            return None;
        }
        let (len, offset) = (usize::try_from(len).ok()?, usize::try_from(offset).ok()?);
        columns.push(ColumnPlace { bytes_per_number, len, offset });
    }
    let (inode, bytes) = (rest.number()?, rest.number()?);
    let sum = u32::from_le_bytes(rest.take(4)?.try_into().ok()?);
    let contents = IndexContents { inode, bytes, sum };
    let key = IndexKey { format, parameters, files };
    (rest.0.is_empty() && bytes == file_bytes).then_some(IndexHeader { key, columns, contents })
}

/// Returns a 64-bit digest of these bytes.
pub(crate) fn digest_of(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    digest(words.chain([bytes.len() as u64]))
}

/// The unread rest of a header.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes"));
        self.take(length as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> IndexKey {
        let file = |name: &[u8], bytes, modified| {
            let name = name.to_vec();
            IndexedFile { name, bytes, modified, changed: modified, inode: bytes, sample: u64::MAX - 3 }
        };
        let files = vec![file(b"a", 10, -1), file(&[0xff, 0], u64::MAX, i64::MAX)];
        IndexKey { format: "tar 1".into(), parameters: "jpg".into(), files }
    }

    fn header(columns: &[(usize, usize)]) -> (IndexHeader, u64) {
        let (columns, bytes) = lay_out(&key(), columns);
        (IndexHeader { key: key(), columns, contents: IndexContents { inode: 7, bytes, sum: 8 } }, bytes)
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(columns in prop::collection::vec((prop::sample::select(vec![4_usize, 8]), 0_usize..1000), 0..6)) {
            let (header, end) = header(&columns);
            let bytes = encode(&header);
            prop_assert!(header.columns.iter().all(|place| place.offset % 64 == 0 && place.offset >= bytes.len()));
            prop_assert!(end >= bytes.len() as u64);
            prop_assert_eq!(decode(&bytes, end - 1), None);
            prop_assert_eq!(decode(&bytes, end + 1), None);
            prop_assert_eq!(decode(&bytes, end), Some(header));
        }

        #[test]
        fn damage_is_detected(place in 0_usize..400, bit in 0_u8..8) {
            let (header, end) = header(&[(8, 3), (4, 2)]);
            let mut bytes = encode(&header);
            let place = place % bytes.len();
            bytes[place] ^= 1 << bit;
            prop_assert_eq!(decode(&bytes, end), None);
            prop_assert_eq!(decode(&bytes[..place], end), None);
        }
    }
}
