//! [`Fetch`]: one index batch in, one filled slot out.

use std::cell::Cell;
use std::sync::Arc;

use super::Batch;
use crate::collate::{BatchLayout, Collate};
use crate::dataset::{Blocks, Dataset, sizes_of};
use crate::error::catch;
use crate::memory::Slab;
use crate::rng::GeneratorPlace;
use crate::{BatchWriter, Column, Error, Result, Schema, Sizes, sample_key, watch};

/// The samples of one batch, by index, and the place of the batch in its epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexBatch {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The position of this batch among the batches of the epoch, counted from 0.
    pub batch_in_epoch: u64,
    /// The indices of its samples, in batch order.
    pub indices: Vec<usize>,
    /// The generator's position before each sample, in batch order, if samples draw from one generator in sequence
    /// ([`Drawing`](crate::dataset::Drawing)).
    pub draws: Option<Arc<[GeneratorPlace]>>,
}

/// Fetches batches: [`Batch`]es of fields, or any other type.
///
/// # Contract
/// Called from many threads at once. Pure: the same [`IndexBatch`] gives the same batch, so a batch that was lost with
/// a thread at a fork can be fetched again. A panic is caught and becomes [`Error::Panic`](crate::Error::Panic), which
/// includes the index of the sample if the fetch is [`FetchSamples`].
pub trait Fetch<B = Batch>: Send + Sync {
    /// Fetches one batch.
    ///
    /// # Errors
    /// Any error that occurred while a sample was read; it does not affect the batches before and after.
    fn fetch(&self, batch: &IndexBatch) -> Result<B>;

    /// Returns the blocks that the data is stored in, if any, so that they can be read before their batches.
    fn blocks(&self) -> Option<&dyn Blocks> {
        None
    }
}

/// Default maximum size of each variable field of one batch: 16 GiB.
///
/// Sizes come from a file, and a damaged file may claim any size.
const LARGEST_BATCH: usize = 16 << 30;

/// Fetches from a [`Dataset`]: every sample is read straight into its row of the slot.
pub struct FetchSamples {
    dataset: Arc<dyn Dataset>,
    collate: Arc<dyn Collate>,
    slab: Arc<Slab>,
    /// True if sizes of samples must be queried.
    is_variable: bool,
    largest_batch: usize,
    /// For random samples: the seed that keys are derived from, together with the epoch and the index.
    seed: Option<u64>,
    /// The index of the first sample when keys are derived.
    first_index: usize,
}

impl FetchSamples {
    /// Fetches samples of `dataset`, laid out by `collate`, into slots of `slab`. Each variable field may have 16 GiB
    /// in one batch.
    pub fn new(dataset: Arc<dyn Dataset>, collate: Arc<dyn Collate>, slab: Arc<Slab>) -> Self {
        let is_variable = dataset.schema().is_variable();
        Self { dataset, collate, slab, is_variable, largest_batch: LARGEST_BATCH, seed: None, first_index: 0 }
    }

    /// Sets the maximum number of bytes of each variable field in one batch.
    #[must_use]
    pub fn with_largest_batch(self, bytes: usize) -> Self {
        Self { largest_batch: bytes, ..self }
    }

    /// Makes samples random: each gets the key that belongs to `seed`, the epoch, and its index
    /// ([`SampleWriter::key`](crate::SampleWriter::key)).
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Derives keys as if the first sample had the index `first_index` of a larger dataset.
    #[must_use]
    pub(crate) fn with_first_index(self, first_index: usize) -> Self {
        Self { first_index, ..self }
    }
}

impl Fetch for FetchSamples {
    fn fetch(&self, batch: &IndexBatch) -> Result<Batch> {
        let schema = self.dataset.schema();
        let sizes = match self.is_variable {
            true => sizes_of_samples(&*self.dataset, &batch.indices)?,
            false => Sizes::fixed(batch.indices.len()),
        };
        if self.is_variable {
            check_bytes(schema, &sizes, &batch.indices, self.largest_batch)?;
        }
        let layout = self.collate.layout(schema, &sizes)?;
        check_padding(&layout, &sizes, &batch.indices, self.largest_batch)?;
        let mut lease = self.slab.lease_for_batch(layout.bytes)?;
        if self.is_variable {
            layout.write_sizes(&sizes, lease.bytes_mut());
        }
        let mut into = BatchWriter::new(lease.bytes_mut(), &layout.columns, layout.samples);
        match (&batch.draws, self.seed.filter(|_| self.dataset.is_random())) {
            (None, None) => read_samples(&*self.dataset, &batch.indices, &mut into)?,
            (Some(places), _) => read_samples(&*self.dataset, &batch.indices, &mut into.with_places(places))?,
            (None, Some(seed)) => {
                let key = |&index: &usize| sample_key(seed, batch.epoch, (self.first_index + index) as u64);
                let keys: Vec<u64> = batch.indices.iter().map(key).collect();
                read_samples(&*self.dataset, &batch.indices, &mut into.with_keys(&keys))?;
            }
        }
        if !layout.padding.is_empty() {
            layout.pad(lease.bytes_mut());
        }
        Ok(Batch::new(layout, lease))
    }

