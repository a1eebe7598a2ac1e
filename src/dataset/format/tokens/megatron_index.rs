//! The index of a Megatron token file: the `.idx` next to a `.bin`.
//!
//! Source: the layout that Megatron-LM's `IndexedDataset` writes (`megatron/core/datasets/indexed_dataset.py`): nine
//! bytes `MMIDIDX\0\0`, the version (u64), a data type code (u8), the numbers n of sequences and m of document
//! boundaries (u64 each), n lengths in tokens (i32), n byte offsets in the `.bin` (i64), m document boundaries as
//! sequence numbers (i64), and optionally n modes (i8). All of it is little-endian.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::files::Documents;
use crate::dataset::format::file::data_file::open_regular;
use crate::{DType, Error, Result};

pub(crate) const MAGIC: &[u8] = b"MMIDIDX\0\0";
const VERSION_AT: u64 = 9;
const DTYPE_AT: u64 = 17;
const SEQUENCES_AT: u64 = 18;
const BORDERS_AT: u64 = 26;
const HEADER: u64 = 34;

/// Entries that are read at a time.
const BLOCK: usize = 1 << 13;

/// Tokens that are adjacent in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The position of the first one among all tokens, in sequence order.
    pub(crate) start: u64,
    /// Its offset in the file, in bytes.
    pub(crate) offset: u64,
}

/// The contents of an index, all checked against the sizes of both files.
#[derive(Debug)]
pub(super) struct MegatronIndex {
    pub(super) dtype: DType,
    /// The number of tokens of all sequences.
    pub(super) tokens: u64,
    /// Adjacent sequences are merged into runs: usually there is just one.
    pub(super) runs: Vec<Run>,
    /// The end of each document among all tokens; empty for [`Documents::Joined`].
    pub(super) ends: Vec<u64>,
}

impl MegatronIndex {
    /// Reads the index at `path` of a `.bin` of `bin_bytes` bytes. Keeps document ends only if `documents` needs them.
    pub(super) fn read(path: &Path, bin_bytes: u64, documents: Documents) -> Result<Self> {
        let index = IndexFile::open(path)?;
        let header: [u8; HEADER as usize] = index.header()?;
        let word = |at: u64| u64::from_le_bytes(std::array::from_fn(|byte| header[at as usize + byte]));
        let version = word(VERSION_AT);
        if version != 1 {
            return Err(index.refuse(VERSION_AT, format!("version {version} of the format is not supported, only 1")));
        }
        let dtype = dtype_of(header[DTYPE_AT as usize]).map_err(|reason| index.refuse(DTYPE_AT, reason))?;
        let (sequences, borders) = (word(SEQUENCES_AT), word(BORDERS_AT));
        index.check_size(sequences, borders)?;
        let parts = Parts { index: &index, sequences, borders };
        let mut found = Self { dtype, tokens: 0, runs: Vec::new(), ends: Vec::new() };
        if documents == Documents::Apart {
            let documents = borders as usize - 1;
            found.ends.try_reserve_exact(documents).map_err(|error| {
                index.refuse(BORDERS_AT, format!("no memory for the lengths of {documents} documents ({error})"))
            })?;
        }
        parts.walk(bin_bytes, documents, &mut found)?;
        Ok(found)
    }
}

