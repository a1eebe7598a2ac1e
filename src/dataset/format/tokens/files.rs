//! [`TokenFiles`]: files of tokens, and the positions of their documents.

use std::path::{Path, PathBuf};

use super::stream::TokenStream;
use crate::dataset::format::file::data_file::{Access, MAPPED_FILES};
use crate::{DType, Error, Result};

/// How tokens are stored in a flat file. A Megatron file has this in its index, and a `.npy` or llm.c file in its
/// header; headers are recognized if `offset` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLayout {
    /// The data type of a token: any integer type except uint64. Tokens are little-endian in the file.
    pub dtype: DType,
    /// The number of bytes before the first token.
    pub offset: u64,
}

impl Default for TokenLayout {
    fn default() -> Self {
        Self { dtype: DType::UInt16, offset: 0 }
    }
}

/// How files of tokens are divided into documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Documents {
    /// Each file is a single document, even if it was made from several.
    #[default]
    Joined,
    /// The documents of the Megatron index. A file without an index is a single document.
    Apart,
}

/// The tokens of one or more files, one file after the other, divided into documents.
///
/// With [`Documents::Apart`] this takes 8 bytes per document. Opening a flat file reads its size and first bytes;
/// opening a Megatron file reads and checks its whole index. The files are memory-mapped without keeping descriptors
/// open; files after the first 4096 are opened for each read. All methods may be called from many threads at once.
///
/// # Example
/// ```
/// use sluicegate::{Documents, TokenFiles, TokenLayout};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// std::fs::write(&path, [7_u16, 8, 9].map(u16::to_le_bytes).concat()).unwrap();
/// let files = TokenFiles::open([&path], &TokenLayout::default(), Documents::Apart)?;
/// let mut tokens = [0; 16];
/// files.read_document(0, 1, &mut tokens)?;
/// assert_eq!((files.document_len(0), tokens), (3, [8_i64, 9].map(i64::to_ne_bytes).concat()[..].try_into().unwrap()));
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct TokenFiles {
    streams: Vec<TokenStream>,
    /// Per file, the number of tokens in the files up to and including it.
    stream_ends: Vec<u64>,
    /// Per document, the number of tokens in the documents up to and including it. `None` if each file is a document.
    document_ends: Option<Vec<u64>>,
}

impl TokenFiles {
    /// Opens the files at `paths`. A `name.bin` with a `name.idx` next to it is a Megatron pair, which may also be
    /// given as `name` or `name.idx`; every other file is flat.
    ///
    /// # Errors
    /// [`Error::Io`] if a file can't be opened; [`Error::Format`] if one is empty, is not a whole number of tokens, has
    /// an inconsistent index or header, or has the signature of another format; [`Error::InvalidArgument`] if there are
    /// no files, or the data type is not valid for tokens.
    pub fn open(
        paths: impl IntoIterator<Item = impl AsRef<Path>>,
        layout: &TokenLayout,
        documents: Documents,
    ) -> Result<Self> {
        check_dtype(layout.dtype)?;
        let mut files = Self { streams: Vec::new(), stream_ends: Vec::new(), document_ends: None };
        let (mut tokens, mut document_ends) = (0, Vec::new());
        for (number, path) in paths.into_iter().enumerate() {
            let access = if number < MAPPED_FILES { Access::Mapped } else { Access::OpenedForEachRead };
            let (stream, ends) = match MegatronPair::of(path.as_ref()) {
                Some(pair) => TokenStream::megatron(&pair.tokens, &pair.index, documents, access)?,
                None => {
                    let stream = TokenStream::plain(path.as_ref(), layout, access)?;
                    let ends = vec![stream.len()];
                    (stream, ends)
                }
            };
            if documents == Documents::Apart {
                document_ends.extend(ends.iter().map(|end| tokens + end));
            }
            // Each file has fewer than 2^63 bytes, but sparse files could add up to more.
            tokens = u64::checked_add(tokens, stream.len())
                .filter(|&tokens| i64::try_from(tokens).is_ok())
                .ok_or_else(|| Error::invalid("paths", "the files have more tokens than can be counted"))?;
            files.stream_ends.push(tokens);
            files.streams.push(stream);
        }
        if files.streams.is_empty() {
            return Err(Error::invalid("paths", "expected at least one file, got none"));
        }
        files.document_ends = (documents == Documents::Apart).then_some(document_ends);
        Ok(files)
    }

