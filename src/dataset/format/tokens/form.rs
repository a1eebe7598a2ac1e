//! [`TokenForm`]: where and how tokens are stored in a file without an index.

use super::files::{TokenLayout, check_dtype};
use crate::dataset::format::array::header::{LONGEST_HEADER, NpyHeader};
use crate::dataset::format::file::data_file::DataFile;
use crate::dataset::format::file::known_format::{SIGNATURE_BYTES, foreign, is_text};
use crate::{DType, Result};

/// Where and how the tokens of a file are stored.
pub(super) struct TokenForm {
    pub(super) dtype: DType,
    /// The number of bytes before the first token.
    pub(super) offset: u64,
    pub(super) tokens: u64,
}

/// The files of llm.c and modded-nanogpt: 256 int32, the first of which are a magic number, a version and the number of
/// tokens, then the tokens.
///
/// Source: `dev/data/data_common.py` and `llmc/dataloader.h` of llm.c.
const LLM_C: [(i32, &[i32], DType); 2] = [(20_240_520, &[1], DType::UInt16), (20_240_801, &[1, 7], DType::UInt32)];
const LLM_C_HEADER: u64 = 1024;

impl TokenForm {
    /// Determines the form of `file`. With an explicit offset, the file is flat; otherwise its first bytes may be a
    /// known header.
    ///
    /// # Errors
    /// [`Error::Format`](crate::Error::Format) if it is empty, not a whole number of tokens, has a damaged header, or
    /// is of another format.
    pub(super) fn of(file: &DataFile, layout: &TokenLayout) -> Result<Self> {
        if layout.offset > 0 {
            return Self::flat(file, layout);
        }
        let start = file.start(SIGNATURE_BYTES)?;
        if start.starts_with(b"\x93NUMPY") {
            return Self::npy(file);
        }
        let word =
            |at: usize| start.get(at..at + 4).map(|word| i32::from_le_bytes(word.try_into().expect("four bytes")));
        if let Some(&(_, versions, dtype)) = LLM_C.iter().find(|&&(magic, ..)| word(0) == Some(magic)) {
            let (version, tokens) = (word(4).unwrap_or(0), word(8).unwrap_or(0));
            return Self::llm_c(file, version, versions, u64::try_from(tokens).unwrap_or(0), dtype);
        }
        if let Some(reason) = foreign(&start, "") {
            return Err(file.refuse(0, reason));
        }
        if layout.dtype.bytes() > 1 && is_text(&start) {
            let reason = "the file is text, not tokens; tokenize it first, or read its bytes with dtype=\"uint8\"";
            return Err(file.refuse(0, reason.into()));
        }
        Self::flat(file, layout)
    }

    fn flat(file: &DataFile, layout: &TokenLayout) -> Result<Self> {
        let (bytes, item) = (file.bytes(), layout.dtype.bytes() as u64);
        if bytes <= layout.offset {
            let reason = match layout.offset {
                0 => "the file is empty; write it again, or leave it out".to_owned(),
                offset => format!("the file has {bytes} bytes, all of them skipped by offset={offset}"),
            };
            return Err(file.refuse(bytes, reason));
        }
        let rest = (bytes - layout.offset) % item;
        if rest > 0 {
            let reason = format!(
                "{} bytes are not a whole number of {} tokens; the file is truncated, or has a different dtype",
                bytes - layout.offset,
                layout.dtype
            );
            return Err(file.refuse(bytes - rest, reason));
        }
        Ok(Self { dtype: layout.dtype, offset: layout.offset, tokens: (bytes - layout.offset) / item })
    }

    fn npy(file: &DataFile) -> Result<Self> {
        let start = file.start(LONGEST_HEADER + 12)?;
        let header = NpyHeader::parse(&start).map_err(|(offset, reason)| file.refuse(offset, reason))?;
        check_dtype(header.dtype).map_err(|_| {
            file.refuse(8, format!("tokens must be integers that fit into int64, but the array has {}", header.dtype))
        })?;
        let &[tokens] = header.shape.as_slice() else {
            let reason = format!(
                "tokens must have one axis, but the array has the shape {:?}; save array.reshape(-1)",
                header.shape
            );
            return Err(file.refuse(8, reason));
        };
        Self::checked(file, header.dtype, header.data_offset as u64, tokens as u64)
    }

    fn llm_c(file: &DataFile, version: i32, versions: &[i32], tokens: u64, dtype: DType) -> Result<Self> {
        if !versions.contains(&version) {
            let reason = format!("version {version} of llm.c's token files is not supported, only {versions:?}");
            return Err(file.refuse(4, reason));
        }
        let form = Self::checked(file, dtype, LLM_C_HEADER, tokens)?;
        // llm.c checks this, too.
        if file.bytes() != LLM_C_HEADER + tokens * dtype.bytes() as u64 {
            let reason = format!(
                "the header declares {tokens} {dtype} tokens, but the file has {} bytes after the header; write or \
                 copy it again",
                file.bytes() - LLM_C_HEADER
            );
            return Err(file.refuse(8, reason));
        }
        Ok(form)
    }

    fn checked(file: &DataFile, dtype: DType, offset: u64, tokens: u64) -> Result<Self> {
        if tokens == 0 {
            return Err(file.refuse(offset, "the header declares 0 tokens; leave the file out".into()));
        }
        let needed = tokens.checked_mul(dtype.bytes() as u64).and_then(|bytes| bytes.checked_add(offset));
        if needed.is_none_or(|needed| needed > file.bytes()) {
            let reason = format!(
                "the file is truncated: the header declares {tokens} {dtype} tokens after {offset} bytes, but the file \
                 has {} bytes; write or copy it again",
                file.bytes()
            );
            return Err(file.refuse(file.bytes(), reason));
        }
        Ok(Self { dtype, offset, tokens })
    }
}
