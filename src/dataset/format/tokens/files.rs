//! [`TokenFiles`]: files of tokens, and where their documents lie.

use std::path::{Path, PathBuf};

use super::stream::TokenStream;
use crate::dataset::format::file::data_file::{Access, MAPPED_FILES};
use crate::{DType, Error, Result};

/// How the tokens of a flat file lie in it. The index of a Megatron file says so, and the header of a `.npy` file or of one of
/// llm.c; headers are looked for where `offset` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLayout {
    /// The data type of a token: an integer, but not uint64. In the file it is little-endian.
    pub dtype: DType,
    /// How many bytes come before the first token.
    pub offset: u64,
}

impl Default for TokenLayout {
    fn default() -> Self {
        Self { dtype: DType::UInt16, offset: 0 }
    }
}

/// What a document is in files of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Documents {
    /// The tokens of a file are one text, whatever documents it is made of.
    #[default]
    Joined,
    /// Those that a Megatron index tells of. A file without one is a single document.
    Apart,
}

/// The tokens of one or more files, one file after the other, cut into documents.
///
/// With [`Documents::Apart`] it takes 8 bytes a document. Opening a flat file looks at its size; opening a Megatron file
/// reads its index once, and checks every number of it. The files are memory-mapped, and no descriptor stays open; from the
/// 4097th file on, each read opens its file. All methods may be called from many threads at once.
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
    /// By file, the number of tokens in the files up to and including it.
    stream_ends: Vec<u64>,
    /// By document, the number of tokens in the documents up to and including it. None where each file is one.
    document_ends: Option<Vec<u64>>,
}

impl TokenFiles {
    /// Opens the files at `paths`. A `name.bin` with a `name.idx` beside it is Megatron's pair, which may also be given as
    /// `name` or `name.idx`; every other file is flat.
    ///
    /// # Errors
    /// [`Error::Io`] when a file can't be opened; [`Error::Format`] when one is empty, is not a whole number of tokens,
    /// has an index or a header whose numbers do not fit, or begins as a file of another format does;
    /// [`Error::InvalidArgument`] when there is no file, or the data type is none of a token.
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
            // Each file has fewer than 2^63 bytes, but a sparse one costs nothing.
            tokens =
                u64::checked_add(tokens, stream.len()).filter(|&tokens| i64::try_from(tokens).is_ok()).ok_or_else(
                    || Error::InvalidArgument { argument: "paths", reason: "more tokens than can be counted".into() },
                )?;
            files.stream_ends.push(tokens);
            files.streams.push(stream);
        }
        if files.streams.is_empty() {
            return Err(Error::InvalidArgument { argument: "paths", reason: "at least one file is needed".into() });
        }
        files.document_ends = (documents == Documents::Apart).then_some(document_ends);
        Ok(files)
    }

    /// The number of tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.stream_ends[self.stream_ends.len() - 1]
    }

    /// By file, the data type of its tokens: that of the layout, or that of a Megatron index.
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
    /// When there is no such document.
    #[must_use]
    pub fn document_len(&self, document: usize) -> u64 {
        self.document_ends()[document] - self.document_start(document)
    }

    /// Reads the tokens of document `document` from its token `start` on, as int64, as many as `into` has room for.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`], [`Error::InvalidArgument`] when the document is shorter, and what [`Error::Shrunk`] and
    /// its siblings say of the file.
    ///
    /// # Panics
    /// When `into` is not a whole number of int64.
    pub fn read_document(&self, document: usize, start: u64, into: &mut [u8]) -> Result<()> {
        let len = self.documents();
        if document >= len {
            return Err(Error::IndexOutOfRange { index: document, len });
        }
        let (tokens, wanted) = (self.document_len(document), into.len() / size_of::<i64>());
        if start.checked_add(wanted as u64).is_none_or(|end| end > tokens) {
            let reason =
                format!("{wanted} tokens from {start} on were asked for of document {document}, which has {tokens}");
            return Err(Error::InvalidArgument { argument: "start", reason });
        }
        let number = self.stream_at(self.document_start(document));
        let stream = &self.streams[number];
        stream.read(self.document_start(document) - self.stream_start(number) + start, into)?;
        stream.check()
    }

    /// Where each document ends among all tokens.
    pub(super) fn document_ends(&self) -> &[u64] {
        self.document_ends.as_ref().unwrap_or(&self.stream_ends)
    }

    /// Where a document begins among all tokens.
    pub(super) fn document_start(&self, document: usize) -> u64 {
        if document == 0 { 0 } else { self.document_ends()[document - 1] }
    }

    /// The file that holds a token: a number for [`stream`](Self::stream).
    pub(super) fn stream_at(&self, token: u64) -> usize {
        // An empty document at the very end lies in the last file.
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
    let reason = format!("tokens are integers that fit into int64, but got {dtype}");
    Err(Error::InvalidArgument { argument: "dtype", reason })
}

/// The two files of a Megatron dataset.
struct MegatronPair {
    tokens: PathBuf,
    index: PathBuf,
}

impl MegatronPair {
    /// The pair that `path` stands for, if it stands for one: by the index's own name, by the prefix that both names have,
    /// or as a `.bin` that has an index beside it.
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
                // Whatever it holds: a damaged index must not turn its `.bin` into a flat file of another data type.
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
