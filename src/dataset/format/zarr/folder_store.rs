//! [`FolderStore`]: a Zarr store in a folder, and the metadata of its arrays.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::array::ChunkPlaces;
use super::chunk_files::ChunkFiles;
use super::found_array::FoundArray;
use super::metadata::{ArrayMetadata, Version};
use super::store::{Store, names_of, refuse};
use crate::dataset::format::file::data_file::open_regular;
use crate::{Error, Result};

/// Maximum size of a metadata file, in bytes.
const LONGEST_METADATA: u64 = 256 << 20;

/// A Zarr v2 or v3 store in a folder.
pub(super) struct FolderStore {
    folder: PathBuf,
}

impl FolderStore {
    /// Creates the store in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }
}

impl Store for FolderStore {
    fn root(&self) -> Result<Option<FoundArray>> {
        let name = self.folder.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        read_array(name, &self.folder)
    }

    fn names(&self) -> Result<Vec<String>> {
        let io = |source| Error::Io { path: self.folder.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let is_array = path.join("zarr.json").is_file() || path.join(".zarray").is_file();
            if is_array && let Some(name) = path.file_name().and_then(|name| name.to_str()) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn array(&self, name: &str) -> Result<Option<FoundArray>> {
        let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || name.is_empty() || name.contains('\0') {
            return Ok(None);
        }
        read_array(name.to_owned(), &self.folder.join(name))
    }

    fn coordinates(&self) -> Result<HashSet<String>> {
        let mut names = HashSet::new();
        for (file, place) in [("zarr.json", Some("attributes")), (".zattrs", None)] {
            let Some(text) = found(read_whole(&self.folder.join(file)))? else { continue };
            // Invalid metadata is ignored here.
            let Ok(metadata) = serde_json::from_slice::<Value>(&text) else { continue };
            let attributes = place.map_or(Some(&metadata), |place| metadata.get(place));
            names.extend(names_of(attributes.and_then(|attributes| attributes.get("coordinates"))));
        }
        Ok(names)
    }
}

/// Reads the metadata files of the array in `folder`: the array's own, and for v2 that of its attributes.
///
/// # Errors
/// [`Error::Io`] when a file can't be read.
pub(super) fn read_metadata(folder: &Path, version: Version) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    match version {
        Version::V2 => Ok((read_whole(&folder.join(".zarray"))?, found(read_whole(&folder.join(".zattrs")))?)),
        Version::V3 | Version::Other => Ok((read_whole(&folder.join("zarr.json"))?, None)),
    }
}

/// Reads the array in `folder`, if there is one.
fn read_array(name: String, folder: &Path) -> Result<Option<FoundArray>> {
    let array = |metadata| FoundArray {
        name,
        path: folder.to_path_buf(),
        metadata,
        chunks: ChunkPlaces::Files(ChunkFiles::new(folder.to_path_buf())),
        members: Vec::new(),
    };
    if let Some((text, _)) = found(read_metadata(folder, Version::V3))? {
        let metadata = ArrayMetadata::parse_v3(&text).map_err(|reason| refuse(folder.join("zarr.json"), reason))?;
        return Ok(metadata.map(array));
    }
    let Some((text, attributes)) = found(read_metadata(folder, Version::V2))? else { return Ok(None) };
    let metadata = ArrayMetadata::parse_v2(&text, attributes.as_deref());
    metadata.map(|metadata| Some(array(metadata))).map_err(|reason| refuse(folder.join(".zarray"), reason))
}

/// Reads a whole metadata file.
pub(super) fn read_whole(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = open_regular(path)?.take(LONGEST_METADATA + 1).read_to_end(&mut text);
    read.map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    if text.len() as u64 > LONGEST_METADATA {
        return Err(refuse(path.to_path_buf(), format!("metadata has at most {LONGEST_METADATA} bytes")));
    }
    Ok(text)
}

/// Converts a not-found error to `None`.
fn found<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Io { source, .. }) if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