    fn blocks(&self) -> Option<&dyn Blocks> {
        self.dataset.as_blocks()
    }
}

/// Reads a batch in the fastest way that `dataset` supports. A panic becomes an error that names the sample.
fn read_samples(dataset: &dyn Dataset, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
    if let Some(dataset_at_once) = dataset.as_read_many() {
        let outcome = catch(|| dataset_at_once.read_many(indices, into));
        return outcome.map_err(|error| {
            // When samples were read together, it is unknown which of them panicked.
            find_panic(error, indices, |row, index| dataset.read(index, &mut into.sample(row)))
        });
    }
    let reading = Cell::new(None);
    let outcome = catch(|| {
        indices.iter().enumerate().try_for_each(|(row, &index)| {
            watch::advance(0)?;
            reading.set(Some(index));
            dataset.read(index, &mut into.sample(row))
        })
    });
    outcome.map_err(|error| match error {
        Error::Panic { index: None, message } => Error::Panic { index: reading.get(), message },
        other => other,
    })
}

/// Like `sizes_of`; a panic becomes an error that names the sample.
fn sizes_of_samples(dataset: &dyn Dataset, indices: &[usize]) -> Result<Sizes> {
    catch(|| sizes_of(dataset, indices))
        .map_err(|error| find_panic(error, indices, |_, index| sizes_of(dataset, &[index]).map(drop)))
}

/// Adds the index of the first sample that panics with the same message when it is read alone, by row and index.
fn find_panic(error: Error, indices: &[usize], mut read: impl FnMut(usize, usize) -> Result<()>) -> Error {
    let Error::Panic { index: None, message } = error else { return error };
    let mut panics = |row: usize| match catch(|| read(row, indices[row])) {
        Err(Error::Panic { message: again, .. }) => again == message,
        _ => false,
    };
    let index = (0..indices.len()).find(|&row| panics(row)).map(|row| indices[row]);
    Error::Panic { index, message }
}

/// Fails if a padded field of a batch has more than `largest` bytes: one long sample makes all of them long.
fn check_padding(layout: &BatchLayout, sizes: &Sizes, indices: &[usize], largest: usize) -> Result<()> {
    for (number, column) in layout.columns.iter().enumerate() {
        let Column::Padded { bytes_per_sample, .. } = *column else { continue };
        let bytes = bytes_per_sample.saturating_mul(layout.samples);
        if bytes <= largest {
            continue;
        }
        let elements = sizes.elements(number).unwrap_or_default();
        let row = (0..elements.len()).max_by_key(|&row| elements[row]).unwrap_or_default();
        let reason = format!(
            "padded to {bytes_per_sample} bytes each, the batch of {} samples has {bytes} bytes, but at most {largest} \
             are allowed; lower batch_size, sort by length (LengthBucketBatchSampler), or leave the samples unpadded",
            layout.samples
        );
        let field = layout.fields[number].name.clone();
        return Err(Error::Sample { index: indices[row], field, reason });
    }
    Ok(())
}

/// Fails if the samples of a variable field have more than `largest` bytes in a batch.
fn check_bytes(schema: &Schema, sizes: &Sizes, indices: &[usize], largest: usize) -> Result<()> {
    for (number, field) in schema.fields().iter().enumerate() {
        let Some(elements) = sizes.elements(number) else { continue };
        let Some((row, &longest)) = elements.iter().enumerate().max_by_key(|(_, elements)| **elements) else {
            continue;
        };
        let bytes = longest.saturating_mul(field.bytes());
        let all = elements.iter().fold(0_usize, |all, &elements| all.saturating_add(elements));
        if bytes > largest || all.saturating_mul(field.bytes()) > largest {
            let reason = format!(
                "it has {bytes} bytes, the largest of a batch of {} samples, which may have {largest} in total; lower \
                 batch_size; if the size is wrong, the file or its index is damaged",
                indices.len()
            );
            return Err(Error::Sample { index: indices[row], field: field.name().to_owned(), reason });
        }
    }
    Ok(())
}
