//! [`Store`]: a collection of arrays, and which of them are read.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::folder_store::FolderStore;
use super::found_array::FoundArray;
use super::kerchunk::KerchunkStore;
use super::netcdf3::Netcdf3Store;
use crate::local_path::check_readable;
use crate::{Error, Result};

/// Arrays by name.
pub(super) trait Store {
    /// Returns the array if the store is itself an array.
    fn root(&self) -> Result<Option<FoundArray>>;

    /// Returns the names of the arrays, sorted, without those in groups.
    fn names(&self) -> Result<Vec<String>>;

    /// Returns the array called `name`, if there is one; `"a/b"` is `b` in the group `a`.
    fn array(&self, name: &str) -> Result<Option<FoundArray>>;

    /// Returns the names that the store itself declares as coordinates.
    fn coordinates(&self) -> Result<HashSet<String>>;
}

/// The contents of a store when no arrays are named.
pub(super) enum Contents {
    /// The store is an array.
    Array(Box<FoundArray>),
    /// The arrays of a group that are not coordinates of others, by name.
    Group(Vec<FoundArray>),
}

/// Opens the store at `path`: a Zarr folder, a netCDF-3 file, or kerchunk references.
///
/// # Errors
/// [`Error::InvalidArgument`] when it is something else; [`Error::Format`] when it is damaged.
pub(super) fn open(path: &Path) -> Result<Box<dyn Store>> {
    check_readable("path", path)?;
    let looked = std::fs::metadata(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    if looked.is_dir() {
        return Ok(Box::new(FolderStore::new(path)));
    }
    if let Some(store) = Netcdf3Store::open(path)? {
        return Ok(Box::new(store));
    }
    if path.extension().is_some_and(|extension| extension == "json") {
        return Ok(Box::new(KerchunkStore::open(path)?));
    }
    let reason = format!(
        "expected the folder of a Zarr store, a file of netCDF-3, or references (.json), got the file {}; unpack it, or \
         open files of HDF5 and netCDF-4 with Hdf5Dataset",
        path.display()
    );
    Err(Error::invalid("path", reason))
}

/// Reads the arrays called `names` from `store`, which is at `path`.
///
/// # Errors
/// [`Error::InvalidArgument`] for a name that does not exist; [`Error::Format`] for an array that can't be read.
pub(super) fn named_arrays(store: &dyn Store, path: &Path, names: &[String]) -> Result<Vec<FoundArray>> {
    let arrays = names.iter().map(|name| match store.array(name)? {
        Some(array) => Ok(array),
        None => {
            let all = store.names()?;
            let reason = format!("expected names of arrays in {}, which has {all:?}, got {name:?}", path.display());
            Err(Error::invalid("fields", reason))
        }
    });
    arrays.collect()
}

/// Reads all arrays of `store`, which is at `path`.
///
/// # Errors
/// As [`named_arrays`].
pub(super) fn all_arrays(store: &dyn Store, path: &Path) -> Result<Contents> {
    if let Some(array) = store.root()? {
        return Ok(Contents::Array(Box::new(array)));
    }
    let mut coordinates = store.coordinates()?;
    let (mut arrays, mut unread) = (Vec::new(), Vec::new());
    for name in store.names()? {
        match store.array(&name) {
            Ok(Some(array)) => arrays.push(array),
            Ok(None) => {}
            Err(error @ Error::Format { .. }) => unread.push((name, error)),
            Err(error) => return Err(error),
        }
    }
    for array in &arrays {
        coordinates.extend(array.metadata.dimensions.iter().cloned());
        coordinates.extend(names_of(array.metadata.attributes.get("coordinates")));
    }
    if let Some((_, error)) = unread.into_iter().find(|(name, _)| !coordinates.contains(name)) {
        return Err(match error {
            Error::Format { path, offset, reason } => {
                let reason = format!("{reason}; pass fields= with the arrays to read, to skip this one");
                Error::Format { path, offset, reason }
            }
            error => error,
        });
    }
    arrays.retain(|array| !coordinates.contains(&array.name));
    if arrays.is_empty() {
        let reason = format!("expected a store with arrays, got {}, which has none", path.display());
        return Err(Error::invalid("path", reason));
    }
    Ok(Contents::Group(arrays))
}

/// Splits an attribute that is a list of names.
pub(super) fn names_of(list: Option<&serde_json::Value>) -> impl Iterator<Item = String> {
    list.and_then(serde_json::Value::as_str).unwrap_or_default().split_whitespace().map(str::to_owned)
}

/// The error of a damaged or unsupported file.
pub(super) fn refuse(path: PathBuf, reason: String) -> Error {
    Error::Format { path, offset: 0, reason }
}
