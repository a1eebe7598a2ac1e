//! Makes the core's samplers for Python.

use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::Array;
use sluicegate::{
    BatchSampler, BlockShuffleSampler, DType, DistributedSampler, Error, LastBatch, MixtureSampler, MixtureWeights,
    RandomSampler, RepeatSampler, SequentialSampler, Shard, StopCriteria, SubsetRandomSampler, WeightedRandomSampler,
};

use super::detach::detach_long;
use super::error::{to_python, unknown};
use super::integers::Integers;
use super::memory::ForeignArray;
use super::order::{BatchingSampler, Sampler};
use super::plan::remainder_of;

impl Sampler {
    fn of(sampler: impl sluicegate::Sampler + 'static) -> Self {
        Self(Arc::new(sampler))
    }

    fn wrap(py: Python<'_>, sampler: sluicegate::Result<impl sluicegate::Sampler + 'static>) -> PyResult<Self> {
        sampler.map(Self::of).map_err(|error| to_python(py, error))
    }
}

/// Returns a sampler of `len` indices in ascending order.
#[pyfunction]
pub(super) fn sequential_sampler(len: usize) -> Sampler {
    Sampler::of(SequentialSampler::new(len))
}

/// Returns a sampler of `num_samples` of `len` indices.
#[pyfunction]
pub(super) fn random_sampler(len: usize, seed: u64, replacement: bool, num_samples: usize) -> Sampler {
    let sampler = RandomSampler::new(len, seed).with_num_samples(num_samples);
    Sampler::of(if replacement { sampler.with_replacement() } else { sampler })
}

/// Returns a sampler of the indices in an int64 array.
#[pyfunction]
pub(super) fn subset_random_sampler(py: Python<'_>, indices: ForeignArray, seed: u64) -> PyResult<Sampler> {
    detach_long(py, "preparing a sampler", move || {
        let indices = numbers(indices, DType::Int64)?;
        let indices = indices.map(|number| {
            let number = i64::from_ne_bytes(number?);
            usize::try_from(number).map_err(|_| Error::InvalidArgument {
                argument: "indices",
                reason: format!("{number} is negative: in seed mode indices count from the start"),
            })
        });
        // Errors are kept separately: collecting into the sampler can't fail.
        let mut failed = None;
        let indices = indices.map_while(|index| index.map_err(|error| failed = Some(error)).ok());
        let sampler = SubsetRandomSampler::new(indices, seed);
        failed.map_or(Ok(Sampler::of(sampler)), Err)
    })
}

/// Returns a sampler that draws indices by an array of float64 weights.
#[pyfunction]
pub(super) fn weighted_random_sampler(
    py: Python<'_>,
    weights: ForeignArray,
    num_samples: usize,
    replacement: bool,
    seed: u64,
) -> PyResult<Sampler> {
    detach_long(py, "preparing a sampler", move || {
        let weights = numbers(weights, DType::Float64)?;
        let weights = weights.map(|number| number.map(f64::from_ne_bytes));
        let sampler = if replacement {
            WeightedRandomSampler::try_new(weights, num_samples, seed)
        } else {
            WeightedRandomSampler::try_without_replacement(weights, num_samples, seed)
        };
        sampler.map(Sampler::of)
    })
}

/// Returns the order of a sampler, in batches.
#[pyfunction]
pub(super) fn batch_sampler(
    py: Python<'_>,
    sampler: &Sampler,
    batch_size: usize,
    drop_last: bool,
) -> PyResult<BatchingSampler> {
    let last_batch = if drop_last { LastBatch::Drop } else { LastBatch::Keep };
    let batches = BatchSampler::new(Arc::clone(&sampler.0), batch_size, last_batch);
    batches.map(|batches| BatchingSampler(Arc::new(batches))).map_err(|error| to_python(py, error))
}

/// Returns the part of a sampler's order that one rank reads.
#[pyfunction]
pub(super) fn distributed_sampler(
    py: Python<'_>,
    sampler: &Sampler,
    rank: usize,
    world_size: usize,
    remainder: &str,
) -> PyResult<Sampler> {
    let remainder = remainder_of(remainder).map_err(|error| to_python(py, error))?;
    let shard = Shard::new(rank, world_size);
    Sampler::wrap(py, shard.map(|shard| DistributedSampler::new(Arc::clone(&sampler.0), shard, remainder)))
}

/// Returns a sampler of blocks in random order, shuffled within windows.
#[pyfunction]
pub(super) fn block_shuffle_sampler(
    py: Python<'_>,
    len: usize,
    block: usize,
    window: usize,
    seed: u64,
) -> PyResult<Sampler> {
    Sampler::wrap(py, BlockShuffleSampler::new(len, block, window, seed))
}

