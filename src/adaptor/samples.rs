//! [`Samples`]: samples that an adaptor has read for its own use.

use super::Sample;
use crate::collate::{BatchLayout, Collate, StackSamples};
use crate::dataset::{Dataset, read_batch, sizes_of};
use crate::memory::{Lease, Slab};
use crate::{BatchWriter, Error, Result, Sizes};

/// Maximum total size: 16 GiB. Sizes come from files, and a damaged file may request anything.
const LARGEST: usize = 16 << 30;

pub(super) struct Samples {
    layout: BatchLayout,
    lease: Lease,
}

impl Samples {
    /// Reads the samples of `dataset` at `indices`, with the keys of the same rows, into a slot of `slab`.
    pub(super) fn read(dataset: &dyn Dataset, indices: &[usize], keys: Option<&[u64]>, slab: &Slab) -> Result<Self> {
        let schema = dataset.schema();
        let sizes = match schema.is_variable() {
            true => sizes_of(dataset, indices)?,
            false => Sizes::fixed(indices.len()),
        };
        let layout = StackSamples.layout(schema, &sizes)?;
        if layout.bytes > LARGEST {
            let reason = format!(
                "{} samples have {} bytes in total, but at most {LARGEST} are read at once; lower batch_size; if the \
                 size is wrong, the file or its index is damaged",
                indices.len(),
                layout.bytes
            );
            return Err(Error::invalid("dataset", reason));
        }
        let mut lease = slab.lease(layout.bytes)?;
        layout.write_sizes(&sizes, lease.bytes_mut());
        let into = BatchWriter::new(lease.bytes_mut(), &layout.columns, layout.samples);
        match keys {
            Some(keys) => read_batch(dataset, indices, &mut into.with_keys(keys))?,
            None => read_batch(dataset, indices, &mut { into })?,
        }
        Ok(Self { layout, lease })
    }

    /// Returns the sample in row `row`, which has this index.
    pub(super) fn sample(&self, row: usize, index: usize) -> Sample<'_> {
        Sample::new(index, row, &self.layout, self.lease.bytes())
    }
}
