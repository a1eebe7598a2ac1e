//! [`ArrayMetadata`]: an array's metadata from `zarr.json` (v3), or from `.zarray` and `.zattrs` (v2).

use serde_json::{Map, Value};

use super::codecs::{Codecs, ParsedCodecs, codecs_v2, codecs_v3, numbers};
use super::element::{fill_bytes, named_type, numpy_type};
use crate::DType;

/// Limits on the bytes of a chunk and the axes of an array.
const LARGEST_CHUNK: usize = 4 << 30;
const MOST_AXES: usize = 32;

/// The format an array is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V2,
    V3,
    /// HDF5 or netCDF.
    Other,
}

/// How chunk files are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkNames {
    /// `c/0/1` instead of `0/1`.
    has_prefix: bool,
    separator: char,
}

/// How chunks are grouped into shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shards {
    /// The number of chunks in a shard along each axis.
    pub(super) chunks: Vec<usize>,
    pub(super) index: Codecs,
    pub(super) index_is_first: bool,
}

/// An array's shape, data type, chunks, codecs, and attributes.
#[derive(Debug, Clone)]
pub(super) struct ArrayMetadata {
    pub(super) version: Version,
    pub(super) shape: Vec<usize>,
    /// The shape of the unit of decoding: with sharding, the inner chunk.
    pub(super) chunk: Vec<usize>,
    pub(super) dtype: DType,
    /// The fill value of missing chunks, as the bytes of an element.
    pub(super) fill: Vec<u8>,
    /// As in the JSON; null if absent.
    pub(super) fill_value: Value,
    pub(super) codecs: Codecs,
    pub(super) shards: Option<Shards>,
    pub(super) names: ChunkNames,
    /// The names of the axes; `dim_0`, ... for those without a name.
    pub(super) dimensions: Vec<String>,
    pub(super) attributes: Map<String, Value>,
    /// The names of attributes stored in single precision.
    pub(super) single_attributes: Vec<String>,
}

impl ArrayMetadata {
    /// Parses a `zarr.json`. Returns `None` for that of a group.
    ///
    /// # Errors
    /// The reason why it is invalid or unsupported.
    pub(super) fn parse_v3(text: &[u8]) -> Result<Option<Self>, String> {
        let metadata = object(text)?;
        if metadata.get("zarr_format").and_then(Value::as_u64) != Some(3) {
            return Err("expected zarr_format 3".into());
        }
        match metadata.get("node_type").and_then(Value::as_str) {
            Some("group") => return Ok(None),
            Some("array") => {}
            _ => return Err("node_type: expected \"array\" or \"group\"".into()),
        }
        let attributes = metadata.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default();
        let shape = list(metadata.get("shape"), "shape")?;
        let configured = |name: &str, key: &str| {
            let of = metadata.get(name)?;
            Some((
                of.get("name")?.as_str()?.to_owned(),
                of.get("configuration").and_then(|found| found.get(key)).cloned(),
            ))
        };
        let grid = match configured("chunk_grid", "chunk_shape") {
            Some((name, shape)) if name == "regular" => list(shape.as_ref(), "chunk_shape")?,
            _ => return Err("chunk_grid: expected a regular one".into()),
        };
        let names = match configured("chunk_key_encoding", "separator") {
            Some((name, separator)) if name == "default" => ChunkNames::new(true, separator.as_ref(), '/')?,
            Some((name, separator)) if name == "v2" => ChunkNames::new(false, separator.as_ref(), '.')?,
            _ => return Err("chunk_key_encoding: expected \"default\" or \"v2\"".into()),
        };
        if let Some(name) = required_transformer(&metadata) {
            return Err(format!("storage transformer {name} is not supported"));
        }
        check_grid(&shape, &grid)?;
        let dtype = named_type(metadata.get("data_type").unwrap_or(&Value::Null))?;
        let fill_value = metadata.get("fill_value").cloned().unwrap_or(Value::Null);
        let (chunk, codecs, shards) = match codecs_v3(metadata.get("codecs"), &grid, dtype)? {
            ParsedCodecs::Chunks(codecs) => (grid, codecs, None),
            ParsedCodecs::Shards { inner, codecs, index, index_is_first } => {
                let chunks = grid.iter().zip(&inner).map(|(outer, inner)| outer / inner).collect();
                (inner, codecs, Some(Shards { chunks, index, index_is_first }))
            }
        };
        let dimensions = dimensions(metadata.get("dimension_names"), shape.len())?;
        let fill = fill_bytes(&fill_value, dtype)?;
        let array = Self {
            version: Version::V3,
            shape,
            chunk,
            dtype,
            fill,
            fill_value,
            codecs,
            shards,
            names,
            dimensions,
            attributes,
            single_attributes: Vec::new(),
        };
        array.check().map(|()| Some(array))
    }