/// Returns a sampler of blocks with the sizes in an array of integers, in random order, shuffled within windows.
#[pyfunction]
pub(super) fn uneven_block_shuffle_sampler(
    py: Python<'_>,
    sizes: ForeignArray,
    window: usize,
    seed: u64,
) -> PyResult<Sampler> {
    let mut sizes = Integers::new("block", sizes).map_err(|error| to_python(py, error))?;
    detach_long(py, "preparing a sampler", || {
        let (mut read, len) = ([0; NUMBERS_AT_ONCE], sizes.len());
        let sizes = (0..len).map(|place| {
            let in_read = place % NUMBERS_AT_ONCE;
            if in_read == 0 {
                sizes.read(place, &mut read[..NUMBERS_AT_ONCE.min(len - place)])?;
            }
            usize::try_from(read[in_read]).map_err(|_| Error::InvalidArgument {
                argument: "block",
                reason: format!("block {place} has a negative size, {}", read[in_read]),
            })
        });
        BlockShuffleSampler::try_with_blocks(sizes, window, seed).map(Sampler::of)
    })
}

/// Returns the order of a sampler, `times` times.
#[pyfunction]
pub(super) fn repeat_sampler(
    sampler: &Sampler,
    times: usize,
    interleaved: bool,
    num_samples: Option<usize>,
) -> Sampler {
    let repeat = if interleaved { RepeatSampler::in_a_row } else { RepeatSampler::passes };
    let repeated = repeat(Arc::clone(&sampler.0), times);
    Sampler::of(match num_samples {
        Some(num_samples) => repeated.with_num_samples(num_samples),
        None => repeated,
    })
}

/// Returns a mixture of parts of these lengths; breakpoints are (position, one weight per part).
#[pyfunction]
pub(super) fn mixture_sampler(
    py: Python<'_>,
    lens: Vec<usize>,
    breakpoints: Vec<(usize, Vec<f64>)>,
    linear: bool,
    stop: &str,
    num_samples: Option<usize>,
    seed: u64,
) -> PyResult<Sampler> {
    let stop = match stop {
        "CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED" => StopCriteria::CycleUntilAllDatasetsExhausted,
        "ALL_DATASETS_EXHAUSTED" => StopCriteria::AllDatasetsExhausted,
        "FIRST_DATASET_EXHAUSTED" => StopCriteria::FirstDatasetExhausted,
        "CYCLE_FOREVER" => StopCriteria::CycleForever(num_samples.unwrap_or(usize::MAX)),
        other => return Err(to_python(py, unknown("stop", other))),
    };
    detach_long(py, "preparing a sampler", move || {
        let weights = if linear { MixtureWeights::linear(breakpoints) } else { MixtureWeights::stepped(breakpoints) };
        let sampler = MixtureSampler::new(&lens, &weights, stop, seed)?;
        Ok(Sampler::of(match num_samples {
            Some(num_samples) => sampler.with_num_samples(num_samples),
            None => sampler,
        }))
    })
}

/// How many numbers to copy from an array at a time.
const NUMBERS_AT_ONCE: usize = 8192;

/// Returns the numbers of a flat array of this type, of 8 bytes each. Only one block of them is copied at a time.
fn numbers(array: ForeignArray, dtype: DType) -> sluicegate::Result<Numbers> {
    let (field, array) = array.into_field()?;
    if field.dtype() != dtype || !field.shape().is_empty() || dtype.bytes() != size_of::<[u8; 8]>() {
        return Err(Error::InvalidArgument { argument: "array", reason: format!("a flat array of {}", dtype.name()) });
    }
    Ok(Numbers { array, next: 0, block: Vec::new(), in_block: 0 })
}

struct Numbers {
    array: Array,
    /// The row after those in `block`.
    next: usize,
    block: Vec<u8>,
    /// The offset in `block` of the byte that is read next.
    in_block: usize,
}

impl Iterator for Numbers {
    type Item = sluicegate::Result<[u8; 8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.in_block == self.block.len() {
            let rows: Vec<usize> = (self.next..self.array.len().min(self.next + NUMBERS_AT_ONCE)).collect();
            self.block.resize(rows.len() * 8, 0);
            (self.next, self.in_block) = (self.next + rows.len(), 0);
            let read = sluicegate::internal::watch::advance(0).and_then(|()| self.array.gather(&rows, &mut self.block));
            if let Err(error) = read {
                return Some(Err(error));
            }
        }
        let number = self.block[self.in_block..].first_chunk().copied()?;
        self.in_block += 8;
        Some(Ok(number))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.array.len() - self.next + (self.block.len() - self.in_block) / 8;
        (left, Some(left))
    }
}