    /// The number of tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.stream_ends[self.stream_ends.len() - 1]
    }

    /// Returns the data type of each file's tokens: from the layout, the header, or the Megatron index.
    pub fn dtypes(&self) -> impl Iterator<Item = DType> {
        self.streams.iter().map(TokenStream::dtype)
    }

    /// The number of documents.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.document_ends().len()
    }

    /// The number of tokens of document `document`.
    ///
    /// # Panics
    /// If there is no such document.
    #[must_use]
    pub fn document_len(&self, document: usize) -> u64 {
        self.document_ends()[document] - self.document_start(document)
    }

    /// Fills `into` with the tokens of document `document` from its token `start` on, as int64.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`]; [`Error::InvalidArgument`] if the document is shorter; [`Error::Shrunk`] or another
    /// error of the file.
    ///
    /// # Panics
    /// If the size of `into` is not a multiple of 8 bytes.
    pub fn read_document(&self, document: usize, start: u64, into: &mut [u8]) -> Result<()> {
        let len = self.documents();
        if document >= len {
            return Err(Error::IndexOutOfRange { index: document, len });
        }
        let (tokens, wanted) = (self.document_len(document), into.len() / size_of::<i64>());
        if start.checked_add(wanted as u64).is_none_or(|end| end > tokens) {
            let reason = format!(
                "expected tokens of document {document}, which has {tokens}, got {wanted} tokens from token {start} on"
            );
            return Err(Error::invalid("start", reason));
        }
        let number = self.stream_at(self.document_start(document));
        let stream = &self.streams[number];
        stream.read(self.document_start(document) - self.stream_start(number) + start, into)?;
        stream.check()
    }

    /// Per document, the end of its tokens among all tokens.
    pub(super) fn document_ends(&self) -> &[u64] {
        self.document_ends.as_ref().unwrap_or(&self.stream_ends)
    }

    /// The start of a document among all tokens.
    pub(super) fn document_start(&self, document: usize) -> u64 {
        if document == 0 { 0 } else { self.document_ends()[document - 1] }
    }

    /// The file that contains a token, as a number for [`stream`](Self::stream).
    pub(super) fn stream_at(&self, token: u64) -> usize {
        // An empty document at the very end belongs to the last file.
        self.stream_ends.partition_point(|&end| end <= token).min(self.streams.len() - 1)
    }

    pub(super) fn stream(&self, number: usize) -> &TokenStream {
        &self.streams[number]
    }

    /// The number of tokens in the files before this one.
    pub(super) fn stream_start(&self, number: usize) -> u64 {
        if number == 0 { 0 } else { self.stream_ends[number - 1] }
    }
}

pub(super) fn check_dtype(dtype: DType) -> Result<()> {
    if matches!(
        dtype,
        DType::UInt8 | DType::Int8 | DType::UInt16 | DType::Int16 | DType::UInt32 | DType::Int32 | DType::Int64
    ) {
        return Ok(());
    }
    Err(Error::invalid("dtype", format!("expected an integer type that fits into int64, got {dtype}")))
}

/// The two files of a Megatron dataset.
struct MegatronPair {
    tokens: PathBuf,
    index: PathBuf,
}

impl MegatronPair {
    /// Returns the pair that `path` refers to, if any: by the name of the index, by the common prefix of both names, or
    /// by a `.bin` that has an index next to it.
    fn of(path: &Path) -> Option<Self> {
        let suffixed = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("idx") => Some(Self { tokens: path.with_extension("bin"), index: path.to_path_buf() }),
            Some("bin") if path.exists() => {
                let index = path.with_extension("idx");
                // Even if it is damaged: its `.bin` must not be read as a flat file of another data type.
                index.is_file().then(|| Self { tokens: path.to_path_buf(), index })
            }
            _ if path.exists() => None,
            _ => {
                let (tokens, index) = (suffixed(".bin"), suffixed(".idx"));
                (tokens.exists() && index.exists()).then_some(Self { tokens, index })
            }
        }
    }
}
