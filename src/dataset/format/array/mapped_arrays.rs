//! [`MappedArrays`]: the rows of several arrays in a memory-mapped file.

use crate::dataset::format::file::mapped_file::MappedFile;
use crate::dataset::{Dataset, ReadMany};
use crate::memory::Array;
use crate::{BatchWriter, Result, SampleWriter, Schema};

/// Arrays of equal length as fields: sample i is row i of each.
pub(crate) struct MappedArrays {
    /// Checked whenever rows are read; decompressed arrays have memory of their own.
    file: MappedFile,
    arrays: Vec<Array>,
    schema: Schema,
}

impl MappedArrays {
    pub(crate) fn new(file: MappedFile, arrays: Vec<Array>, schema: Schema) -> Self {
        Self { file, arrays, schema }
    }
}

impl Dataset for MappedArrays {
    fn len(&self) -> usize {
        self.arrays.first().map_or(0, Array::len)
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        let mut arrays = self.arrays.iter().enumerate();
        self.file.read(|| arrays.try_for_each(|(field, array)| array.copy_row(index, into.field(field))))
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }
}

impl ReadMany for MappedArrays {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        self.file.read_rows(self.arrays.iter(), indices, into, |indices, into| {
            let mut arrays = self.arrays.iter().enumerate();
            arrays.try_for_each(|(field, array)| array.gather(indices, into.field(field)))
        })
    }
}
