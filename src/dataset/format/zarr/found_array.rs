//! [`FoundArray`]: an array of a store before it is known how it is cut.

use std::path::PathBuf;

use super::array::ChunkPlaces;
use super::chunk_reader::ReadChunks;
use super::metadata::ArrayMetadata;
use super::references::{ReferenceLayout, ReferenceSource, References, pieces};
use crate::DType;

/// An array that was found in a store.
pub(super) struct FoundArray {
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
pub struct Member {
    /// Its name in the record.
    pub name: String,
    /// Its first byte in a record.
    pub offset: usize,
    /// The type of its numbers, or of the bytes of a text.
    pub dtype: DType,
    /// True if its numbers are stored with the highest byte first.
    pub is_big: bool,
    /// If it is an array.
    pub shape: Vec<usize>,
    /// A text, filled up with NUL; its shape is the number of bytes.
    pub is_text: bool,
}

impl Member {
    /// The number of its bytes.
    pub(super) fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }
}

/// An array of another format than Zarr, described as one of Zarr v2.
pub struct ForeignArray {
    /// The path of the array in its file, for errors and as the name of its field.
    pub name: String,
    /// The file that it is in.
    pub path: PathBuf,
    /// What `.zarray` would have, as JSON.
    pub metadata: String,
    /// What `.zattrs` would have, as JSON.
    pub attributes: String,
    /// The names of the attributes that are stored in single precision.
    pub single_attributes: Vec<String>,
    /// The element of chunks that are not stored, in the machine's byte order.
    pub fill: Vec<u8>,
    /// If its elements are records, the parts of them that are read.
    pub members: Vec<Member>,
    /// Where its elements are.
    pub chunks: ForeignChunks,
}

/// Where the elements of an array of another format are.
pub enum ForeignChunks {
    /// In one piece of a file, without codecs.
    Contiguous {
        /// What they are read from.
        source: ReferenceSource,
        /// The first byte.
        offset: u64,
    },
    /// In chunks, which have codecs.
    Chunked {
        /// What they are read from.
        source: ReferenceSource,
        /// How they lie in it.
        layout: ReferenceLayout,
    },
    /// Where another library finds them.
    Read(ReadChunks),
}

impl ForeignArray {
    /// The array, as one of a store.
    ///
    /// # Errors
    /// What is wrong with its description.
    pub(super) fn found(self) -> Result<FoundArray, String> {
        let metadata = ArrayMetadata::parse_v2(self.metadata.as_bytes(), Some(self.attributes.as_bytes()))?;
        let metadata = metadata.of_other_format(self.fill, self.single_attributes)?;
        let record = metadata.shape.last().copied().unwrap_or(0);
        let is_inside = |member: &Member| member.offset.checked_add(member.bytes()).is_some_and(|end| end <= record);
        if !self.members.iter().all(is_inside) || (!self.members.is_empty() && metadata.dtype != DType::UInt8) {
            return Err("its members do not fit its records".into());
        }
        let listed = |source, layout| ChunkPlaces::References(References::new(self.path.clone(), vec![source], layout));
        let (metadata, chunks) = match self.chunks {
            ForeignChunks::Chunked { source, layout } => (metadata, listed(source, layout)),
            ForeignChunks::Contiguous { source, offset } => {
                let chunk = pieces(&metadata.shape, metadata.dtype.bytes());
                let metadata = metadata.in_chunks_of(chunk)?;
                let step = metadata.chunk_bytes() as u64;
                (metadata, listed(source, ReferenceLayout::Regular { offset, step }))
            }
            ForeignChunks::Read(chunks) => (metadata, ChunkPlaces::Read(chunks)),
        };
        Ok(FoundArray { name: self.name, path: self.path, metadata, chunks, members: self.members })
    }
}
