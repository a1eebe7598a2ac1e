//! [`Window`]: consecutive samples as one sample.

use std::sync::Arc;

use crate::dataset::{BlockSize, Blocks, Dataset, ReadMany, read_batch};
use crate::rng::sample_key;
use crate::{BatchWriter, Error, Field, Result, SampleWriter, Schema};

/// Consecutive samples of a dataset, stacked: the result of [`DatasetExt::window`](super::DatasetExt::window) and
/// [`batch`](super::DatasetExt::batch).
pub(super) struct Window {
    dataset: Arc<dyn Dataset>,
    schema: Schema,
    /// Number of samples in a window.
    samples: usize,
    stride: usize,
    len: usize,
}

impl Window {
    pub(super) fn new(dataset: Arc<dyn Dataset>, samples: usize, stride: usize) -> Result<Self> {
        let fields = dataset.schema().fields().iter();
        let schema = Schema::new(fields.map(|field| stacked_field(field, samples)).collect::<Result<Vec<_>>>()?);
        let len = dataset.len().checked_sub(samples).map_or(0, |last| last / stride + 1);
        Ok(Self { dataset, schema, samples, stride, len })
    }

    /// Returns the index of the first sample of window `index`.
    fn first(&self, index: usize) -> Result<usize> {
        match index < self.len {
            true => Ok(index * self.stride),
            false => Err(Error::IndexOutOfRange { index, len: self.len }),
        }
    }
}

/// Fails if one of these named arguments is 0.
pub(super) fn check_counts(counts: &[(&'static str, usize)]) -> Result<()> {
    match counts.iter().find(|(_, count)| *count == 0) {
        Some(&(argument, _)) => Err(Error::invalid(argument, "expected at least 1 sample, got 0")),
        None => Ok(()),
    }
}

/// Returns the field of `samples` stacked samples of `field`.
pub(super) fn stacked_field(field: &Field, samples: usize) -> Result<Field> {
    if field.is_variable() {
        return Err(Error::invalid("dataset", format!("samples of {field} differ in size, so they can't be stacked")));
    }
    Ok(Field::new(field.name(), field.dtype(), [&[samples], field.shape()].concat()))
}

impl Dataset for Window {
    fn len(&self) -> usize {
        self.len
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.read_many(&[index], &mut into.as_batch())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        self.dataset.as_read_many().map(|_| self as &dyn ReadMany)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        self.dataset.as_blocks().map(|_| self as &dyn Blocks)
    }

    fn is_random(&self) -> bool {
        self.dataset.is_random()
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        self.dataset.origin(self.first(index).ok()?, field)
    }
}

impl ReadMany for Window {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let mut inner = Vec::with_capacity(indices.len().saturating_mul(self.samples));
        for &index in indices {
            let first = self.first(index)?;
            inner.extend(first..first + self.samples);
        }
        // Each sample of a window has its own key, derived from the window's.
        let keys: Option<Vec<u64>> = (0..indices.len()).map(|row| into.key(row)).collect();
        let of_samples = |key| (0..self.samples as u64).map(move |sample| sample_key(key, 0, sample));
        let keys: Option<Vec<u64>> = keys.map(|keys| keys.into_iter().flat_map(of_samples).collect());
        let columns = into.split_columns(self.samples);
        let into = into.split_rows(self.samples, &columns);
        match &keys {
            Some(keys) => read_batch(&*self.dataset, &inner, &mut into.with_keys(keys)),
            None => read_batch(&*self.dataset, &inner, &mut { into }),
        }
    }
}

impl Blocks for Window {
    fn count(&self) -> usize {
        self.dataset.as_blocks().map_or(0, Blocks::count)
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        let (Some(blocks), Ok(first)) = (self.dataset.as_blocks(), self.first(index)) else { return };
        let mut last = None;
        for sample in first..first + self.samples {
            blocks.blocks_of(sample, &mut |block| {
                // Neighboring samples of a window are mostly in the same block: visit it once.
                if last.replace(block) != Some(block) {
                    visit(block);
                }
            });
        }
    }

    fn size_of(&self, block: usize) -> BlockSize {
        self.dataset.as_blocks().map_or(BlockSize::NONE, |blocks| blocks.size_of(block))
    }

    fn announce(&self, block: usize) {
        self.dataset.as_blocks().into_iter().for_each(|blocks| blocks.announce(block));
    }
}
