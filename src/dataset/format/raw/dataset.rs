//! [`Raw`]: a file of samples of one size, without gaps.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dataset::format::file::known_format::{SIGNATURE_BYTES, foreign};
use crate::dataset::format::file::mapped_file::MappedFile;
use crate::dataset::format::file::parts::file_parts;
use crate::dataset::{Concat, Dataset, ReadMany};
use crate::memory::Array;
use crate::{BatchWriter, DType, Error, Field, Result, SampleWriter, Schema};

/// The location of a field in a sample of a [`Raw`] file.
#[derive(Debug, Clone)]
pub struct RawField {
    field: Field,
    offset: usize,
    order: ByteOrder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    Native,
    Swapped,
}

impl RawField {
    /// Creates a field at byte `offset` of the sample, in C order and native byte order.
    #[must_use]
    pub fn new(field: Field, offset: usize) -> Self {
        Self { field, offset, order: ByteOrder::Native }
    }

    /// Returns the field in the other byte order: its values are byte-swapped when they are read.
    #[must_use]
    pub fn swapped(self) -> Self {
        Self { order: ByteOrder::Swapped, ..self }
    }

    /// Returns the field of the samples.
    pub(crate) fn field(&self) -> &Field {
        &self.field
    }

    /// Appends the value that it has in `sample`.
    pub(super) fn extract(&self, sample: &[u8], into: &mut Vec<u8>) {
        let start = into.len();
        into.extend(&sample[self.offset..self.offset + self.field.bytes()]);
        swap(&mut into[start..], self.swapped_bytes());
    }

    /// Returns the size of the parts that are byte-swapped, of which a complex number has two; 1 without swapping.
    fn swapped_bytes(&self) -> usize {
        match (self.order, self.field.dtype()) {
            (ByteOrder::Native, _) => 1,
            (_, complex @ (DType::Complex32 | DType::Complex64 | DType::Complex128)) => complex.bytes() / 2,
            (_, dtype) => dtype.bytes(),
        }
    }
}

/// Samples of one size in a file, one after the other, such as an array of structures in C, or the output of NumPy's
/// `tofile`. The file is memory-mapped and may be larger than memory.
///
/// As with [`Npy`](crate::Npy), a file that shrank is [`Error::Shrunk`], even if it was cut while a batch was copied.
///
/// # Example
/// ```
/// use sluicegate::{DType, Dataset, Field, Raw, RawField};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # std::fs::write(&path, [0; 16 + 3 * 6]).unwrap();
/// let label = RawField::new(Field::new("label", DType::UInt16, []), 0);
/// let pixels = RawField::new(Field::new("pixels", DType::UInt8, [2, 2]), 2);
/// let images = Raw::open(&path, 16, 6, vec![label, pixels]).unwrap();
/// assert_eq!(images.len(), 3);
/// ```
pub struct Raw {
    file: MappedFile,
    /// By field, with the size of the parts that are byte-swapped.
    arrays: Vec<(Array, usize)>,
    schema: Schema,
    len: usize,
}

