//! [`FetchPackedFields`]: pieces of documents with additional fields, side by side in packed rows.

use std::sync::Arc;

use super::fetch_packed::pieces_of;
use super::{Batch, Fetch, FetchSamples, IndexBatch};
use crate::collate::{PackRows, PackedPieces, StackSamples};
use crate::dataset::format::DocumentPiece;
use crate::memory::{Slab, widen};
use crate::{BatchLayout, DType, Dataset, Error, Field, Result, Schema};

/// The positions of the tokens and of the labels among the columns of packed rows.
const TOKENS: usize = 0;
const LABELS: usize = 1;

/// Number of columns that packed rows always have.
const OWN_COLUMNS: usize = 5;

/// Number of document slots kept for the next batches.
const DOCUMENT_SLOTS: usize = 8;

/// A dataset field that has one element, or one row of them, per token of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedField {
    /// The position of the field in the dataset's schema.
    pub field: usize,
    /// The bytes of one scalar of the field's data type, used as padding.
    pub padding: Vec<u8>,
}

/// Fetches rows of packed documents, with separate labels and other fields in addition to the tokens: each sample of
/// the dataset is a document. The tokens are an integer field with one axis, and so are the labels: label k belongs to
/// token k (-100 where nothing is predicted, for example in a prompt). The batch has the fields of [`PackRows`],
/// followed by the other fields, (rows, length, ...), in their data types.
///
/// An index is the code of a piece, as a [`PackedBatchSampler`](crate::sampler::PackedBatchSampler) yields it: see
/// [`PieceCode`](crate::sampler::PieceCode). Documents are read whole, each once per batch.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::internal::{Array, Fetch, FetchPackedFields, IndexBatch, Ragged, Segment, Slab};
/// use sluicegate::internal::{PackRows, PackedBatchSampler, PackedLabels, Packing};
/// use sluicegate::{BatchingSampler, DType, DatasetExt, Field, LastBatch, Shuffling};
///
/// let ragged = |name, values: [i64; 5]| {
///     let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
///     let array = Array::contiguous(Arc::new(Segment::from_vec(bytes)), 0, 8, &[5])?;
///     Ragged::new(Field::variable(name, DType::Int64, []), array, vec![0, 3, 5])
/// };
/// let documents = ragged("input_ids", [7, 8, 9, 5, 6])?.zip(ragged("labels", [-100, -100, 9, -100, 6])?)?;
/// let sampler = PackedBatchSampler::new(&[3, 2], 6, 1, Packing::Concat, 1, LastBatch::Keep, Shuffling::Off)?;
/// let collate = PackRows { length: 6, pad_token: 0, labels: PackedLabels::Same };
/// let slab = Arc::new(Slab::new(2));
/// let fetch = FetchPackedFields::new(Arc::new(documents), vec![3, 2], collate, slab)?.with_labels(1)?;
/// let mut indices = Vec::new();
/// sampler.batches(0)?.indices(0, &mut indices);
/// let batch = fetch.fetch(&IndexBatch { epoch: 0, batch_in_epoch: 0, indices, draws: None })?;
/// assert_eq!(batch.to_vec::<i64>(0)?, [7, 8, 9, 5, 6, 0]);
/// assert_eq!(batch.to_vec::<i64>(1)?, [-100, -100, 9, -100, 6, -100]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct FetchPackedFields {
    dataset: Arc<dyn Dataset>,
    samples: FetchSamples,
    lengths: Vec<u32>,
    tokens: usize,
    labels: Option<usize>,
    others: Vec<PackedField>,
    collate: PackRows,
    slab: Arc<Slab>,
}

impl FetchPackedFields {
    /// Returns a fetcher of pieces of the documents of `dataset`, whose field 0 has the tokens. `collate` lays them
    /// into rows, in slots of `slab`. The labels are the tokens. `lengths` are the token counts that the sampler uses.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field does not contain integers along one axis, or the number of lengths
    /// differs from the number of documents.
    pub fn new(dataset: Arc<dyn Dataset>, lengths: Vec<u32>, collate: PackRows, slab: Arc<Slab>) -> Result<Self> {
        if lengths.len() != dataset.len() {
            let reason = format!("expected one for each of the {} documents, got {}", dataset.len(), lengths.len());
            return Err(Error::invalid("lengths", reason));
        }
        // Documents do not use the slots of `slab`, which may be pinned; their own are free as soon as the pieces are
        // copied.
        let samples =
            FetchSamples::new(Arc::clone(&dataset), Arc::new(StackSamples), Arc::new(Slab::new(DOCUMENT_SLOTS)));
        Self { dataset, samples, lengths, tokens: 0, labels: None, others: Vec::new(), collate, slab }.with_tokens(0)
    }

    /// Takes the tokens from this field instead.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field does not contain integers along one axis.
    pub fn with_tokens(self, field: usize) -> Result<Self> {
        check_integers(self.dataset.schema(), field)?;
        Ok(Self { tokens: field, ..self })
    }

    /// Takes the labels from this field instead.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field does not contain integers along one axis.
    pub fn with_labels(self, field: usize) -> Result<Self> {
        check_integers(self.dataset.schema(), field)?;
        Ok(Self { labels: Some(field), ..self })
    }

    /// Adds other fields to the batch.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such field, it has one value per document, or its padding is not one
    /// scalar.
    pub fn with_fields(self, fields: Vec<PackedField>) -> Result<Self> {
        for PackedField { field, padding } in &fields {
            let of = element_of(self.dataset.schema(), *field)?;
            if padding.len() != of.dtype().bytes() {
                let reason = format!(
                    "the padding of field `{}` has {} bytes, but {of} has elements of a different size",
                    of.name(),
                    padding.len()
                );
                return Err(Error::invalid("padding", reason));
            }
        }
        Ok(Self { others: fields, ..self })
    }

