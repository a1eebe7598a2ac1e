//! [`FetchPacked`]: pieces of token documents, read straight into packed rows.

use std::sync::Arc;

use super::{Batch, Fetch, IndexBatch};
use crate::collate::{PackRows, PackedPieces};
use crate::dataset::format::DocumentPiece;
use crate::memory::Slab;
use crate::sampler::PieceCode;
use crate::{Dataset, Error, Result, TokenDocuments};

/// Fetches rows of packed documents. An index is the code of a piece, as a
/// [`PackedBatchSampler`](crate::sampler::PackedBatchSampler) yields it: see [`PieceCode`].
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::internal::{Fetch, FetchPacked, IndexBatch, Slab};
/// use sluicegate::internal::{PackRows, PackedBatchSampler, PackedLabels, Packing};
/// use sluicegate::{BatchingSampler, Documents, LastBatch, Shuffling, TokenDocuments, TokenFiles, TokenLayout};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// std::fs::write(&path, [7_u16, 8, 9].map(u16::to_le_bytes).concat()).unwrap();
/// let files = TokenFiles::open([&path, &path], &TokenLayout::default(), Documents::Apart)?;
///
/// let sampler = PackedBatchSampler::new(&[3, 3], 4, 2, Packing::Concat, 1, LastBatch::Keep, Shuffling::Off)?;
/// let collate = PackRows { length: 4, pad_token: 0, labels: PackedLabels::Same };
/// let fetch = FetchPacked::new(Arc::new(TokenDocuments::new(Arc::new(files))), collate, Arc::new(Slab::new(2)));
/// let mut indices = Vec::new();
/// sampler.batches(0)?.indices(0, &mut indices);
/// let batch = fetch.fetch(&IndexBatch { epoch: 0, batch_in_epoch: 0, indices, draws: None })?;
/// assert_eq!(batch.to_vec::<i64>(0)?, [7, 8, 9, 7, 8, 9, 0, 0]);
/// assert_eq!(batch.to_vec::<i32>(4)?, [0, 3, 4, 6, 8]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct FetchPacked {
    documents: Arc<TokenDocuments>,
    collate: PackRows,
    slab: Arc<Slab>,
}

impl FetchPacked {
    /// Fetches pieces of `documents`, laid into rows by `collate`, into slots of `slab`.
    pub fn new(documents: Arc<TokenDocuments>, collate: PackRows, slab: Arc<Slab>) -> Self {
        Self { documents, collate, slab }
    }

    /// Returns the pieces that `indices` encode, and their places in rows; nothing is read.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if an index encodes no piece, or the pieces do not form rows.
    pub fn pieces(&self, indices: &[usize]) -> Result<(Vec<DocumentPiece>, PackedPieces)> {
        pieces_of(indices, self.documents.len(), &self.collate, |document| self.documents.document_len(document))
    }
}

/// Returns the pieces of `documents` documents that `indices` encode, and their places in rows; `len_of` returns the
/// number of tokens of a document.
///
/// # Errors
/// [`Error::InvalidArgument`] if an index encodes no piece, or the pieces do not form rows; those of `len_of`.
pub(super) fn pieces_of(
    indices: &[usize],
    documents: usize,
    collate: &PackRows,
    len_of: impl Fn(usize) -> Result<u64>,
) -> Result<(Vec<DocumentPiece>, PackedPieces)> {
    let mut pieces = Vec::with_capacity(indices.len());
    let mut places = Vec::with_capacity(indices.len());
    for &index in indices {
        if documents == 0 {
            return Err(Error::IndexOutOfRange { index, len: 0 });
        }
        let code = PieceCode::of(index, documents);
        let (document, start) = (code.document, code.start as u64);
        let left = len_of(document)?.saturating_sub(start);
        if left == 0 {
            let reason = format!("index {index} does not denote a piece of the {documents} documents");
            return Err(Error::invalid("indices", reason));
        }
        pieces.push(DocumentPiece { document, start, tokens: 0 });
        places.push((usize::try_from(left).unwrap_or(usize::MAX), code.begins_row));
    }
    let packed = collate.pieces(places)?;
    pieces.iter_mut().zip(packed.tokens()).for_each(|(piece, tokens)| piece.tokens = tokens);
    Ok((pieces, packed))
}

impl Fetch for FetchPacked {
    fn fetch(&self, batch: &IndexBatch) -> Result<Batch> {
        let (pieces, packed) = self.pieces(&batch.indices)?;
        let layout = self.collate.layout(&packed)?;
        let mut lease = self.slab.lease_for_batch(layout.bytes)?;
        self.documents.read_pieces(&pieces, packed.rooms(&layout, lease.bytes_mut()))?;
        self.collate.fill(&packed, &layout, lease.bytes_mut());
        Ok(Batch::new(layout, lease))
    }
}