    /// Parses a `.zarray`, and a `.zattrs` if there is one.
    ///
    /// # Errors
    /// The reason why they are invalid or unsupported.
    pub(super) fn parse_v2(text: &[u8], attributes: Option<&[u8]>) -> Result<Self, String> {
        let metadata = object(text)?;
        let attributes = attributes.map(object).transpose().map_err(|reason| format!(".zattrs: {reason}"))?;
        let attributes = attributes.unwrap_or_default();
        if metadata.get("zarr_format").and_then(Value::as_u64) != Some(2) {
            return Err("expected zarr_format 2".into());
        }
        let shape = list(metadata.get("shape"), "shape")?;
        let chunk = list(metadata.get("chunks"), "chunks")?;
        check_grid(&shape, &chunk)?;
        let (dtype, is_big) = numpy_type(metadata.get("dtype").unwrap_or(&Value::Null))?;
        let fill_value = metadata.get("fill_value").cloned().unwrap_or(Value::Null);
        let fill = fill_bytes(&fill_value, dtype)?;
        let names = ChunkNames::new(false, metadata.get("dimension_separator"), '.')?;
        let dimensions = dimensions(attributes.get("_ARRAY_DIMENSIONS"), shape.len())?;
        let codecs = codecs_v2(&Value::Object(metadata), shape.len(), is_big)?;
        let array = Self {
            version: Version::V2,
            shape,
            chunk,
            dtype,
            fill,
            fill_value,
            codecs,
            shards: None,
            names,
            dimensions,
            attributes,
            single_attributes: Vec::new(),
        };
        array.check().map(|()| array)
    }

    /// Marks the array as one of another format, with its `fill` value for missing chunks.
    ///
    /// # Errors
    /// `fill` is not the size of one element.
    pub(super) fn of_other_format(self, fill: Vec<u8>, single_attributes: Vec<String>) -> Result<Self, String> {
        if fill.len() != self.dtype.bytes() {
            return Err(format!("fill value: expected {1} bytes, got {0}", fill.len(), self.dtype));
        }
        Ok(Self { version: Version::Other, fill, single_attributes, ..self })
    }

    /// Returns the array with chunks of shape `chunk`.
    ///
    /// # Errors
    /// The chunks are too large.
    pub(super) fn in_chunks_of(self, chunk: Vec<usize>) -> Result<Self, String> {
        let array = Self { chunk, ..self };
        array.check().map(|()| array)
    }

    /// Returns the size of a decoded chunk in bytes.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk.iter().product::<usize>() * self.dtype.bytes()
    }

    /// Refuses arrays with too many chunks to count, or with chunks too large to decode.
    fn check(&self) -> Result<(), String> {
        let bytes = |shape: &[usize]| shape.iter().try_fold(self.dtype.bytes(), |bytes, &axis| bytes.checked_mul(axis));
        if bytes(&self.chunk).is_none_or(|bytes| bytes > LARGEST_CHUNK) {
            return Err(format!("chunks of {:?} {} are larger than {LARGEST_CHUNK} bytes", self.chunk, self.dtype));
        }
        let chunks = self.grid().iter().try_fold(1_usize, |chunks, &axis| chunks.checked_mul(axis));
        let in_shard =
            |shards: &Shards| shards.chunks.iter().try_fold(16_usize, |bytes, &axis| bytes.checked_mul(axis));
        let has_index =
            self.shards.as_ref().is_none_or(|shards| in_shard(shards).is_some_and(|bytes| bytes < LARGEST_CHUNK));
        // The array need not fit into memory, but its elements must be countable.
        if chunks.is_none() || !has_index || self.shape.iter().any(|&axis| axis > isize::MAX as usize) {
            return Err(format!("an array of shape {:?} has more chunks than can be counted", self.shape));
        }
        Ok(())
    }

    /// Returns the number of chunks along each axis.
    pub(super) fn grid(&self) -> Vec<usize> {
        self.shape.iter().zip(&self.chunk).map(|(size, chunk)| size.div_ceil(*chunk)).collect()
    }
}