impl Raw {
    /// Opens the file at `path`: `header_bytes` bytes that are skipped, then samples of `sample_bytes` bytes each.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be opened; [`Error::Format`] when it does not end with a whole sample;
    /// [`Error::InvalidArgument`] when a sample has no bytes, or a field reaches past its end.
    pub fn open(
        path: impl AsRef<Path>,
        header_bytes: usize,
        sample_bytes: usize,
        fields: Vec<RawField>,
    ) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        check_fields(&fields, sample_bytes)?;
        let mut file = MappedFile::open(&path)?;
        if header_bytes == 0 {
            // Otherwise the user has described the file, header included.
            let mut start = Vec::new();
            let read = (&mut file).take(SIGNATURE_BYTES as u64).read_to_end(&mut start);
            read.map_err(|source| Error::Io { path: path.clone(), source })?;
            if let Some(reason) = foreign(&start, "") {
                return Err(Error::Format { path, offset: 0, reason });
            }
        }
        let bytes = file.metadata().map_err(|source| Error::Io { path: path.clone(), source })?.len();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let rest = bytes.checked_sub(header_bytes).map_or(header_bytes, |data| data % sample_bytes);
        if rest > 0 {
            let reason = format!(
                "the file has {bytes} bytes, but a header of {header_bytes} bytes and samples of {sample_bytes} bytes \
                 leave an incomplete sample at its end; the file is truncated, or dtype, shape, or header_bytes is \
                 wrong"
            );
            return Err(Error::Format { path, offset: bytes.saturating_sub(rest) as u64, reason });
        }
        let len = (bytes - header_bytes) / sample_bytes;
        let file = MappedFile::new(path, file, bytes)?;
        let arrays = fields.iter().map(|field| {
            let shape: Vec<usize> = std::iter::once(len).chain(field.field.shape().iter().copied()).collect();
            let mut strides = vec![field.field.dtype().bytes(); shape.len()];
            for axis in (1..shape.len().saturating_sub(1)).rev() {
                strides[axis] = strides[axis + 1].saturating_mul(shape[axis + 1]);
            }
            strides[0] = sample_bytes;
            let start = header_bytes.saturating_add(if len == 0 { 0 } else { field.offset });
            let item = field.field.dtype().bytes();
            Ok((Array::new(Arc::clone(file.segment()), start, item, &shape, &strides)?, field.swapped_bytes()))
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let schema = Schema::new(fields.into_iter().map(|field| field.field).collect::<Vec<_>>());
        Ok(Self { file, arrays, schema, len })
    }

    /// Opens the files at `paths`, one after the other. The first 4,096 stay mapped; others are mapped when they are
    /// read.
    ///
    /// # Errors
    /// As [`open`](Self::open), for the first file that can't be opened.
    pub fn open_all(
        paths: &[PathBuf],
        header_bytes: usize,
        sample_bytes: usize,
        fields: Vec<RawField>,
    ) -> Result<Concat> {
        let open = move |path: &PathBuf| Self::open(path, header_bytes, sample_bytes, fields.clone());
        // Never the case: all files have the fields that were passed.
        let differ = |path: &PathBuf, _: &Schema, _: &Schema| Error::Changed {
            path: path.clone(),
            reason: "its samples differ from those of the first file".into(),
        };
        file_parts(paths, open, differ)
    }
}

/// Fails if a field is variable, or does not fit into a sample of `sample_bytes` bytes.
pub(super) fn check_fields(fields: &[RawField], sample_bytes: usize) -> Result<()> {
    let invalid = |reason| Error::invalid("dtype", reason);
    if sample_bytes == 0 {
        return Err(invalid("a sample has 0 bytes, so the number of samples is unknown".into()));
    }
    let past =
        fields.iter().find(|field| field.offset.checked_add(field.field.bytes()).is_none_or(|end| end > sample_bytes));
    if let Some(RawField { field, offset, .. }) = past {
        return Err(invalid(format!(
            "{field} at byte {offset} ends past the end of a sample, which has {sample_bytes} bytes"
        )));
    }
    if let Some(RawField { field, .. }) = fields.iter().find(|field| field.field.is_variable()) {
        return Err(invalid(format!("{field} is variable, but all samples of a file must have one size")));
    }
    Ok(())
}

fn swap(bytes: &mut [u8], unit: usize) {
    if unit > 1 {
        bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
}

impl Dataset for Raw {
    fn len(&self) -> usize {
        self.len
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        if index >= self.len {
            return Err(Error::IndexOutOfRange { index, len: self.len });
        }
        self.file.read(|| {
            self.arrays.iter().enumerate().try_for_each(|(field, (array, unit))| {
                array.copy_row(index, into.field(field))?;
                swap(into.field(field), *unit);
                Ok(())
            })
        })
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }
}

impl ReadMany for Raw {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        if let Some(&index) = indices.iter().find(|&&index| index >= self.len) {
            return Err(Error::IndexOutOfRange { index, len: self.len });
        }
        let arrays = self.arrays.iter().map(|(array, _)| array);
        self.file.read_rows(arrays, indices, into, |indices, into| {
            self.arrays.iter().enumerate().try_for_each(|(field, (array, unit))| {
                array.gather(indices, into.field(field))?;
                swap(into.field(field), *unit);
                Ok(())
            })
        })
    }
}