/// The open index.
struct IndexFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl IndexFile {
    fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path)?;
        let bytes = file.metadata().map_err(|source| Error::Io { path: path.to_path_buf(), source })?.len();
        Ok(Self { path: path.to_path_buf(), file, bytes })
    }

    fn refuse(&self, offset: u64, reason: String) -> Error {
        Error::Format { path: self.path.clone(), offset, reason }
    }

    fn header(&self) -> Result<[u8; HEADER as usize]> {
        let mut start = Vec::new();
        let io = |source| Error::Io { path: self.path.clone(), source };
        (&self.file).take(HEADER).read_to_end(&mut start).map_err(io)?;
        if start.starts_with(b"TNTIDX") {
            let reason = "the index has the older format TNTIDX; convert it with Megatron's tools".to_owned();
            return Err(self.refuse(0, reason));
        }
        if !start.starts_with(MAGIC) {
            return Err(self.refuse(
                0,
                "this is not a Megatron index, which begins with MMIDIDX; rename it if it does not belong to the .bin \
                 file of the same name"
                    .to_owned(),
            ));
        }
        start.as_slice().try_into().map_err(|_| self.truncated(HEADER))
    }

    fn truncated(&self, expected: u64) -> Error {
        let reason = format!(
            "the index is truncated: by its header it needs {expected} bytes, but it has {}; write or copy it again",
            self.bytes
        );
        self.refuse(self.bytes, reason)
    }

    /// Checks the size before allocating memory for the numbers in the header.
    fn check_size(&self, sequences: u64, borders: u64) -> Result<()> {
        if borders == 0 {
            return Err(
                self.refuse(BORDERS_AT, "it has no document boundaries; at least the first one, 0, is expected".into())
            );
        }
        let arrays = sequences.checked_mul(12).zip(borders.checked_mul(8));
        let expected = arrays.and_then(|(sequences, borders)| sequences.checked_add(borders)?.checked_add(HEADER));
        let Some(expected) = expected else {
            let reason = format!(
                "the header declares {sequences} sequences and {borders} document boundaries, more than a file can hold"
            );
            return Err(self.refuse(SEQUENCES_AT, reason));
        };
        if self.bytes < expected {
            return Err(self.truncated(expected));
        }
        // The modes of a multimodal dataset, one byte per sequence, may follow.
        if self.bytes != expected && self.bytes - expected != sequences {
            let reason =
                format!("{} bytes follow the document boundaries; the index is damaged", self.bytes - expected);
            return Err(self.refuse(expected, reason));
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, offset).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => self.truncated(offset + into.len() as u64),
            _ => Error::Io { path: self.path.clone(), source },
        })
    }
}

/// The three arrays of an index.
struct Parts<'a> {
    index: &'a IndexFile,
    sequences: u64,
    borders: u64,
}

impl Parts<'_> {
    /// Reads sequences and document boundaries in parallel into `found`.
    fn walk(&self, bin_bytes: u64, documents: Documents, found: &mut MegatronIndex) -> Result<()> {
        let item = found.dtype.bytes() as u64;
        let (pointers_at, borders_at) = (HEADER + 4 * self.sequences, HEADER + 12 * self.sequences);
        let mut borders = Borders { parts: self, at: borders_at, next: 0, block: Vec::new(), last: 0 };
        let (mut lengths, mut pointers) = (vec![0; 4 * BLOCK], vec![0; 8 * BLOCK]);
        // The end of the last run, in bytes.
        let mut end = None;
        borders.pass(0, 0, documents, found)?;
        for first in (0..self.sequences).step_by(BLOCK) {
            let count = BLOCK.min((self.sequences - first) as usize);
            self.index.read_at(HEADER + 4 * first, &mut lengths[..4 * count])?;
            self.index.read_at(pointers_at + 8 * first, &mut pointers[..8 * count])?;
            let entries = lengths.as_chunks::<4>().0.iter().zip(pointers.as_chunks::<8>().0).take(count);
            for (sequence, (&length, &pointer)) in (first..).zip(entries) {
                let (length, pointer) = (i32::from_le_bytes(length), i64::from_le_bytes(pointer));
                let Ok(length) = u64::try_from(length) else {
                    let reason = format!("sequence {sequence} has a negative number of tokens, {length}");
                    return Err(self.index.refuse(HEADER + 4 * sequence, reason));
                };
                let offset = u64::try_from(pointer).ok();
                let stop = offset.and_then(|offset| offset.checked_add(length * item));
                let Some((offset, stop)) = offset.zip(stop.filter(|&stop| stop <= bin_bytes)) else {
                    let reason = format!(
                        "sequence {sequence} begins at byte {pointer} and has {length} tokens of {item} bytes, but the \
                         .bin file has {bin_bytes} bytes; one of the two files is truncated, or they do not belong \
                         together"
                    );
                    return Err(self.index.refuse(pointers_at + 8 * sequence, reason));
                };
                if length > 0 {
                    if end != Some(offset) {
                        found.runs.push(Run { start: found.tokens, offset });
                    }
                    end = Some(stop);
                    found.tokens += length;
                }
                borders.pass(sequence + 1, found.tokens, documents, found)?;
            }
        }
        borders.finish()
    }
}

/// Iterates over the document boundaries.
struct Borders<'a> {
    parts: &'a Parts<'a>,
    at: u64,
    /// The number of the next one.
    next: u64,
    /// The boundaries read ahead, in reverse order, the next one last.
    block: Vec<u64>,
    /// The previous one.
    last: u64,
}

