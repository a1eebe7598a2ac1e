//! [`TokenDocuments`]: the documents of files of tokens, whole or in pieces.

use std::sync::Arc;

use super::files::TokenFiles;
use super::places::Place;
use crate::dataset::format::file::page_cache::PageCache;
use crate::dataset::{Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, DType, Error, Field, Result, SampleWriter, Schema, SizesWriter};

/// The documents of files of tokens, widened to int64: sample i is document i, in one variable field, `tokens`.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{DataLoader, Dataset, Documents, TokenDocuments, TokenFiles, TokenLayout};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// std::fs::write(&path, [7_u16, 8, 9].map(u16::to_le_bytes).concat()).unwrap();
/// let files = TokenFiles::open([&path], &TokenLayout::default(), Documents::Apart)?;
/// let documents = TokenDocuments::new(Arc::new(files));
/// assert_eq!((documents.len(), documents.schema().to_string().as_str()), (1, "(tokens: int64[*])"));
/// let batch = DataLoader::builder(documents).build()?.epoch(0)?.next().expect("a document")?;
/// assert_eq!(batch.field("tokens")?.view::<i64>()?, [7, 8, 9]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct TokenDocuments {
    files: Arc<TokenFiles>,
    schema: Schema,
    page_cache: PageCache,
}

/// Consecutive tokens of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentPiece {
    /// The number of the document.
    pub document: usize,
    /// The first token, counted from the start of the document.
    pub start: u64,
    /// The number of tokens.
    pub tokens: usize,
}

impl TokenDocuments {
    /// The documents of `files`.
    #[must_use]
    pub fn new(files: Arc<TokenFiles>) -> Self {
        let schema = Schema::new([Field::variable("tokens", DType::Int64, [])]);
        Self { files, schema, page_cache: PageCache::new() }
    }

    /// The number of tokens of document `document`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    pub fn document_len(&self, document: usize) -> Result<u64> {
        if document >= self.len() {
            return Err(Error::IndexOutOfRange { index: document, len: self.len() });
        }
        Ok(self.files.document_len(document))
    }

    /// Reads `pieces`, each into the buffer at the same position of `room`: 8 bytes per token.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`]; [`Error::InvalidArgument`] if a document is shorter, or a buffer does not have the
    /// size of its piece; [`Error::Shrunk`] or another error of the file.
    #[doc(hidden)]
    pub fn read_pieces<'a>(
        &self,
        pieces: &[DocumentPiece],
        room: impl IntoIterator<Item = &'a mut [u8]>,
    ) -> Result<()> {
        let places = pieces.iter().map(|&piece| self.place(piece)).collect::<Result<Vec<_>>>()?;
        let mut room = room.into_iter();
        self.files.read_places(&self.page_cache, &places, |_, place| {
            let into = room.next().filter(|into| into.len() == place.tokens * size_of::<i64>());
            self.read_at(place, into.ok_or_else(wrong_room)?)
        })
    }

    fn place(&self, piece: DocumentPiece) -> Result<Place> {
        let DocumentPiece { document, start, tokens } = piece;
        let len = self.document_len(document)?;
        if start.checked_add(tokens as u64).is_none_or(|end| end > len) {
            let reason = format!(
                "expected tokens of document {document}, which has {len}, got {tokens} tokens from token {start} on"
            );
            return Err(Error::invalid("start", reason));
        }
        Ok(self.files.place(self.files.document_start(document) + start, tokens))
    }

    fn whole(&self, document: usize) -> Result<Place> {
        let tokens = self.document_len(document)?;
        self.place(DocumentPiece { document, start: 0, tokens: tokens as usize })
    }

    fn read_at(&self, place: Place, into: &mut [u8]) -> Result<()> {
        // An empty document may be at the end of its file.
        if place.tokens == 0 {
            return Ok(());
        }
        self.files.stream(place.stream).read(place.start, into)
    }
}

fn wrong_room() -> Error {
    Error::invalid("room", "each piece must have room for exactly its tokens")
}

impl Dataset for TokenDocuments {
    fn len(&self) -> usize {
        self.files.documents()
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

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        Some(self)
    }
}

impl ReadMany for TokenDocuments {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let places = indices.iter().map(|&index| self.whole(index)).collect::<Result<Vec<_>>>()?;
        self.files.read_places(&self.page_cache, &places, |row, place| self.read_at(place, into.sample(row).field(0)))
    }
}

impl VariableSize for TokenDocuments {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        for (row, &index) in indices.iter().enumerate() {
            into.set(row, 0, self.document_len(index)? as usize);
        }
        Ok(())
    }
}
