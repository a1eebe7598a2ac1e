//! [`Netcdf3Store`]: the variables of a netCDF-3 file, which are not compressed.
//!
//! Source: "NetCDF File Format Specifications" of Unidata: classic, 64-bit offset, and 64-bit data (CDF-5).

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::element::{fill_bytes, numpy_type};
use super::found_array::{ForeignArray, ForeignChunks, FoundArray};
use super::references::{ReferenceLayout, ReferenceSource};
use super::store::{Store, names_of, refuse};
use crate::dataset::format::file::data_file::open_regular;
use crate::{Error, Result};

const DIMENSIONS: u32 = 10;
const VARIABLES: u32 = 11;
const ATTRIBUTES: u32 = 12;

/// The record count of a file that is still being written.
const STREAMED: u64 = u32::MAX as u64;

/// The netCDF default fill value for float variables without a `_FillValue`.
const FILL_FLOAT: f64 = 9.969_209_968_386_869e36;

/// The variables of a file.
pub(super) struct Netcdf3Store {
    path: PathBuf,
    /// The names and sizes of the dimensions; the record dimension has no size.
    dimensions: Vec<(String, Option<u64>)>,
    attributes: Attributes,
    variables: Vec<Variable>,
    records: u64,
    /// The stride between records, in bytes.
    record_bytes: u64,
}

struct Variable {
    name: String,
    dimensions: Vec<usize>,
    attributes: Attributes,
    kind: u32,
    begin: u64,
}

/// Attributes, and the names of those stored in single precision.
#[derive(Default)]
struct Attributes {
    values: Map<String, Value>,
    singles: Vec<String>,
}

/// Returns the NumPy data type and the element size of a netCDF type. Returns `None` for unknown types.
fn element(kind: u32) -> Option<(&'static str, u64)> {
    Some(match kind {
        1 => ("|i1", 1),
        2 => ("|S1", 1),
        3 => (">i2", 2),
        4 => (">i4", 4),
        5 => (">f4", 4),
        6 => (">f8", 8),
        7 => ("|u1", 1),
        8 => (">u2", 2),
        9 => (">u4", 4),
        10 => (">i8", 8),
        11 => (">u8", 8),
        _ => return None,
    })
}

impl Netcdf3Store {
    /// Reads the header of the file at `path`. Returns `None` if the file has another format.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be read; [`Error::Format`] when it is damaged.
    pub(super) fn open(path: &Path) -> Result<Option<Self>> {
        let file = open_regular(path)?;
        let length = file.metadata().map_err(|source| Error::Io { path: path.to_path_buf(), source })?.len();
        let mut header = Header { path, reader: BufReader::new(file), left: length, version: 0 };
        let mut magic = [0; 4];
        if length < 4 {
            return Ok(None);
        }
        header.fill(&mut magic)?;
        match magic {
            [b'C', b'D', b'F', version @ (1 | 2 | 5)] => header.version = version,
            _ => return Ok(None),
        }
        let records = header.count()?;
        let dimensions = header.dimensions()?;
        let attributes = header.attributes()?;
        let variables = header.variables(dimensions.len())?;
        let mut store = Self { path: path.to_path_buf(), dimensions, attributes, variables, records, record_bytes: 0 };
        store.record_bytes = store.bytes_of_record()?;
        if records == STREAMED && store.record_bytes > 0 {
            let first =
                store.variables.iter().filter(|variable| store.is_record(variable)).map(|variable| variable.begin);
            let first = first.min().unwrap_or(length);
            store.records = length.saturating_sub(first) / store.record_bytes;
        }
        Ok(Some(store))
    }

    fn is_record(&self, variable: &Variable) -> bool {
        variable.dimensions.first().is_some_and(|&dimension| self.dimensions[dimension].1.is_none())
    }

    /// Returns the size of `variable` in bytes, or of one record if it has records.
    fn bytes_of(&self, variable: &Variable) -> Option<u64> {
        let (_, size) = element(variable.kind)?;
        let mut axes = variable.dimensions.iter().skip(usize::from(self.is_record(variable)));
        axes.try_fold(size, |bytes, &axis| bytes.checked_mul(self.dimensions[axis].1?))
    }

