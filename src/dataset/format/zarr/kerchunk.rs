//! [`KerchunkStore`]: JSON references to chunks in other files, as kerchunk and VirtualiZarr write them.
//!
//! Source: the reference specification (versions 0 and 1) in the documentation of fsspec and kerchunk.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::array::{ChunkPlaces, ravel};
use super::cf::unbase64;
use super::folder_store::read_whole;
use super::found_array::FoundArray;
use super::metadata::ArrayMetadata;
use super::references::{Reference, ReferenceLayout, ReferenceSource, References};
use super::store::{Store, names_of, refuse};
use crate::Result;

/// A store whose metadata and references are in one file.
pub(super) struct KerchunkStore {
    path: PathBuf,
    references: BTreeMap<String, Value>,
    /// The values of `{{name}}` placeholders in paths.
    templates: HashMap<String, String>,
    /// By array: references to chunks that are stored separately, in Parquet tables.
    tables: HashMap<String, ReferenceTable>,
}

/// References to the chunks of an array, from Parquet files.
pub struct ReferenceTable {
    /// Files that contain chunks, as URLs or paths.
    pub paths: Vec<String>,
    /// Chunks stored in the table itself.
    pub inline: Vec<Vec<u8>>,
    /// For each chunk: its number, its source (an index into `paths`, continued by `inline`), offset, and size in
    /// bytes. An offset and size of 0 stand for the whole source.
    pub chunks: Vec<[u64; 4]>,
}

