//! [`Npz`]: the rows of the arrays of a NumPy `.npz` file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::members::{Contents, Members};
use crate::dataset::Concat;
use crate::dataset::format::array::header::{LONGEST_START, NpyHeader};
use crate::dataset::format::array::mapped_arrays::MappedArrays;
use crate::dataset::format::file::mapped_file::MappedFile;
use crate::dataset::format::file::parts::file_parts;
use crate::dataset::forward_dataset::forward_dataset;
use crate::memory::{Array, Segment};
use crate::{Error, Field, Result, Schema};

/// The arrays of a `.npz` file as fields: sample i is row i of each array.
///
/// Arrays of `numpy.savez` are memory-mapped; those of `numpy.savez_compressed` are decompressed into memory once.
/// Opening reads each selected array in full, and verifies its checksum. As with [`Npy`](crate::Npy), a file that
/// shrank is [`Error::Shrunk`].
///
/// Source: NumPy's format specification (`numpy.lib.format`); APPNOTE.TXT, the description of zip archives.
///
/// # Example
/// ```
/// # use std::io::Write;
/// use sluicegate::{Dataset, Npz};
/// # let folder = tempfile::TempDir::new().unwrap();
/// # let path = folder.path().join("x.npz");
/// # let mut bytes = b"\x93NUMPY\x01\x00\x40\x00{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}".to_vec();
/// # bytes.resize(10 + 64, b' ');
/// # bytes.extend([1, 2, 3, 4, 5, 6]);
/// # let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
/// # archive.start_file("image.npy", zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored)).unwrap();
/// # archive.write_all(&bytes).unwrap();
/// # archive.finish().unwrap();
/// let rows = Npz::open(&path, None).unwrap();
/// assert_eq!((rows.len(), rows.schema().to_string().as_str()), (2, "(image: uint8[3])"));
/// ```
pub struct Npz(MappedArrays);

impl Npz {
    /// Opens the file at `path`. Samples have the arrays named by `fields`, in that order, or all arrays in the order
    /// of the file.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be opened; [`Error::Format`] when it is not a `.npz` file, or an array is damaged,
    /// encrypted, holds objects, or is of a type that torch does not have; [`Error::InvalidArgument`] when an array
    /// does not exist or is a scalar, or when the first axes differ in length.
    pub fn open(path: impl AsRef<Path>, fields: Option<&[String]>) -> Result<Self> {
        let path = path.as_ref();
        let opened = MappedFile::open(path)?;
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        let bytes = usize::try_from(opened.metadata().map_err(io)?.len()).unwrap_or(usize::MAX);
        let mut members = Members::open(path, opened.try_clone().map_err(io)?)?;
        let names: Vec<String> = match fields {
            Some(fields) => fields.to_vec(),
            None => members.names().map(str::to_owned).collect(),
        };
        let file = MappedFile::new(path.to_path_buf(), opened, bytes)?;
        let (mut arrays, mut schema): (Vec<Array>, Vec<Field>) = (Vec::new(), Vec::new());
        for name in names {
            let Some(contents) = members.contents(path, &name)? else {
                let names: Vec<&str> = members.names().take(20).collect();
                return Err(refuse_fields(path, format!("there is no array `{name}`; the arrays are {names:?}")));
            };
            let (array, field) = array_of(path, &file, name, contents)?;
            if let (Some(first), Some(other)) = (arrays.first(), schema.first())
                && first.len() != array.len()
            {
                let reason = format!(
                    "array `{}` has {} rows but array `{}` has {}; the first axis must count the samples",
                    other.name(),
                    first.len(),
                    field.name(),
                    array.len()
                );
                return Err(refuse_fields(path, reason));
            }
            arrays.push(array);
            schema.push(field);
        }
        if arrays.is_empty() {
            return Err(refuse_fields(path, "there are no arrays, so the number of samples is unknown".into()));
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
            refuse_fields(
                path,
                format!("its samples are {found}, but those of the first file, {of_first}, are {first}"),
            )
        })
    }
}

/// Creates the array `name` of `file`, and the field of its rows.
fn array_of(path: &Path, file: &MappedFile, name: String, contents: Contents) -> Result<(Array, Field)> {
    let refuse = |offset, reason| Error::Format {
        path: path.to_path_buf(),
        offset,
        reason: format!("array `{name}`: {reason}"),
    };
    let (segment, start, found, head) = match contents {
        Contents::Stored { start, bytes, head } => (Arc::clone(file.segment()), start, bytes, head),
        Contents::Unpacked(bytes) => {
            let (found, head) = (bytes.len() as u64, bytes.iter().take(LONGEST_START).copied().collect());
            (Arc::new(Segment::from_vec(bytes)), 0, found, head)
        }
    };
    let header = NpyHeader::parse(&head).map_err(|(offset, reason)| refuse(start + offset, reason))?;
    let Some((_, row_shape)) = header.shape.split_first() else {
        return Err(refuse_fields(
            path,
            format!("array `{name}` is a scalar, but the first axis must count the samples"),
        ));
    };
    let needed = header
        .file_bytes()
        .ok_or_else(|| refuse(start, "an array of this shape is too large for any memory".into()))?;
    if found < needed as u64 {
        let reason = format!("{} {:?} needs {needed} bytes, but the file has {found}", header.dtype, header.shape);
        return Err(refuse(start, reason));
    }
    let offset = usize::try_from(start).unwrap_or(usize::MAX).saturating_add(header.data_offset);
    let array = Array::new(segment, offset, header.dtype.bytes(), &header.shape, &header.strides())?;
    let field = Field::new(name, header.dtype, row_shape);
    Ok((array, field))
}

fn refuse_fields(path: &Path, reason: String) -> Error {
    Error::invalid("fields", format!("{}: {reason}; name the arrays that make up a sample", path.display()))
}

forward_dataset!([] Npz, self => self.0);