impl ChunkNames {
    fn new(has_prefix: bool, separator: Option<&Value>, default: char) -> Result<Self, String> {
        let separator = match separator.map(Value::as_str) {
            None => default,
            Some(Some(".")) => '.',
            Some(Some("/")) => '/',
            _ => return Err("the separator of chunk names: expected \".\" or \"/\"".into()),
        };
        Ok(Self { has_prefix, separator })
    }

    /// Returns the path of the chunk or shard at `place`, relative to the folder of the array.
    pub(super) fn path(self, place: &[usize]) -> String {
        let mut path = String::new();
        let mut parts = place.iter().map(ToString::to_string);
        if self.has_prefix {
            path.push('c');
        } else {
            path.push_str(&parts.next().unwrap_or_else(|| "0".into()));
        }
        parts.for_each(|part| {
            path.push(self.separator);
            path.push_str(&part);
        });
        path
    }

    /// Parses the path of a chunk file into the chunk's coordinates, in an array of `axes` axes.
    pub(super) fn place(self, path: &str, axes: usize) -> Option<Vec<usize>> {
        let place: Vec<usize> = path.split(self.separator).map(str::parse).collect::<Result<_, _>>().ok()?;
        match axes {
            0 if place == [0] => Some(Vec::new()),
            _ => (place.len() == axes && axes > 0).then_some(place),
        }
    }
}

fn object(text: &[u8]) -> Result<Map<String, Value>, String> {
    let parsed = serde_json::from_slice(text).or_else(|error| match quoted(text) {
        Some(text) => serde_json::from_slice(&text),
        None => Err(error),
    });
    match parsed {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("expected a JSON object".into()),
        Err(error) => Err(format!("this is not JSON: {error}")),
    }
}

/// Returns the text with quotes around NaN and infinities, which Python writes bare although JSON does not allow them.
/// Returns `None` if there are none.
fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut at, mut is_in_string, mut is_changed) = (Vec::with_capacity(text.len()), 0, false, false);
    while let Some(&byte) = text.get(at) {
        let words: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
        let word = words.into_iter().find(|word| !is_in_string && text[at..].starts_with(word));
        if let Some(word) = word {
            out.push(b'"');
            out.extend_from_slice(word);
            out.push(b'"');
            (at, is_changed) = (at + word.len(), true);
            continue;
        }
        out.push(byte);
        at += 1;
        match byte {
            b'"' => is_in_string = !is_in_string,
            b'\\' if is_in_string => {
                out.extend(text.get(at));
                at += 1;
            }
            _ => {}
        }
    }
    is_changed.then_some(out)
}

fn list(value: Option<&Value>, name: &str) -> Result<Vec<usize>, String> {
    value.and_then(numbers).ok_or_else(|| format!("{name}: expected a list of sizes"))
}

fn check_grid(shape: &[usize], chunk: &[usize]) -> Result<(), String> {
    if shape.len() != chunk.len() || shape.len() > MOST_AXES || chunk.contains(&0) {
        return Err(format!("chunks of {chunk:?} do not fit an array of shape {shape:?}"));
    }
    Ok(())
}

fn required_transformer(metadata: &Map<String, Value>) -> Option<&Value> {
    metadata.get("storage_transformers")?.as_array()?.first()
}

fn dimensions(names: Option<&Value>, axes: usize) -> Result<Vec<String>, String> {
    let unnamed = |axis: usize| format!("dim_{axis}");
    let Some(names) = names.filter(|names| !names.is_null()) else { return Ok((0..axes).map(unnamed).collect()) };
    let names = names.as_array().filter(|names| names.len() == axes);
    let names = names.ok_or_else(|| format!("expected the names of {axes} dimensions"))?;
    let name = |(axis, name): (usize, &Value)| name.as_str().map_or_else(|| unnamed(axis), str::to_owned);
    let names: Vec<String> = names.iter().enumerate().map(name).collect();
    match names.iter().enumerate().find(|(axis, name)| names[..*axis].contains(name)) {
        Some((_, name)) => Err(format!("two dimensions are named {name:?}; give them different names")),
        None => Ok(names),
    }
}
