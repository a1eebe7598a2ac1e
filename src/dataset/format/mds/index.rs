//! `index.json` of an MDS folder: its shards and columns.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::local_path::check_readable;
use crate::{Error, Result};

/// The largest index that is read, in bytes.
const LONGEST_INDEX: u64 = 1 << 30;

/// The only version of the index that exists.
const VERSION: u64 = 2;

/// A shard: a file of samples, which may be compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    /// The file to read.
    pub(super) path: PathBuf,
    /// The uncompressed size.
    pub(super) bytes: u64,
    pub(super) samples: usize,
    pub(super) packing: Packing,
}

/// How a shard is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Zstd,
}

/// A column as listed in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnForm {
    pub(super) name: String,
    pub(super) encoding: String,
    /// The size of its values in bytes, if they all have the same size.
    pub(super) bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Index {
    version: u64,
    shards: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    format: String,
    version: u64,
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<u64>>,
    compression: Option<String>,
    samples: u64,
    raw_data: File,
    zip_data: Option<File>,
}

#[derive(Deserialize)]
struct File {
    basename: String,
    bytes: u64,
}

/// Returns the path of the index, the shards of the folder, and their columns, which all shards share.
///
/// A compressed shard is read uncompressed if that file exists, too. File names must not lead out of the folder.
pub(super) fn read_index(folder: &Path) -> Result<(PathBuf, Vec<Shard>, Vec<ColumnForm>)> {
    check_readable("folder", folder)?;
    let path = folder.join("index.json");
    let io = |source| Error::Io { path: path.clone(), source };
    let refuse = |reason| Error::Format { path: path.clone(), offset: 0, reason };
    let found = std::fs::metadata(&path).map_err(io)?;
    if !found.is_file() || found.len() > LONGEST_INDEX {
        return Err(refuse(format!("expected a regular file of at most {LONGEST_INDEX} bytes")));
    }
    let text = std::fs::read(&path).map_err(io)?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| refuse(format!("invalid MDS index: {error}")))?;
    if index.version != VERSION {
        return Err(refuse(format!("the index has version {}, but only {VERSION} is supported", index.version)));
    }
    let mut columns: Option<Vec<ColumnForm>> = None;
    let mut shards = Vec::with_capacity(index.shards.len());
    for (number, entry) in index.shards.into_iter().enumerate() {
        let refuse = |reason| refuse(format!("shard {number}: {reason}"));
        let found = columns_of(&entry).map_err(refuse)?;
        match &columns {
            Some(columns) if *columns != found => {
                return Err(refuse(format!("its columns are {found:?}, but those of the first shard are {columns:?}")));
            }
            _ => columns = Some(found),
        }
        shards.push(shard_of(folder, entry).map_err(refuse)?);
    }
    let columns = columns.ok_or_else(|| refuse("there are no shards, so the columns are unknown".into()))?;
    Ok((path, shards, columns))
}

fn columns_of(entry: &Entry) -> std::result::Result<Vec<ColumnForm>, String> {
    let count = entry.column_names.len();
    if entry.column_encodings.len() != count || entry.column_sizes.len() != count {
        return Err("the numbers of column names, encodings, and sizes differ".into());
    }
    let mut names = HashSet::new();
    if let Some(name) = entry.column_names.iter().find(|name| !names.insert(*name)) {
        return Err(format!("two columns are named `{name}`"));
    }
    let columns = entry.column_names.iter().zip(&entry.column_encodings).zip(&entry.column_sizes);
    Ok(columns
        .map(|((name, encoding), &bytes)| ColumnForm { name: name.clone(), encoding: encoding.clone(), bytes })
        .collect())
}

fn shard_of(folder: &Path, entry: Entry) -> std::result::Result<Shard, String> {
    if entry.format != "mds" || entry.version != VERSION {
        return Err(format!(
            "its format is `{}`, version {}, but only mds, version {VERSION}, is supported",
            entry.format, entry.version
        ));
    }
    let raw = inside(folder, &entry.raw_data.basename)?;
    let samples =
        usize::try_from(entry.samples).map_err(|_| "the shard has more samples than can be counted".to_owned())?;
    let shard = |path, packing| Shard { path, bytes: entry.raw_data.bytes, samples, packing };
    let Some(compression) = entry.compression.filter(|_| entry.zip_data.is_some()) else {
        return Ok(shard(raw, Packing::None));
    };
    if raw.is_file() {
        return Ok(shard(raw, Packing::None));
    }
    if compression.split(':').next() != Some("zstd") {
        return Err(format!(
            "it is compressed with `{compression}`, but only zstd is supported; decompress or convert it"
        ));
    }
    let packed = entry.zip_data.map(|file| file.basename).unwrap_or_default();
    Ok(shard(inside(folder, &packed)?, Packing::Zstd))
}

/// Returns the path of the file `name` in `folder`.
fn inside(folder: &Path, name: &str) -> std::result::Result<PathBuf, String> {
    let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || !is_inside || name.contains('\0') {
        return Err(format!("the file name {name:?} is not inside the folder"));
    }
    Ok(folder.join(name))
}
