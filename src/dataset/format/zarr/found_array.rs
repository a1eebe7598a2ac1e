//! [`FoundArray`]: an array of a store, before it is split into windows.

use std::path::PathBuf;

use super::array::ChunkPlaces;
use super::chunk_reader::ReadChunks;
use super::metadata::ArrayMetadata;
use super::references::{ReferenceLayout, ReferenceSource, References, pieces};
use crate::DType;

/// An array that was found in a store.
pub(super) struct FoundArray {
    pub(super) name: String,
    /// The file or folder that contains its metadata.
    pub(super) path: PathBuf,
    pub(super) metadata: ArrayMetadata,
    pub(super) chunks: ChunkPlaces,
    /// If not empty, the elements are records, and only these members are read. The bytes of a record are the last axis
    /// of the array.
    pub(super) members: Vec<Member>,
}

/// A member of the records of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name in the record.
    pub name: String,
    /// Byte offset in the record.
    pub offset: usize,
    /// The type of its numbers, or of the bytes of a string.
    pub dtype: DType,
    /// True if its numbers are stored in big-endian order.
    pub is_big: bool,
    /// The shape of a member that is an array.
    pub shape: Vec<usize>,
    /// True for a string padded with NUL; `shape` is then its number of bytes.
    pub is_text: bool,
}

impl Member {
    /// Returns the size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }
}

/// An array of another format than Zarr, with the metadata of an equivalent Zarr v2 array.
pub struct ForeignArray {
    /// The path of the array within its file, for errors and as its field name.
    pub name: String,
    /// The file that contains it.
    pub path: PathBuf,
    /// The equivalent contents of `.zarray`, as JSON.
    pub metadata: String,
    /// The equivalent contents of `.zattrs`, as JSON.
    pub attributes: String,
    /// The names of attributes stored in single precision.
    pub single_attributes: Vec<String>,
    /// The fill value of missing chunks, in native byte order.
    pub fill: Vec<u8>,
    /// If its elements are records, the members that are read.
    pub members: Vec<Member>,
    /// Where its elements are stored.
    pub chunks: ForeignChunks,
}

/// Where the elements of an array of another format are stored.
pub enum ForeignChunks {
    /// In one contiguous range of a file, without codecs.
    Contiguous {
        /// The source of the range.
        source: ReferenceSource,
        /// The offset of the first byte.
        offset: u64,
    },
    /// In chunks, which may have codecs.
    Chunked {
        /// The source of the chunks.
        source: ReferenceSource,
        /// The location of each chunk.
        layout: ReferenceLayout,
    },
    /// Read by another library.
    Read(ReadChunks),
}

impl ForeignArray {
    /// Converts it to an array of a store.
    ///
    /// # Errors
    /// What is wrong with its description.
    pub(super) fn found(self) -> Result<FoundArray, String> {
        let metadata = ArrayMetadata::parse_v2(self.metadata.as_bytes(), Some(self.attributes.as_bytes()))?;
        let metadata = metadata.of_other_format(self.fill, self.single_attributes)?;
        let record = metadata.shape.last().copied().unwrap_or(0);
        let is_inside = |member: &Member| member.offset.checked_add(member.bytes()).is_some_and(|end| end <= record);
        if !self.members.iter().all(is_inside) || (!self.members.is_empty() && metadata.dtype != DType::UInt8) {
            return Err("its members do not fit into its records".into());
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
