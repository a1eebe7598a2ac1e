//! [`Npy`]: a NumPy `.npy` file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dataset::format::array::header::{LONGEST_START, NpyHeader};
use crate::dataset::format::file::mapped_file::MappedFile;
use crate::dataset::format::file::parts::file_parts;
use crate::dataset::{Concat, Dataset, ReadMany};
use crate::memory::Array;
use crate::{BatchWriter, Error, Field, Result, SampleWriter, Schema};

/// The rows of a memory-mapped `.npy` file: opening reads the header, and a batch reads its rows. The file may be
/// larger than memory, and have C or Fortran order.
///
/// The size of the file is checked before every batch, and lost pages are detected after it: a file that shrank is
/// [`Error::Shrunk`], even if it is truncated while a batch is copied, and one that was replaced is [`Error::Changed`].
///
/// Source: NumPy's format specification (`numpy.lib.format`).
///
/// # Example
/// ```
/// use sluicegate::{Dataset, Npy};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # let mut bytes = b"\x93NUMPY\x01\x00\x40\x00{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}".to_vec();
/// # bytes.resize(10 + 64, b' ');
/// # bytes.extend([1, 2, 3, 4, 5, 6]);
/// # std::fs::write(&path, bytes).unwrap();
/// let images = Npy::open("image", &path).unwrap();
/// assert_eq!((images.len(), images.schema().to_string().as_str()), (2, "(image: uint8[3])"));
/// ```
pub struct Npy {
    file: MappedFile,
    array: Array,
    schema: Schema,
}

impl Npy {
    /// Opens the file at `path`; its rows are the field `name`.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be opened; [`Error::Format`] when it is not a `.npy` file, holds objects or another
    /// type that torch does not have, is a scalar, or is shorter than its header says.
    pub fn open(name: impl Into<String>, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let io = |source| Error::Io { path: path.clone(), source };
        let refuse = |offset, reason| Error::Format { path: path.clone(), offset, reason };
        let file = MappedFile::open(&path)?;
        let mut start = Vec::new();
        (&file).take(LONGEST_START as u64).read_to_end(&mut start).map_err(io)?;
        let header = NpyHeader::parse(&start).map_err(|(offset, reason)| refuse(offset, reason))?;
        let Some((_, row_shape)) = header.shape.split_first() else {
            return Err(refuse(8, "the array is a scalar, but the first axis must count the samples".into()));
        };
        let bytes = header
            .file_bytes()
            .ok_or_else(|| refuse(8, format!("an array of shape {:?} is too large for any memory", header.shape)))?;
        let found = file.metadata().map_err(io)?.len();
        if found < bytes as u64 {
            let reason = format!(
                "the file is truncated: {} {:?} after a header of {} bytes needs {bytes} bytes, but the file has \
                 {found}; write or copy it again",
                header.dtype, header.shape, header.data_offset
            );
            return Err(refuse(found, reason));
        }
        let file = MappedFile::new(path, file, bytes)?;
        let array = Array::new(
            Arc::clone(file.segment()),
            header.data_offset,
            header.dtype.bytes(),
            &header.shape,
            &header.strides(),
        )?;
        let schema = Schema::new([Field::new(name, header.dtype, row_shape)]);
        Ok(Self { file, array, schema })
    }

    /// Opens the files at `paths`, one after the other, as the field `name`; their rows must have the same form. The
    /// first 4,096 files stay mapped; others are mapped when they are read.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::InvalidArgument`] names the first file whose rows differ from the first one's.
    pub fn open_all(name: impl Into<String>, paths: &[PathBuf]) -> Result<Concat> {
        let name = name.into();
        let open = move |path: &PathBuf| Self::open(name.clone(), path);
        file_parts(paths, open, |path, found, first| {
            let row = |schema: &Schema| schema.fields().first().map(|field| (field.dtype(), field.shape().to_vec()));
            let words = |schema| row(schema).map_or(String::new(), |(dtype, shape)| format!("{dtype} {shape:?}"));
            let reason = format!(
                "{}: its rows are {}, but those of the first file, {}, are {}; all files of one list must have equal \
                 rows",
                path.display(),
                words(found),
                paths[0].display(),
                words(first)
            );
            Error::invalid("paths", reason)
        })
    }
}

impl Dataset for Npy {
    fn len(&self) -> usize {
        self.array.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.file.read(|| self.array.copy_row(index, into.field(0)))
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }
}

impl ReadMany for Npy {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let arrays = std::iter::once(&self.array);
        self.file.read_rows(arrays, indices, into, |indices, into| self.array.gather(indices, into.field(0)))
    }
}
