//! Datasets for the tests of other stages.

use sluicegate::{DType, Dataset, Error, Field, Result, SampleWriter, Schema};

/// `len` samples that are not stored: sample i is the number i plus `first`. It has no batched reads.
pub(crate) struct Numbers {
    first: usize,
    len: usize,
    schema: Schema,
}

impl Numbers {
    pub(crate) fn new(len: usize) -> Self {
        Self::starting_at(0, len)
    }

    pub(crate) fn starting_at(first: usize, len: usize) -> Self {
        Self { first, len, schema: Schema::new([Field::new("number", DType::UInt64, [])]) }
    }
}

impl Dataset for Numbers {
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
        into.field(0).copy_from_slice(&((self.first + index) as u64).to_ne_bytes());
        Ok(())
    }
}