impl KerchunkStore {
    /// Reads the file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::parse(path, &read_whole(path)?)
    }

    /// Parses `text`, the contents of the file at `path`.
    pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Self> {
        let refused = |reason: String| refuse(path.to_path_buf(), reason);
        let parsed: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|error| refused(format!("expected a JSON object with references: {error}")))?;
        let (references, templates) = match parsed.get("version") {
            None => (parsed, HashMap::new()),
            Some(version) if version.as_u64() == Some(1) => {
                if parsed.get("gen").and_then(Value::as_array).is_some_and(|generated| !generated.is_empty()) {
                    return Err(refused("generated references (\"gen\") are not supported; write them out".into()));
                }
                let templates = parsed.get("templates").and_then(Value::as_object).into_iter().flatten();
                let templates = templates.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())));
                let templates = templates.collect();
                match parsed.get("refs").and_then(Value::as_object) {
                    Some(references) => (references.clone(), templates),
                    None => return Err(refused("expected an object \"refs\"".into())),
                }
            }
            Some(version) => return Err(refused(format!("expected references of version 1, got version {version}"))),
        };
        let references = references.into_iter().collect();
        Ok(Self { path: path.to_path_buf(), references, templates, tables: HashMap::new() })
    }

    /// Adds references to chunks from `tables`, by array.
    pub(super) fn with_tables(self, tables: HashMap<String, ReferenceTable>) -> Self {
        Self { tables, ..self }
    }

    /// Returns the contents of a key, if it exists: stored as text, in base64, or as a JSON object.
    fn text(&self, key: &str) -> Result<Option<Vec<u8>>> {
        match self.references.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => inline(text).map(Some).map_err(|reason| self.refuse(key, &reason)),
            Some(object @ Value::Object(_)) => Ok(Some(object.to_string().into_bytes())),
            Some(_) => Err(self.refuse(key, "expected metadata in the file itself")),
        }
    }

    fn refuse(&self, key: &str, reason: &str) -> crate::Error {
        refuse(self.path.clone(), format!("{key:?}: {reason}"))
    }

    fn read(&self, name: &str, prefix: &str) -> Result<Option<FoundArray>> {
        let Some(text) = self.text(&format!("{prefix}.zarray"))? else { return Ok(None) };
        let attributes = self.text(&format!("{prefix}.zattrs"))?;
        let metadata = ArrayMetadata::parse_v2(&text, attributes.as_deref());
        let metadata = metadata.map_err(|reason| self.refuse(&format!("{prefix}.zarray"), &reason))?;
        let chunks = ChunkPlaces::References(self.chunks(prefix, &metadata)?);
        let array = FoundArray { name: name.into(), path: self.path.clone(), metadata, chunks, members: Vec::new() };
        Ok(Some(array))
    }

    /// Returns the chunk references of the array whose keys begin with `prefix`.
    fn chunks(&self, prefix: &str, array: &ArrayMetadata) -> Result<References> {
        if let Some(table) = self.tables.get(prefix.trim_end_matches('/')) {
            return self.listed(prefix, table);
        }
        let grid = array.grid();
        let (mut sources, mut chunks) = (Vec::new(), Vec::new());
        let mut known: HashMap<String, u32> = HashMap::new();
        for (key, value) in self.references.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix)) {
            let Some(place) = array.names.place(&key[prefix.len()..], grid.len()) else { continue };
            if place.iter().zip(&grid).any(|(place, size)| place >= size) {
                continue;
            }
            let (source, offset, bytes) = match value {
                Value::String(text) => {
                    let bytes = inline(text).map_err(|reason| self.refuse(key, &reason))?;
                    sources.push(ReferenceSource::Inline(bytes));
                    (sources.len() - 1, 0, None)
                }
                Value::Array(parts) => {
                    let (url, offset, bytes) = range(parts)
                        .ok_or_else(|| self.refuse(key, "expected [path], or [path, first byte, number of bytes]"))?;
                    let number = match known.get(url) {
                        Some(number) => *number as usize,
                        None => {
                            sources.push(ReferenceSource::File(self.file(key, url)?));
                            known.insert(url.to_owned(), sources.len() as u32 - 1);
                            sources.len() - 1
                        }
                    };
                    (number, offset, bytes)
                }
                _ => return Err(self.refuse(key, "expected a string or a list")),
            };
            let number = ravel(&place, &grid) as u64;
            chunks.push(Reference { number, source: source as u32, skipped: 0, offset, bytes });
        }
        Ok(References::new(self.path.clone(), sources, ReferenceLayout::Listed(chunks)))
    }

    fn listed(&self, prefix: &str, table: &ReferenceTable) -> Result<References> {
        let files = table.paths.iter().map(|url| Ok(ReferenceSource::File(self.file(prefix, url)?)));
        let mut sources = files.collect::<Result<Vec<_>>>()?;
        sources.extend(table.inline.iter().cloned().map(ReferenceSource::Inline));
        let reference = |&[number, source, offset, bytes]: &[u64; 4]| Reference {
            number,
            source: u32::try_from(source).unwrap_or(u32::MAX),
            skipped: 0,
            offset,
            bytes: (bytes > 0 || offset > 0).then_some(bytes),
        };
        let layout = ReferenceLayout::Listed(table.chunks.iter().map(reference).collect());
        Ok(References::new(self.path.clone(), sources, layout))
    }

    /// Returns the local file that `url` names.
    fn file(&self, key: &str, url: &str) -> Result<PathBuf> {
        let mut url = url.to_owned();
        for (name, text) in &self.templates {
            url = url.replace(&format!("{{{{{name}}}}}"), text);
        }
        if url.contains("{{") {
            return Err(self.refuse(key, &format!("the template in {url:?} is not supported; write the path out")));
        }
        let local = url.strip_prefix("file://").or_else(|| url.strip_prefix("local://")).unwrap_or(&url);
        if local.contains("://") {
            let reason = format!(
                "the chunk is at {url:?}, which is not a local path; download the file, and make references to it"
            );
            return Err(self.refuse(key, &reason));
        }
        std::path::absolute(local).map_err(|error| self.refuse(key, &error.to_string()))
    }
}

impl Store for KerchunkStore {
    fn root(&self) -> Result<Option<FoundArray>> {
        let name = self.path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        self.read(&name, "")
    }

    fn names(&self) -> Result<Vec<String>> {
        let names = self.references.keys().filter_map(|key| key.strip_suffix("/.zarray"));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn array(&self, name: &str) -> Result<Option<FoundArray>> {
        if name.is_empty() { Ok(None) } else { self.read(name, &format!("{name}/")) }
    }

    fn coordinates(&self) -> Result<HashSet<String>> {
        let Some(text) = self.text(".zattrs")? else { return Ok(HashSet::new()) };
        let attributes: Value = serde_json::from_slice(&text).unwrap_or_default();
        Ok(names_of(attributes.get("coordinates")).collect())
    }
}

/// Decodes an inline value, which may be in base64.
fn inline(text: &str) -> std::result::Result<Vec<u8>, String> {
    match text.strip_prefix("base64:") {
        Some(encoded) => unbase64(encoded).ok_or_else(|| "this is not base64".into()),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Returns the path, offset, and size of a reference.
fn range(parts: &[Value]) -> Option<(&str, u64, Option<u64>)> {
    match parts {
        [path] => Some((path.as_str()?, 0, None)),
        [path, offset, bytes] => Some((path.as_str()?, offset.as_u64()?, Some(bytes.as_u64()?))),
        _ => None,
    }
}
