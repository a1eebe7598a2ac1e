//! The folder of a store: which arrays are in it, and what their metadata says.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::metadata::{ArrayMetadata, Version};
use crate::dataset::format::file::data_file::open_regular;
use crate::local_path::check_readable;
use crate::{Error, Result};

/// Longer metadata is refused.
const LONGEST_METADATA: u64 = 256 << 20;

/// An array that was found: its name, its folder, and its metadata.
pub(super) type Found = (String, PathBuf, ArrayMetadata);

/// What a store holds that was not asked for by name.
pub(super) enum Contents {
    /// The store is an array.
    Array(Box<Found>),
    /// The arrays of a group that are not coordinates of others, by name.
    Group(Vec<Found>),
}

/// Reads the arrays called `names` of the store in `folder`.
///
/// # Errors
/// [`Error::InvalidArgument`] names one that is not there; [`Error::Format`] one that can't be read.
pub(super) fn named_arrays(folder: &Path, names: &[String]) -> Result<Vec<Found>> {
    check_store(folder)?;
    let arrays = names.iter().map(|name| {
        let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        let array = folder.join(name);
        let found = if is_inside && !name.is_empty() && !name.contains('\0') { read_array(&array)? } else { None };
        match found {
            Some(metadata) => Ok((name.clone(), array, metadata)),
            None => {
                let all = names_in(folder)?;
                let reason =
                    format!("expected names of arrays in {}, which has {all:?}, got {name:?}", folder.display());
                Err(Error::InvalidArgument { argument: "fields", reason })
            }
        }
    });
    arrays.collect()
}

/// Reads the arrays of the store in `folder`.
///
/// # Errors
/// As [`named_arrays`].
pub(super) fn all_arrays(folder: &Path) -> Result<Contents> {
    check_store(folder)?;
    if let Some(metadata) = read_array(folder)? {
        let name = folder.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        return Ok(Contents::Array(Box::new((name, folder.to_path_buf(), metadata))));
    }
    let mut coordinates = group_coordinates(folder)?;
    let (mut arrays, mut unread) = (Vec::new(), Vec::new());
    for name in names_in(folder)? {
        let array = folder.join(&name);
        match read_array(&array) {
            Ok(Some(metadata)) => arrays.push((name, array, metadata)),
            Ok(None) => {}
            Err(error @ Error::Format { .. }) => unread.push((name, error)),
            Err(error) => return Err(error),
        }
    }
    for (_, _, metadata) in &arrays {
        coordinates.extend(metadata.dimensions.iter().cloned());
        coordinates.extend(names_of(metadata.attributes.get("coordinates")));
    }
    if let Some((_, error)) = unread.into_iter().find(|(name, _)| !coordinates.contains(name)) {
        return Err(match error {
            Error::Format { path, offset, reason } => {
                let reason = format!("{reason}; pass fields= with the arrays to read, if this is none of them");
                Error::Format { path, offset, reason }
            }
            error => error,
        });
    }
    arrays.retain(|(name, _, _)| !coordinates.contains(name));
    if arrays.is_empty() {
        let reason = format!("expected a folder of Zarr with arrays, got {}, which has none", folder.display());
        return Err(Error::InvalidArgument { argument: "path", reason });
    }
    Ok(Contents::Group(arrays))
}

/// Reads the metadata files of the array in `folder`: that of the array, and that of its attributes.
///
/// # Errors
/// [`Error::Io`] when one of them can't be read.
pub(super) fn read_metadata(folder: &Path, version: Version) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    match version {
        Version::V2 => Ok((read_whole(&folder.join(".zarray"))?, found(read_whole(&folder.join(".zattrs")))?)),
        Version::V3 => Ok((read_whole(&folder.join("zarr.json"))?, None)),
    }
}

/// The array in `folder`, if there is one.
fn read_array(folder: &Path) -> Result<Option<ArrayMetadata>> {
    if let Some((text, _)) = found(read_metadata(folder, Version::V3))? {
        return ArrayMetadata::parse_v3(&text).map_err(|reason| refuse(folder.join("zarr.json"), reason));
    }
    let Some((text, attributes)) = found(read_metadata(folder, Version::V2))? else { return Ok(None) };
    let array = ArrayMetadata::parse_v2(&text, attributes.as_deref());
    array.map(Some).map_err(|reason| refuse(folder.join(".zarray"), reason))
}

/// The names that a group says are those of coordinates.
fn group_coordinates(folder: &Path) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    for (file, place) in [("zarr.json", Some("attributes")), (".zattrs", None)] {
        let Some(text) = found(read_whole(&folder.join(file)))? else { continue };
        // Whatever else is in it is of no interest here.
        let Ok(metadata) = serde_json::from_slice::<Value>(&text) else { continue };
        let attributes = place.map_or(Some(&metadata), |place| metadata.get(place));
        names.extend(names_of(attributes.and_then(|attributes| attributes.get("coordinates"))));
    }
    Ok(names)
}

fn names_of(list: Option<&Value>) -> impl Iterator<Item = String> {
    list.and_then(Value::as_str).unwrap_or_default().split_whitespace().map(str::to_owned)
}

/// The folders in `folder`, sorted, that may be arrays.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let io = |source| Error::Io { path: folder.to_path_buf(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let is_array = path.join("zarr.json").is_file() || path.join(".zarray").is_file();
        if is_array && let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn check_store(folder: &Path) -> Result<()> {
    check_readable("path", folder)?;
    let looked = fs::metadata(folder).map_err(|source| Error::Io { path: folder.to_path_buf(), source })?;
    if looked.is_dir() {
        return Ok(());
    }
    let reason = format!("expected the folder of a Zarr store, got the file {}; unpack it", folder.display());
    Err(Error::InvalidArgument { argument: "path", reason })
}

fn read_whole(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = open_regular(path)?.take(LONGEST_METADATA + 1).read_to_end(&mut text);
    read.map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    if text.len() as u64 > LONGEST_METADATA {
        return Err(refuse(path.to_path_buf(), format!("metadata has at most {LONGEST_METADATA} bytes")));
    }
    Ok(text)
}

/// Nothing where what was to be read is not there.
fn found<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Io { source, .. }) if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn refuse(path: PathBuf, reason: String) -> Error {
    Error::Format { path, offset: 0, reason }
}
