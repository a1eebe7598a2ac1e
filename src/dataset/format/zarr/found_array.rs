//! [`FoundArray`]: an array of a store before it is known how it is cut.

use std::path::PathBuf;

use super::array::ChunkPlaces;
use super::metadata::ArrayMetadata;
use super::references::{ReferenceLayout, ReferenceSource, References, pieces};
use crate::DType;

/// An array that was found in a store.
pub(crate) struct FoundArray {
    pub(super) name: String,
    /// What has its metadata.
    pub(super) path: PathBuf,
    pub(super) metadata: ArrayMetadata,
    pub(super) chunks: ChunkPlaces,
    /// If there are some, the elements are records, and these parts of them are read. Records are stored as bytes, which are
    /// the last axis of the array.
    pub(super) members: Vec<Member>,
}

/// A part of each record of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Its first byte in a record.
    pub(crate) offset: usize,
    pub(crate) dtype: DType,
    pub(crate) is_big: bool,
    /// If it is an array.
    pub(crate) shape: Vec<usize>,
    /// A text, filled up with NUL; its shape is the number of bytes.
    pub(crate) is_text: bool,
}

impl Member {
    /// The number of its bytes.
    pub(super) fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }
}

/// An array of another format than Zarr, described as one of Zarr v2.
pub(crate) struct ForeignArray {
    pub(crate) name: String,
    /// The file that it is in.
    pub(crate) path: PathBuf,
    /// What `.zarray` and `.zattrs` would have.
    pub(crate) metadata: String,
    pub(crate) attributes: String,
    pub(crate) single_attributes: Vec<String>,
    /// The element of chunks that are not stored, in the machine's byte order.
    pub(crate) fill: Vec<u8>,
    pub(crate) members: Vec<Member>,
    pub(crate) chunks: ForeignChunks,
}

/// Where the elements of an array of another format are.
pub(crate) enum ForeignChunks {
    /// In one piece of a file, without codecs.
    Contiguous {
        source: ReferenceSource,
        offset: u64,
    },
    Chunked {
        source: ReferenceSource,
        layout: ReferenceLayout,
    },
}

impl ForeignArray {
    /// The array, as one of a store.
    ///
    /// # Errors
    /// What is wrong with its description.
    pub(crate) fn found(self) -> Result<FoundArray, String> {
        let metadata = ArrayMetadata::parse_v2(self.metadata.as_bytes(), Some(self.attributes.as_bytes()))?;
        let metadata = metadata.of_other_format(self.fill, self.single_attributes)?;
        let record = metadata.shape.last().copied().unwrap_or(0);
        let is_inside = |member: &Member| member.offset.checked_add(member.bytes()).is_some_and(|end| end <= record);
        if !self.members.iter().all(is_inside) || (!self.members.is_empty() && metadata.dtype != DType::UInt8) {
            return Err("its members do not fit its records".into());
        }
        let (metadata, source, layout) = match self.chunks {
            ForeignChunks::Chunked { source, layout } => (metadata, source, layout),
            ForeignChunks::Contiguous { source, offset } => {
                let chunk = pieces(&metadata.shape, metadata.dtype.bytes());
                let metadata = metadata.in_chunks_of(chunk)?;
                let step = metadata.chunk_bytes() as u64;
                (metadata, source, ReferenceLayout::Regular { offset, step })
            }
        };
        let chunks = ChunkPlaces::References(References::new(self.path.clone(), vec![source], layout));
        Ok(FoundArray { name: self.name, path: self.path, metadata, chunks, members: self.members })
    }
}