    /// Returns the pieces that `indices` encode, and their places in rows; nothing is read.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if an index encodes no piece, or the pieces do not form rows.
    pub fn pieces(&self, indices: &[usize]) -> Result<(Vec<DocumentPiece>, PackedPieces)> {
        pieces_of(indices, self.lengths.len(), &self.collate, |document| Ok(u64::from(self.lengths[document])))
    }
}

impl Fetch for FetchPackedFields {
    fn fetch(&self, batch: &IndexBatch) -> Result<Batch> {
        let (pieces, packed) = self.pieces(&batch.indices)?;
        let mut indices: Vec<usize> = pieces.iter().map(|piece| piece.document).collect();
        indices.sort_unstable();
        indices.dedup();
        let documents = self.samples.fetch(&IndexBatch { indices: indices.clone(), draws: None, ..*batch })?;
        let schema = self.dataset.schema();
        let more = self.others.iter().map(|other| element_of(schema, other.field)).collect::<Result<Vec<_>>>()?;
        let layout = self.collate.layout_with(&packed, &more)?;
        let mut lease = self.slab.lease_for_batch(layout.bytes)?;
        let mut into = Rows { pieces: &pieces, packed: &packed, layout: &layout, bytes: lease.bytes_mut() };
        let source = |field: usize| -> Result<Source<'_>> {
            let element = element_of(schema, field)?;
            let source = Source { documents: &documents, indices: &indices, field, element };
            source.check_lengths(&self.lengths, field == self.tokens).map(|()| source)
        };
        into.put(TOKENS, &source(self.tokens)?, None);
        if let Some(labels) = self.labels {
            into.put(LABELS, &source(labels)?, None);
        }
        for (number, other) in self.others.iter().enumerate() {
            into.put(OWN_COLUMNS + number, &source(other.field)?, Some(&other.padding));
        }
        match self.labels {
            None => self.collate.fill(&packed, &layout, lease.bytes_mut()),
            Some(_) => self.collate.fill_around_labels(&packed, &layout, lease.bytes_mut()),
        }
        Ok(Batch::new(layout, lease))
    }
}

/// A field of whole documents.
struct Source<'a> {
    documents: &'a Batch,
    /// The documents, in ascending order.
    indices: &'a [usize],
    field: usize,
    /// The element that belongs to one token.
    element: Field,
}

impl Source<'_> {
    /// Returns the bytes of a piece.
    fn piece(&self, piece: &DocumentPiece) -> &[u8] {
        let row = self.indices.partition_point(|&index| index < piece.document);
        let bytes = self.element.bytes();
        &self.documents.sample(self.field, row)[piece.start as usize * bytes..][..piece.tokens * bytes]
    }

    fn check_lengths(&self, lengths: &[u32], are_tokens: bool) -> Result<()> {
        let bytes = self.element.bytes();
        for (row, &document) in self.indices.iter().enumerate() {
            let (found, expected) = (self.documents.sample(self.field, row).len(), lengths[document] as usize);
            if found == expected.saturating_mul(bytes) {
                continue;
            }
            let found = found.checked_div(bytes).unwrap_or(0);
            let reason = if are_tokens {
                format!("document {document} has {found} tokens, but its given length is {expected}")
            } else {
                format!(
                    "document {document}: `{}` has {found} values, but the document has {expected} tokens; store one \
                     value for each token",
                    self.element.name()
                )
            };
            return Err(Error::invalid("documents", reason));
        }
        Ok(())
    }
}

/// Packed rows that are being written.
struct Rows<'a> {
    pieces: &'a [DocumentPiece],
    packed: &'a PackedPieces,
    layout: &'a BatchLayout,
    bytes: &'a mut [u8],
}

impl Rows<'_> {
    /// Writes the pieces of a field to a column. The standard columns are written as int64 and have their own padding.
    fn put(&mut self, column: usize, source: &Source<'_>, padding: Option<&[u8]>) {
        let (dtype, is_own) = (source.element.dtype(), padding.is_none());
        let bytes = if is_own { size_of::<i64>() } else { source.element.bytes() };
        let column = &mut self.bytes[self.layout.columns[column].offset()..];
        let mut pieces = self.pieces.iter();
        for (tokens, is_padding) in self.packed.places() {
            let into = &mut column[tokens.start * bytes..tokens.end * bytes];
            match padding {
                Some(padding) if is_padding => {
                    into.chunks_exact_mut(padding.len()).for_each(|into| into.copy_from_slice(padding));
                }
                None if is_padding => {}
                _ => {
                    let Some(piece) = pieces.next() else { return };
                    let piece = source.piece(piece);
                    if is_own { widen(dtype, piece, into) } else { into.copy_from_slice(piece) }
                }
            }
        }
    }
}

/// Returns the element that belongs to one token in a field of documents.
fn element_of(schema: &Schema, field: usize) -> Result<Field> {
    let invalid = |reason| Err(Error::invalid("field", reason));
    let Some(of) = schema.fields().get(field) else {
        return invalid(format!("there is no field {field} among {schema}"));
    };
    let shape = if of.is_variable() { Some(of.shape()) } else { of.shape().get(1..) };
    match shape.map(|shape| Field::new(of.name(), of.dtype(), shape)) {
        Some(element) if element.bytes() > 0 => Ok(element),
        _ => invalid(format!("{of} has no value for each token")),
    }
}

fn check_integers(schema: &Schema, field: usize) -> Result<()> {
    use DType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let element = element_of(schema, field)?;
    if [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32].contains(&element.dtype()) && element.shape().is_empty() {
        return Ok(());
    }
    Err(Error::invalid("field", format!("expected integers along one axis, got {}", schema.fields()[field])))
}