    fn bytes_of_record(&self) -> Result<u64> {
        let records: Vec<&Variable> = self.variables.iter().filter(|variable| self.is_record(variable)).collect();
        let sizes: Option<Vec<u64>> = records.iter().map(|variable| self.bytes_of(variable)).collect();
        let padded = |bytes: u64| bytes.checked_next_multiple_of(4);
        let total = sizes.and_then(|sizes| match &sizes[..] {
            // A single record variable is not padded.
            [bytes] => Some(*bytes),
            sizes => sizes.iter().try_fold(0_u64, |total, &bytes| total.checked_add(padded(bytes)?)),
        });
        total.ok_or_else(|| refuse(self.path.clone(), "the total size of its records is too large".into()))
    }

    /// Returns the fill value of `variable`, used where nothing was written.
    fn fill(&self, variable: &Variable) -> std::result::Result<Vec<u8>, String> {
        let (name, _) = element(variable.kind).unwrap_or_default();
        // Character variables fail later, when their data type is parsed.
        let Ok((dtype, _)) = numpy_type(&json!(name)) else { return Ok(Vec::new()) };
        let default = match variable.kind {
            1 => json!(-127),
            3 => json!(-32_767),
            4 => json!(-2_147_483_647),
            5 | 6 => json!(FILL_FLOAT),
            7 => json!(u8::MAX),
            8 => json!(u16::MAX),
            9 => json!(u32::MAX),
            10 => json!(i64::MIN + 2),
            _ => json!(u64::MAX - 1),
        };
        let own = variable.attributes.values.get("_FillValue");
        // An invalid `_FillValue` is ignored.
        own.and_then(|own| fill_bytes(own, dtype).ok()).map_or_else(|| fill_bytes(&default, dtype), Ok)
    }

    fn found(&self, variable: &Variable) -> Result<FoundArray> {
        let refused = |reason: String| refuse(self.path.clone(), format!("variable {:?}: {reason}", variable.name));
        let (dtype, _) = element(variable.kind).ok_or_else(|| refused("unknown data type".into()))?;
        let axis = |&dimension: &usize| self.dimensions[dimension].1.unwrap_or(self.records);
        let shape: Vec<u64> = variable.dimensions.iter().map(axis).collect();
        let names: Vec<&String> = variable.dimensions.iter().map(|&axis| &self.dimensions[axis].0).collect();
        let mut attributes = variable.attributes.values.clone();
        attributes.insert("_ARRAY_DIMENSIONS".into(), json!(names));
        let is_record = self.is_record(variable);
        let bytes = self.bytes_of(variable).ok_or_else(|| refused("its size is too large".into()))?;
        let is_gapped = is_record && bytes != self.record_bytes;
        let mut chunk: Vec<u64> = shape.iter().map(|&size| size.max(1)).collect();
        if is_record {
            chunk[0] = 1;
        }
        let metadata = json!({
            "zarr_format": 2, "shape": shape, "chunks": chunk, "dtype": dtype, "fill_value": null, "order": "C",
            "filters": null, "compressor": null,
        });
        let source = ReferenceSource::known(&self.path)?;
        let (offset, step) = (variable.begin, self.record_bytes);
        let chunks = if is_gapped {
            ForeignChunks::Chunked { source, layout: ReferenceLayout::Regular { offset, step } }
        } else {
            ForeignChunks::Contiguous { source, offset }
        };
        let array = ForeignArray {
            name: variable.name.clone(),
            path: self.path.clone(),
            metadata: metadata.to_string(),
            attributes: Value::Object(attributes).to_string(),
            single_attributes: variable.attributes.singles.clone(),
            fill: self.fill(variable).map_err(refused)?,
            members: Vec::new(),
            chunks,
        };
        array.found().map_err(refused)
    }
}

impl Store for Netcdf3Store {
    fn root(&self) -> Result<Option<FoundArray>> {
        Ok(None)
    }

    fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.variables.iter().map(|variable| variable.name.clone()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn array(&self, name: &str) -> Result<Option<FoundArray>> {
        self.variables.iter().find(|variable| variable.name == name).map(|variable| self.found(variable)).transpose()
    }

    fn coordinates(&self) -> Result<HashSet<String>> {
        Ok(names_of(self.attributes.values.get("coordinates")).collect())
    }
}

/// The header of a file, while it is being read.
struct Header<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    /// The number of unread bytes, which bounds the length of any list.
    left: u64,
    version: u8,
}

