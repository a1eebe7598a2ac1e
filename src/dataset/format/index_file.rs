//! The bytes of an index on disk: a header, and columns of numbers.
//!
//! ```text
//! magic (8 bytes), version (u32), length of the header (u32), digest of the header (u64)
//! header: format (text), parameters (text), files {name, bytes (u64), modified (i64)}, columns {bytes a number (u8),
//!         numbers (u64), place in the file (u64)}; a text is its length (u32) and its bytes, a list its length (u64) first
//! columns, each at a multiple of 64 bytes
//! ```
//! All numbers are little-endian. The digest is of the header alone: the columns are as long as the file says, and what they
//! hold is checked when it is used.

use super::source_files::FileFacts;
use crate::rng::digest;

const MAGIC: &[u8; 8] = b"SLUICEIX";
const VERSION: u32 = 2;
/// Magic, version, length and digest.
const PRELUDE: usize = 24;
const ALIGNMENT: u64 = 64;
/// The longest header that is read: as much as a million files with long names need.
pub(super) const LONGEST_HEADER: usize = 256 << 20;

/// What an index is of. Another one of these, and it is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexKey {
    /// The format, with the version of what its columns mean.
    pub(crate) format: String,
    /// What the columns depend on beside the files, such as the fields that were asked for.
    pub(crate) parameters: String,
    /// The files: name, size and time of the last change.
    pub(crate) files: Vec<(Vec<u8>, u64, i64)>,
}

impl IndexKey {
    pub(super) fn push_file(&mut self, name: &[u8], facts: &FileFacts) {
        self.files.push((name.to_vec(), facts.bytes, facts.modified));
    }
}

/// Where a column lies in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnPlace {
    /// 1, 4 or 8.
    pub(super) bytes_per_number: usize,
    pub(super) len: usize,
    pub(super) offset: usize,
}

/// The header for columns of these widths and lengths, and where each of them begins.
pub(super) fn encode(key: &IndexKey, columns: &[(usize, usize)]) -> (Vec<u8>, Vec<ColumnPlace>) {
    let mut body = Vec::new();
    let text = |body: &mut Vec<u8>, text: &[u8]| {
        body.extend((text.len() as u32).to_le_bytes());
        body.extend(text);
    };
    text(&mut body, key.format.as_bytes());
    text(&mut body, key.parameters.as_bytes());
    body.extend((key.files.len() as u64).to_le_bytes());
    for (name, bytes, modified) in &key.files {
        text(&mut body, name);
        body.extend(bytes.to_le_bytes());
        body.extend(modified.to_le_bytes());
    }
    body.extend((columns.len() as u64).to_le_bytes());
    let mut offset = ((PRELUDE + body.len() + columns.len() * 17) as u64).next_multiple_of(ALIGNMENT);
    let mut places = Vec::new();
    for &(bytes_per_number, len) in columns {
        body.push(bytes_per_number as u8);
        body.extend((len as u64).to_le_bytes());
        body.extend(offset.to_le_bytes());
        places.push(ColumnPlace { bytes_per_number, len, offset: offset as usize });
        offset = (offset + bytes_per_number as u64 * len as u64).next_multiple_of(ALIGNMENT);
    }
    let mut header = MAGIC.to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend((body.len() as u32).to_le_bytes());
    header.extend(digest_of(&body).to_le_bytes());
    header.extend(body);
    (header, places)
}

/// The length of the header that begins with these bytes, with all before it; nothing when this is no index of this version.
pub(super) fn header_bytes(prelude: &[u8]) -> Option<usize> {
    if !prelude.starts_with(MAGIC) || prelude.get(8..12)? != VERSION.to_le_bytes() {
        return None;
    }
    let body = u32::from_le_bytes(prelude.get(12..16)?.try_into().ok()?) as usize;
    Some(PRELUDE + body).filter(|&bytes| bytes <= LONGEST_HEADER)
}

/// What a header says, whose columns all lie in a file of `file_bytes` bytes; nothing when it is damaged.
pub(super) fn decode(header: &[u8], file_bytes: u64) -> Option<(IndexKey, Vec<ColumnPlace>)> {
    let body = header.get(PRELUDE..header_bytes(header)?)?;
    if header.get(16..24)? != digest_of(body).to_le_bytes() {
        return None;
    }
    let mut rest = Rest(body);
    let format = String::from_utf8(rest.text()?.to_vec()).ok()?;
    let parameters = String::from_utf8(rest.text()?.to_vec()).ok()?;
    let mut files = Vec::new();
    for _ in 0..rest.number()? {
        files.push((rest.text()?.to_vec(), rest.number()?, rest.number()? as i64));
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
    rest.0.is_empty().then_some((IndexKey { format, parameters, files }, columns))
}

/// One number that stands for these bytes.
pub(super) fn digest_of(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    digest(words.chain([bytes.len() as u64]))
}

/// What is left to read of a header.
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
        let files = vec![(b"a".to_vec(), 10, -1), (vec![0xff, 0], u64::MAX, i64::MAX)];
        IndexKey { format: "tar 1".into(), parameters: "jpg".into(), files }
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(columns in prop::collection::vec((prop::sample::select(vec![4_usize, 8]), 0_usize..1000), 0..6)) {
            let (header, places) = encode(&key(), &columns);
            let end = places.iter().map(|place| place.offset + place.len * place.bytes_per_number).max().unwrap_or(0);
            prop_assert!(places.iter().all(|place| place.offset % 64 == 0 && place.offset >= header.len()));
            prop_assert_eq!(decode(&header, end as u64), Some((key(), places)));
            if end > header.len() && columns.iter().any(|column| column.1 > 0) {
                prop_assert_eq!(decode(&header, end as u64 - 1), None);
            }
        }

        #[test]
        fn damage_is_seen(place in 0_usize..200, bit in 0_u8..8) {
            let (mut header, _) = encode(&key(), &[(8, 3), (4, 2)]);
            let place = place % header.len();
            header[place] ^= 1 << bit;
            prop_assert_eq!(decode(&header, 1 << 20), None);
            prop_assert_eq!(decode(&header[..place], 1 << 20), None);
        }
    }
}