impl Borders<'_> {
    /// Consumes the boundaries that follow the first `sequences` sequences, which have `tokens` tokens in total.
    fn pass(&mut self, sequences: u64, tokens: u64, documents: Documents, found: &mut MegatronIndex) -> Result<()> {
        while self.peek()? == Some(sequences) {
            if self.next > 0 && documents == Documents::Apart {
                found.ends.push(tokens);
            }
            self.block.pop();
            (self.next, self.last) = (self.next + 1, sequences);
        }
        Ok(())
    }

    /// Returns the next boundary, checked; `None` after the last one.
    fn peek(&mut self) -> Result<Option<u64>> {
        if self.block.is_empty() && self.next < self.parts.borders {
            let count = BLOCK.min((self.parts.borders - self.next) as usize);
            let mut bytes = vec![0; 8 * count];
            self.parts.index.read_at(self.at + 8 * self.next, &mut bytes)?;
            self.block.extend(bytes.as_chunks::<8>().0.iter().rev().map(|&border| u64::from_le_bytes(border)));
        }
        let Some(&border) = self.block.last() else { return Ok(None) };
        let sequences = self.parts.sequences;
        let reason = match self.next {
            0 if border != 0 => format!("the first document begins at sequence {border}, expected 0"),
            _ if border < self.last => format!("document {} ends before it begins", self.next - 1),
            _ if border > sequences => format!("a document ends at sequence {border} of {sequences}"),
            _ => return Ok(Some(border)),
        };
        Err(self.parts.index.refuse(self.at + 8 * self.next, reason))
    }

    /// Fails if the last document does not end with the last sequence.
    fn finish(&mut self) -> Result<()> {
        let sequences = self.parts.sequences;
        if self.peek()?.is_none() && self.last == sequences {
            return Ok(());
        }
        let reason = format!(
            "the last document ends at sequence {} of {sequences}; the index is incomplete or damaged",
            self.last
        );
        Err(self.parts.index.refuse(self.at + 8 * (self.parts.borders - 1), reason))
    }
}

/// Megatron's codes for the data types of tokens.
const CODES: [(u8, DType); 6] =
    [(1, DType::UInt8), (2, DType::Int8), (3, DType::Int16), (4, DType::Int32), (5, DType::Int64), (8, DType::UInt16)];

/// Returns the data type for one of Megatron's codes.
fn dtype_of(code: u8) -> std::result::Result<DType, String> {
    match (CODES.iter().find(|(other, _)| *other == code), code) {
        (Some((_, dtype)), _) => Ok(*dtype),
        (None, 6 | 7) => Err(format!("code {code} is a floating-point type, but tokens must be integers")),
        (None, _) => Err(format!("unknown data type code {code}, expected 1 to 8")),
    }
}

/// Returns Megatron's code for a data type.
///
/// # Errors
/// [`Error::InvalidArgument`] if it has none.
pub(super) fn code_of(dtype: DType) -> Result<u8> {
    CODES.iter().find(|(_, other)| *other == dtype).map(|(code, _)| *code).ok_or_else(|| {
        Error::invalid("dtype", format!("expected a type of a Megatron index, such as uint16 or int32, got {dtype}"))
    })
}

/// Writes the index of adjacent documents of these `lengths`, in tokens: each is one sequence.
pub(super) fn encode_index(dtype: DType, lengths: &[i32], mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut part = MAGIC.to_vec();
    part.extend(1_u64.to_le_bytes());
    part.push(code_of(dtype)?);
    part.extend((lengths.len() as u64).to_le_bytes());
    part.extend((lengths.len() as u64 + 1).to_le_bytes());
    write(&part)?;
    write_numbers(lengths.iter().map(|length| length.to_le_bytes()), &mut write)?;
    let mut next = 0;
    let offsets = lengths.iter().map(|&length| {
        let offset = next;
        next += i64::from(length) * dtype.bytes() as i64;
        offset.to_le_bytes()
    });
    write_numbers(offsets, &mut write)?;
    write_numbers((0..=lengths.len() as u64).map(u64::to_le_bytes), &mut write)
}

fn write_numbers<const BYTES: usize>(
    mut numbers: impl Iterator<Item = [u8; BYTES]>,
    write: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut part = Vec::with_capacity(BLOCK * BYTES);
    loop {
        part.clear();
        numbers.by_ref().take(BLOCK).for_each(|number| part.extend(number));
        if part.is_empty() {
            return Ok(());
        }
        write(&part)?;
    }
}
