//! [`Safetensors`]: the rows of the tensors of a safetensors file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::header::{LENGTH_BYTES, LONGEST_HEADER, Tensor, parse};
use crate::dataset::Concat;
use crate::dataset::format::array::mapped_arrays::MappedArrays;
use crate::dataset::format::file::known_format::foreign;
use crate::dataset::format::file::mapped_file::MappedFile;
use crate::dataset::format::file::parts::file_parts;
use crate::dataset::forward_dataset::forward_dataset;
use crate::memory::Array;
use crate::{DType, Error, Field, Result, Schema};

/// The tensors of a safetensors file as fields: sample i is row i of each tensor. The file is memory-mapped and may be
/// larger than memory; tensors need not be aligned.
///
/// The header is validated as strictly as the format demands: all tensors are inside of the file, and every byte of the
/// data belongs to exactly one tensor. As with [`Npy`](crate::Npy), a file that shrank is [`Error::Shrunk`].
///
/// Source: the description of the format in the `safetensors` repository.
///
/// # Example
/// ```
/// use sluicegate::{Dataset, Safetensors};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # let header = r#"{"x":{"dtype":"BF16","shape":[3,2],"data_offsets":[0,12]}}"#;
/// # let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
/// # bytes.extend(header.as_bytes());
/// # bytes.extend([7; 12]);
/// # std::fs::write(&path, bytes).unwrap();
/// let rows = Safetensors::open(&path, None).unwrap();
/// assert_eq!((rows.len(), rows.schema().to_string().as_str()), (3, "(x: bfloat16[2])"));
/// ```
pub struct Safetensors(MappedArrays);

impl Safetensors {
    /// Opens the file at `path`. Samples have the tensors named by `fields`, in that order, or all tensors, by name.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be opened; [`Error::Format`] when it is not a safetensors file or a damaged one;
    /// [`Error::InvalidArgument`] when a tensor does not exist, is a scalar, or has a data type of less than a byte, or
    /// when the first axes differ in length.
    pub fn open(path: impl AsRef<Path>, fields: Option<&[String]>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let (file, tensors) = read_header(&path)?;
        let tensors = chosen(&path, tensors, fields)?;
        let Some(first) = tensors.first() else {
            return Err(refuse_fields(&path, "there are no tensors, so the number of samples is unknown".into()));
        };
        let mut len = 0;
        for tensor in &tensors {
            let Some((&rows, _)) = tensor.shape.split_first() else {
                let reason = format!("tensor `{}` is a scalar, but the first axis must count the samples", tensor.name);
                return Err(refuse_fields(&path, reason));
            };
            len = if std::ptr::eq(tensor, first) { rows } else { len };
            if rows != len {
                let reason = format!(
                    "tensor `{}` has {len} rows but tensor `{}` has {rows}; the first axis must count the samples",
                    first.name, tensor.name
                );
                return Err(refuse_fields(&path, reason));
            }
        }
        let found = file.metadata().map_err(|source| Error::Io { path: path.clone(), source })?.len();
        let bytes = usize::try_from(found).unwrap_or(usize::MAX);
        let file = MappedFile::new(path.clone(), file, bytes)?;
        let (mut arrays, mut schema) = (Vec::new(), Vec::new());
        for tensor in tensors {
            let dtype = whole_bytes(&path, &tensor)?;
            let start = usize::try_from(tensor.place.start).unwrap_or(usize::MAX);
            arrays.push(Array::contiguous(Arc::clone(file.segment()), start, dtype.bytes(), &tensor.shape)?);
            schema.push(Field::new(tensor.name, dtype, &tensor.shape[1..]));
        }
        Ok(Self(MappedArrays::new(file, arrays, Schema::new(schema))))
    }

    /// Opens the files at `paths`, one after the other; all must have the same fields. The first 4,096 files stay
    /// mapped; others are mapped when they are read.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::InvalidArgument`] names the first file whose fields are not those of the first.
    pub fn open_all(paths: &[PathBuf], fields: Option<&[String]>) -> Result<Concat> {
        let names = fields.map(<[String]>::to_vec);
        let open = move |path: &PathBuf| Self::open(path, names.as_deref());
        file_parts(paths, open, |path, found, first| {
            let of_first = paths[0].display();
            let reason = format!("its samples are {found}, but those of the first file, {of_first}, are {first}");
            refuse_fields(path, reason)
        })
    }
}

fn refuse_fields(path: &Path, reason: String) -> Error {
    Error::invalid("fields", format!("{}: {reason}; name the tensors that make up a sample", path.display()))
}

/// Opens the file, and reads its tensors, sorted by name.
fn read_header(path: &Path) -> Result<(std::fs::File, Vec<Tensor>)> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let refuse = |(offset, reason)| Error::Format { path: path.to_path_buf(), offset, reason };
    let mut file = MappedFile::open(path)?;
    let found = file.metadata().map_err(io)?.len();
    let mut length = [0; LENGTH_BYTES];
    let room = found.checked_sub(LENGTH_BYTES as u64);
    let Some(room) = room else {
        return Err(refuse((found, format!("the file has {found} bytes, but the length of its header alone takes 8"))));
    };
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER || length > room {
        let plain = || {
            format!(
                "the file declares a header of {length} bytes, but only {room} bytes follow, and at most \
                 {LONGEST_HEADER} are allowed; it is truncated, or not a safetensors file"
            )
        };
        let reason = foreign(&length.to_le_bytes(), "a safetensors file").unwrap_or_else(plain);
        return Err(refuse((0, reason)));
    }
    let mut header = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_exact(&mut header).map_err(io)?;
    let tensors = parse(&header, found).map_err(refuse)?;
    Ok((file, tensors))
}

/// Returns the tensors named by `fields`, in that order, or all tensors if no names are given.
fn chosen(path: &Path, tensors: Vec<Tensor>, fields: Option<&[String]>) -> Result<Vec<Tensor>> {
    let Some(fields) = fields else { return Ok(tensors) };
    let one = |name: &String| {
        let found = tensors.iter().find(|tensor| tensor.name == *name);
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = tensors.iter().take(20).map(|tensor| tensor.name.as_str()).collect();
            refuse_fields(path, format!("there is no tensor `{name}`; the tensors are {names:?}"))
        })
    };
    fields.iter().map(one).collect()
}

fn whole_bytes(path: &Path, tensor: &Tensor) -> Result<DType> {
    tensor.dtype.clone().map_err(|name| {
        refuse_fields(
            path,
            format!("tensor `{}` has the data type {name}, whose elements are smaller than a byte", tensor.name),
        )
    })
}

forward_dataset!([] Safetensors, self => self.0);
