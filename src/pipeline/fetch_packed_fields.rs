//! [`FetchPackedFields`]: pieces of documents with fields of their own, next to each other in packed rows.

use std::sync::Arc;

use super::fetch_packed::pieces_of;
use super::{Batch, Fetch, FetchSamples, IndexBatch};
use crate::collate::StackSamples;
use crate::memory::{Slab, widen};
use crate::{BatchLayout, DType, Dataset, DocumentPiece, Error, Field, PackRows, PackedPieces, Result, Schema};

/// The place of the tokens among the columns of packed rows, and that of the labels.
const TOKENS: usize = 0;
const LABELS: usize = 1;

/// The columns that packed rows always have.
const OWN_COLUMNS: usize = 5;

/// So many slots of documents are kept for the next batches.
const DOCUMENT_SLOTS: usize = 8;

/// The field of a dataset that has one element, or one row of them, for each token of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedField {
    /// The place of the field in the schema of the dataset.
    pub field: usize,
    /// The bytes of one scalar of the field's data type, of which padding is made.
    pub padding: Vec<u8>,
}

/// Fetches rows that documents are packed into, with labels of their own and other fields next to the tokens: a sample of the
/// dataset is a document. The tokens are a field of integers along one axis, and so are the labels, of which the k-th belongs
/// to token k (-100 where nothing is predicted, as for a prompt). The batch has the fields of [`PackRows`], and after them the
/// other fields, (rows, length, ...), in their data types.
///
/// An index is the code of a piece, as a [`PackedBatchSampler`](crate::PackedBatchSampler) yields it: see
/// [`PieceCode`](crate::PieceCode). Documents are read whole, each once in a batch.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::memory::{Array, Segment, Slab};
/// use sluicegate::{BatchingSampler, DType, DatasetExt, Fetch, FetchPackedFields, Field, IndexBatch, LastBatch, PackRows};
/// use sluicegate::{PackedBatchSampler, PackedLabels, Packing, Ragged, Shuffling};
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
    /// Fetches pieces of the documents of `dataset`, whose field 0 has the tokens, laid into rows by `collate`, into slots of
    /// `slab`. The labels are the tokens. `lengths` are the numbers of tokens that the sampler knows.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the field has no integers along one axis, or there are fewer or more lengths than
    /// documents.
    pub fn new(dataset: Arc<dyn Dataset>, lengths: Vec<u32>, collate: PackRows, slab: Arc<Slab>) -> Result<Self> {
        if lengths.len() != dataset.len() {
            let reason = format!("there are {} documents, but {} lengths", dataset.len(), lengths.len());
            return Err(Error::InvalidArgument { argument: "lengths", reason });
        }
        // Documents lie in slots of their own, which are free as soon as their pieces are copied: those of `slab` may be pinned.
        let samples =
            FetchSamples::new(Arc::clone(&dataset), Arc::new(StackSamples), Arc::new(Slab::new(DOCUMENT_SLOTS)));
        Self { dataset, samples, lengths, tokens: 0, labels: None, others: Vec::new(), collate, slab }.with_tokens(0)
    }

    /// The same with the tokens in this field.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_tokens(self, field: usize) -> Result<Self> {
        check_integers(self.dataset.schema(), field)?;
        Ok(Self { tokens: field, ..self })
    }

    /// The same with labels of their own, in this field.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the field has no integers along one axis.
    pub fn with_labels(self, field: usize) -> Result<Self> {
        check_integers(self.dataset.schema(), field)?;
        Ok(Self { labels: Some(field), ..self })
    }

    /// The same with other fields next to the tokens.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there is no such field, it has one value a document, or its padding is not one scalar.
    pub fn with_fields(self, fields: Vec<PackedField>) -> Result<Self> {
        for PackedField { field, padding } in &fields {
            let of = element_of(self.dataset.schema(), *field)?;
            if padding.len() != of.dtype().bytes() {
                let reason =
                    format!("the padding of field `{}` has {} bytes, and {of} more or fewer", of.name(), padding.len());
                return Err(Error::InvalidArgument { argument: "padding", reason });
            }
        }
        Ok(Self { others: fields, ..self })
    }

    /// The pieces that `indices` stand for, and their places in rows; nothing is read.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when an index stands for no piece, or they make no rows.
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
    /// The documents, ascending.
    indices: &'a [usize],
    field: usize,
    /// What belongs to one token.
    element: Field,
}

impl Source<'_> {
    /// The bytes of a piece.
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
                format!("document {document} has {found} tokens, but its length was said to be {expected}")
            } else {
                format!(
                    "document {document}: `{}` has {found} values, but the document has {expected} tokens; give one value for \
                     each token",
                    self.element.name()
                )
            };
            return Err(Error::InvalidArgument { argument: "documents", reason });
        }
        Ok(())
    }
}

/// Packed rows that are written to.
struct Rows<'a> {
    pieces: &'a [DocumentPiece],
    packed: &'a PackedPieces,
    layout: &'a BatchLayout,
    bytes: &'a mut [u8],
}

impl Rows<'_> {
    /// Puts the pieces of a field into a column; as int64 into one of the rows' own, which have padding of their own.
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

/// What belongs to one token in a field of documents.
fn element_of(schema: &Schema, field: usize) -> Result<Field> {
    let invalid = |reason| Err(Error::InvalidArgument { argument: "field", reason });
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
    let reason = format!("expected integers along one axis, got {}", schema.fields()[field]);
    Err(Error::InvalidArgument { argument: "field", reason })
}
