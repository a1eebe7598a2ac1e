//! The samplers that know classes or lengths.

use std::num::NonZeroUsize;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sluicegate::internal::{PackedBatchSampler, Packing};
use sluicegate::{
    BalancedBatchSampler, BatchLimit, ClassSampler, LastBatch, LengthBucketBatchSampler, Shuffling,
    StratifiedBatchSampler,
};

use super::class_index::ClassIndex;
use super::detach::detach_long;
use super::error::{to_python, unknown};
use super::integers::Integers;
use super::memory::ForeignArray;
use super::order::{BatchingSampler, Sampler};

fn shuffling(seed: Option<u64>) -> Shuffling {
    seed.map_or(Shuffling::Off, Shuffling::Seeded)
}

fn last_batch(drop_last: bool) -> LastBatch {
    if drop_last { LastBatch::Drop } else { LastBatch::Keep }
}

fn batching(
    py: Python<'_>,
    sampler: sluicegate::Result<impl sluicegate::BatchingSampler + 'static>,
) -> PyResult<BatchingSampler> {
    sampler.map(|sampler| BatchingSampler(Arc::new(sampler))).map_err(|error| to_python(py, error))
}

/// Returns the samples of `classes` (positions in the list of classes); without a seed, class by class in that order.
#[pyfunction]
#[pyo3(signature = (index, classes, seed))]
pub(super) fn class_sampler(
    py: Python<'_>,
    index: &ClassIndex,
    classes: Vec<usize>,
    seed: Option<u64>,
) -> PyResult<Sampler> {
    let sampler = ClassSampler::new(Arc::clone(&index.0), classes, shuffling(seed));
    sampler.map(|sampler| Sampler(Arc::new(sampler))).map_err(|error| to_python(py, error))
}

/// Returns batches of equally many samples of some classes; `num_batches` per epoch (default: all full batches).
#[pyfunction]
#[pyo3(signature = (index, classes_per_batch, samples_per_class, num_batches, seed))]
pub(super) fn balanced_batch_sampler(
    py: Python<'_>,
    index: &ClassIndex,
    classes_per_batch: usize,
    samples_per_class: usize,
    num_batches: Option<NonZeroUsize>,
    seed: u64,
) -> PyResult<BatchingSampler> {
    let index = Arc::clone(&index.0);
    batching(py, BalancedBatchSampler::new(index, classes_per_batch, samples_per_class, num_batches, seed))
}

/// Returns batches with the class proportions of the dataset.
#[pyfunction]
pub(super) fn stratified_batch_sampler(
    py: Python<'_>,
    index: &ClassIndex,
    batch_size: usize,
    drop_last: bool,
    seed: u64,
) -> PyResult<BatchingSampler> {
    batching(py, StratifiedBatchSampler::new(Arc::clone(&index.0), batch_size, last_batch(drop_last), seed))
}

/// Returns batches of samples of similar length, limited by samples or by tokens; without a seed, longest first.
#[pyfunction]
#[pyo3(signature = (lengths, batch_size, max_tokens, window, drop_last, seed, balance))]
#[expect(clippy::too_many_arguments, reason = "those of the sampler")]
pub(super) fn length_bucket_batch_sampler(
    py: Python<'_>,
    lengths: ForeignArray,
    batch_size: Option<usize>,
    max_tokens: Option<usize>,
    window: usize,
    drop_last: bool,
    seed: Option<u64>,
    balance: usize,
) -> PyResult<BatchingSampler> {
    let limit = match (batch_size, max_tokens) {
        (Some(samples), None) => BatchLimit::Samples(samples),
        (None, Some(tokens)) => BatchLimit::Tokens(tokens),
        _ => return Err(PyValueError::new_err("batch_size and max_tokens: pass exactly one of them")),
    };
    let mut lengths = Integers::new("lengths", lengths).map_err(|error| to_python(py, error))?;
    let len = lengths.len();
    let sampler = detach_long(py, "preparing a sampler", || {
        let read = |start: usize, into: &mut [i64]| lengths.read(start, into);
        let (last_batch, shuffling) = (last_batch(drop_last), shuffling(seed));
        LengthBucketBatchSampler::read(len, read, limit, window, last_batch, shuffling)?.balanced(balance)
    })?;
    Ok(BatchingSampler(Arc::new(sampler)))
}

/// Returns batches of rows of `length` tokens, into which documents are packed; an index encodes a piece.
#[pyfunction]
#[pyo3(signature = (lengths, length, rows_per_batch, strategy, window, drop_last, seed))]
#[expect(clippy::too_many_arguments, reason = "those of the sampler")]
pub(super) fn packed_batch_sampler(
    py: Python<'_>,
    lengths: ForeignArray,
    length: usize,
    rows_per_batch: usize,
    strategy: &str,
    window: usize,
    drop_last: bool,
    seed: Option<u64>,
) -> PyResult<BatchingSampler> {
    let packing = match strategy {
        "concat" => Packing::Concat,
        "first_fit" => Packing::FirstFit,
        "best_fit" => Packing::BestFit,
        other => return Err(to_python(py, unknown("strategy", other))),
    };
    let mut lengths = Integers::new("lengths", lengths).map_err(|error| to_python(py, error))?;
    let len = lengths.len();
    let sampler = detach_long(py, "preparing a sampler", || {
        let read = |start: usize, into: &mut [i64]| lengths.read(start, into);
        let (last_batch, shuffling) = (last_batch(drop_last), shuffling(seed));
        PackedBatchSampler::read(len, read, length, rows_per_batch, packing, window, last_batch, shuffling)
    })?;
    Ok(BatchingSampler(Arc::new(sampler)))
}
