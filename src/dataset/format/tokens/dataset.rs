//! [`Tokens`]: windows of a fixed length over files of tokens.

use std::sync::Arc;

use super::files::TokenFiles;
use super::places::Place;
use crate::dataset::format::file::page_cache::PageCache;
use crate::dataset::{Dataset, ReadMany};
use crate::{BatchWriter, DType, Error, Field, Result, SampleWriter, Schema};

/// Which windows are cut from files of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenWindows {
    /// The number of tokens in a field of a sample.
    pub length: usize,
    /// The number of tokens from the start of one window to the start of the next.
    pub stride: usize,
    /// The fields that are made of a window.
    pub output: TokenOutput,
    /// If given, tokens from this number on are errors.
    pub vocabulary_size: Option<u64>,
}

/// The fields of a sample, all of them int64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOutput {
    /// `tokens`: a window of `length` + 1 tokens.
    Tokens,
    /// `input_ids` and `labels`: the tokens of a window, and the token after each of them.
    Shifted,
    /// `input_ids` and `labels`, both the tokens of a window of `length`.
    Same,
}

impl TokenOutput {
    /// Returns the number of tokens in a window for fields of `length` tokens.
    fn window(self, length: usize) -> Option<usize> {
        match self {
            Self::Tokens | Self::Shifted => length.checked_add(1),
            Self::Same => Some(length),
        }
    }
}

/// Windows over the tokens of files, widened to int64: sample i is the i-th window. No window crosses the end of a
/// document; tokens after the last full window of a document are dropped.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{Dataset, Documents, TokenFiles, TokenLayout, TokenOutput, TokenWindows, Tokens};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// std::fs::write(&path, [1_u16, 2, 3, 4, 5, 6, 7, 8].map(u16::to_le_bytes).concat()).unwrap();
/// let files = TokenFiles::open([&path], &TokenLayout::default(), Documents::Joined)?;
/// let windows = TokenWindows { length: 3, stride: 3, output: TokenOutput::Shifted, vocabulary_size: None };
/// let tokens = Tokens::new(Arc::new(files), windows)?;
/// assert_eq!((tokens.len(), tokens.schema().to_string().as_str()), (2, "(input_ids: int64[3], labels: int64[3])"));
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct Tokens {
    files: Arc<TokenFiles>,
    windows: TokenWindows,
    /// Tokens in a window.
    window: usize,
    /// Per document, the number of windows in the documents up to and including it.
    ends: Vec<u64>,
    schema: Schema,
    page_cache: PageCache,
}

impl Tokens {
    /// The `windows` of `files`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `length` or `stride` is 0, or there are no windows.
    pub fn new(files: Arc<TokenFiles>, windows: TokenWindows) -> Result<Self> {
        let TokenWindows { length, stride, output, .. } = windows;
        for (argument, number) in [("length", length), ("stride", stride)] {
            if number == 0 {
                return Err(Error::invalid(argument, "expected a positive number of tokens, but got 0"));
            }
        }
        let too_short = || {
            let longest = (0..files.documents()).map(|document| files.document_len(document)).max().unwrap_or(0);
            let reason = format!("a window is longer than every document; the longest has {longest} tokens");
            Error::invalid("length", reason)
        };
        let window = output.window(length).ok_or_else(too_short)?;
        let mut ends = Vec::new();
        ends.try_reserve_exact(files.documents()).map_err(|error| {
            Error::invalid("paths", format!("no memory for the positions of {} documents ({error})", files.documents()))
        })?;
        let mut count = 0;
        for document in 0..files.documents() {
            let room = files.document_len(document).checked_sub(window as u64);
            count += room.map_or(0, |room| room / stride as u64 + 1);
            ends.push(count);
        }
        if count == 0 {
            return Err(too_short());
        }
        let fields: &[&str] = if output == TokenOutput::Tokens { &["tokens"] } else { &["input_ids", "labels"] };
        let shape = if output == TokenOutput::Tokens { window } else { length };
        let fields: Vec<Field> = fields.iter().map(|&name| Field::new(name, DType::Int64, [shape])).collect();
        Ok(Self { files, windows, window, ends, schema: Schema::new(fields), page_cache: PageCache::new() })
    }

    /// Returns the position of window `index`.
    fn place(&self, index: usize) -> Result<Place> {
        let document = self.ends.partition_point(|&end| end <= index as u64);
        if document == self.ends.len() {
            return Err(Error::IndexOutOfRange { index, len: self.len() });
        }
        let before = if document == 0 { 0 } else { self.ends[document - 1] };
        let token = self.files.document_start(document) + (index as u64 - before) * self.windows.stride as u64;
        Ok(self.files.place(token, self.window))
    }

    fn read_at(&self, place: Place, into: &mut SampleWriter<'_>) -> Result<()> {
        let (stream, start) = (self.files.stream(place.stream), place.start);
        let fields = self.schema.fields().len();
        for field in 0..fields {
            // Unless a window exceeds the L1 cache, the second field finds the tokens there.
            let shift = u64::from(field == 1 && self.windows.output == TokenOutput::Shifted);
            stream.read(start + shift, into.field(field))?;
            if let Some(size) = self.windows.vocabulary_size {
                stream.check_vocabulary(start + shift, into.field(field), size)?;
            }
        }
        Ok(())
    }
}

impl Dataset for Tokens {
    fn len(&self) -> usize {
        self.ends[self.ends.len() - 1] as usize
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.read_many(&[index], &mut into.as_batch())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }
}

impl ReadMany for Tokens {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let places = indices.iter().map(|&index| self.place(index)).collect::<Result<Vec<_>>>()?;
        self.files.read_places(&self.page_cache, &places, |row, place| self.read_at(place, &mut into.sample(row)))
    }
}