impl Header<'_> {
    fn refuse(&self, reason: &str) -> Error {
        refuse(self.path.to_path_buf(), format!("header of netCDF: {reason}"))
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        let left = self.left.checked_sub(into.len() as u64);
        self.left = left.ok_or_else(|| self.refuse("it is truncated"))?;
        self.reader.read_exact(into).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => self.refuse("it is truncated"),
            _ => Error::Io { path: self.path.to_path_buf(), source },
        })
    }

    fn word(&mut self) -> Result<u32> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn long(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Reads a count or a size.
    fn count(&mut self) -> Result<u64> {
        if self.version == 5 { self.long() } else { Ok(u64::from(self.word()?)) }
    }

    /// Reads the length of a list of `kind`, which may be absent.
    fn list(&mut self, kind: u32) -> Result<u64> {
        let (found, count) = (self.word()?, self.count()?);
        if (found != kind && found != 0) || (found == 0 && count > 0) || count > self.left {
            return Err(self.refuse("a list is damaged"));
        }
        Ok(count)
    }

    /// Reads `bytes` bytes, and the padding to a multiple of four.
    fn bytes(&mut self, bytes: u64) -> Result<Vec<u8>> {
        if bytes > self.left {
            return Err(self.refuse("it is truncated"));
        }
        let mut text = vec![0; bytes as usize];
        self.fill(&mut text)?;
        let mut padding = [0; 4];
        self.fill(&mut padding[..(bytes.next_multiple_of(4) - bytes) as usize])?;
        Ok(text)
    }

    fn name(&mut self) -> Result<String> {
        let bytes = self.count()?;
        String::from_utf8(self.bytes(bytes)?).map_err(|_| self.refuse("a name is not UTF-8"))
    }

    fn dimensions(&mut self) -> Result<Vec<(String, Option<u64>)>> {
        let mut dimensions = Vec::new();
        for _ in 0..self.list(DIMENSIONS)? {
            let (name, size) = (self.name()?, self.count()?);
            dimensions.push((name, Some(size).filter(|&size| size > 0)));
        }
        Ok(dimensions)
    }

    fn attributes(&mut self) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        for _ in 0..self.list(ATTRIBUTES)? {
            let (name, kind, count) = (self.name()?, self.word()?, self.count()?);
            let (_, size) = element(kind).ok_or_else(|| self.refuse("an attribute has an unknown data type"))?;
            let bytes = count.checked_mul(size).ok_or_else(|| self.refuse("an attribute is too long"))?;
            let bytes = self.bytes(bytes)?;
            if kind == 5 && count == 1 {
                attributes.singles.push(name.clone());
            }
            attributes.values.insert(name, value(kind, &bytes));
        }
        Ok(attributes)
    }

    fn variables(&mut self, dimensions: usize) -> Result<Vec<Variable>> {
        let mut variables = Vec::new();
        for _ in 0..self.list(VARIABLES)? {
            let (name, axes) = (self.name()?, self.count()?);
            let mut own = Vec::new();
            for _ in 0..axes {
                let dimension = usize::try_from(self.count()?).unwrap_or(usize::MAX);
                if dimension >= dimensions {
                    return Err(self.refuse(&format!("variable {name:?} has an unknown dimension")));
                }
                own.push(dimension);
            }
            let (attributes, kind) = (self.attributes()?, self.word()?);
            // Skips the size in bytes, which can't represent large sizes.
            self.count()?;
            let begin = if self.version == 1 { u64::from(self.word()?) } else { self.long()? };
            variables.push(Variable { name, dimensions: own, attributes, kind, begin });
        }
        Ok(variables)
    }
}

/// Decodes an attribute: a string, a number, or a list of numbers.
fn value(kind: u32, bytes: &[u8]) -> Value {
    macro_rules! numbers {
        ($type:ty, $value:expr) => {
            bytes
                .as_chunks::<{ size_of::<$type>() }>()
                .0
                .iter()
                .map(|one| $value(<$type>::from_be_bytes(*one)))
                .collect()
        };
    }
    let mut values: Vec<Value> = match kind {
        2 => {
            let text = String::from_utf8_lossy(bytes);
            return Value::String(text.trim_end_matches('\0').to_owned());
        }
        1 => numbers!(i8, Value::from),
        3 => numbers!(i16, Value::from),
        4 => numbers!(i32, Value::from),
        5 => numbers!(f32, |number| float_value(f64::from(number))),
        6 => numbers!(f64, float_value),
        7 => numbers!(u8, Value::from),
        8 => numbers!(u16, Value::from),
        9 => numbers!(u32, Value::from),
        10 => numbers!(i64, Value::from),
        _ => numbers!(u64, Value::from),
    };
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}

/// Returns a JSON number, or the name of a value that JSON can't represent.
fn float_value(number: f64) -> Value {
    match number {
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        _ if number.is_nan() => json!("NaN"),
        _ => json!(number),
    }
}
