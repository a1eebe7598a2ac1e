//! `Prefetch`: one epoch's window of batches.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use sluicegate::internal::{
    Fetch, FetchPacked, FetchPackedFields, FetchSamples, GeneratorPlace, IndexBatch, PackRows, PackedField,
    PackedLabels, Slab, watch, with_helpers,
};
use sluicegate::{Delivery, Error, Sizes, TokenDocuments};

use super::convert::plain_indices;
use super::dataset::Dataset;
use super::detach::{detach, detach_long, detach_step};
use super::engine::Engine;
use super::error::to_python;
use super::field_kind::Samples;
use super::format::tokens::TokenFiles;
use super::generators::sample_draws::SampleDraws;
use super::hand_over::HandOver;
use super::integers::Integers;
use super::memory::{ForeignArray, Indices, pinned_leases};
use super::plan::Plan;
use super::positions::Positions;

/// How long the consumer sleeps between two checks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

type PieceCheck = Box<dyn Fn(&[usize]) -> bool + Send + Sync>;

/// Adds some indices of the batch with this number to a vector.
type Look = fn(usize, &mut Vec<usize>);

/// Number of document lengths to read at a time.
const LENGTHS_AT_ONCE: usize = 8192;

/// Stands in for a plan if later requests are not known in advance.
const NOBODY_KNOWS: Option<(usize, Look)> = None;

/// Batches that were requested and not taken yet. For one consumer; a second thread waits for its turn.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Prefetch {
    window: Mutex<sluicegate::internal::Prefetch<'static>>,
    positions: Positions,
    /// For packed rows: returns true if indices encode pieces that form rows.
    packed: Option<PieceCheck>,
    hand_over: Py<HandOver>,
    /// The dataset that indices refer to, if there is one.
    dataset: Option<Arc<dyn sluicegate::Dataset>>,
    /// The epoch of the batches that are requested.
    epoch: AtomicU64,
    /// What their samples draw from.
    draws: Mutex<Option<SampleDraws>>,
    slab: Arc<Slab>,
    bytes_ahead: Arc<sluicegate::internal::BytesAhead>,
    /// Number of threads that help the consumer fetch a batch itself.
    helpers: AtomicUsize,
    /// For batches in pinned memory: the function that allocates blocks, and how many of them may wait for a batch.
    pinned: OnceLock<(Py<PyAny>, usize)>,
}

#[pymethods]
impl Prefetch {
    /// Returns a window over `dataset`, whose batches are converted by `hand_over`; random samples draw from `seed`.
    #[new]
    #[pyo3(signature = (engine, dataset, hand_over, in_order, seed=None))]
    fn new(
        py: Python<'_>,
        engine: &Engine,
        dataset: &Dataset,
        hand_over: Py<HandOver>,
        in_order: bool,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        let how = hand_over.bind(py).get();
        how.check(dataset.0.schema())?;
        let fetch = FetchSamples::new(Arc::clone(&dataset.0), how.collate(), Arc::clone(&engine.slab));
        let fetch = match seed {
            Some(seed) => fetch.with_seed(seed),
            None => fetch,
        };
        let window = window(engine, Arc::new(fetch), in_order);
        let dataset = Arc::clone(&dataset.0);
        Ok(Self {
            window,
            positions: Positions::of(&*dataset),
            packed: None,
            hand_over,
            dataset: Some(dataset),
            epoch: AtomicU64::new(0),
            draws: Mutex::default(),
            helpers: AtomicUsize::new(0),
            slab: Arc::clone(&engine.slab),
            bytes_ahead: Arc::clone(&engine.bytes_ahead),
            pinned: OnceLock::new(),
        })
    }

    /// Sets the epoch of the batches that are requested next, which determines what is random about a sample.
    fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Makes the samples that are requested next draw in sequence from the generators of torch and Python that can be
    /// accessed through these (see `SampleDraws`), if the dataset reports what they draw.
    #[pyo3(signature = (torch, python=None))]
    fn set_generators(&self, torch: Py<PyAny>, python: Option<Py<PyAny>>) {
        *self.draws.lock().unwrap_or_else(PoisonError::into_inner) = Some(SampleDraws::new(torch, python));
    }

    /// Lets up to `helpers` threads help the consumer with a batch that it fetches itself, if single samples take long.
    fn set_helpers(&self, helpers: usize) {
        self.helpers.store(helpers, Ordering::Relaxed);
    }

    /// Returns a window over rows of `length` tokens, into which the documents of `files` are packed; `indices` is the
    /// number of indices, each of which encodes a piece of a document.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "those of the window, and those of the collate function")]
    fn packed(
        engine: &Engine,
        files: &TokenFiles,
        indices: usize,
        length: usize,
        pad_token: i64,
        shift_labels: bool,
        hand_over: Py<HandOver>,
        in_order: bool,
    ) -> Self {
        let documents = Arc::new(TokenDocuments::new(Arc::clone(&files.0)));
        let collate = PackRows { length, pad_token, labels: packed_labels(shift_labels) };
        let fetch = Arc::new(FetchPacked::new(documents, collate, Arc::clone(&engine.slab)));
        let pieces = Arc::clone(&fetch);
        let check: PieceCheck = Box::new(move |indices| pieces.pieces(indices).is_ok());
        Self::of_pieces(engine, fetch, check, indices, hand_over, in_order)
    }

    /// Like `packed`, for documents that are samples of `dataset` and have these `lengths`. `tokens`, `labels`, and
    /// `fields` are positions of fields, the last with the bytes that pad them.
    #[staticmethod]
    #[pyo3(signature = (engine, dataset, lengths, tokens, labels, fields, *, indices, length, pad_token, shift_labels,
        hand_over, in_order))]
    #[expect(clippy::too_many_arguments, reason = "those of the window, and those of the collate function")]
    fn packed_fields(
        py: Python<'_>,
        engine: &Engine,
        dataset: &Dataset,
        lengths: ForeignArray,
        tokens: usize,
        labels: Option<usize>,
        fields: Vec<(usize, Vec<u8>)>,
        indices: usize,
        length: usize,
        pad_token: i64,
        shift_labels: bool,
        hand_over: Py<HandOver>,
        in_order: bool,
    ) -> PyResult<Self> {
        let lengths = Integers::new("lengths", lengths).map_err(|error| to_python(py, error))?;
        let collate = PackRows { length, pad_token, labels: packed_labels(shift_labels) };
        let fields = fields.into_iter().map(|(field, padding)| PackedField { field, padding }).collect();
        let fetch = detach_long(py, "preparing an epoch", || {
            let lengths = lengths_of_documents(lengths)?;
            let fetch = FetchPackedFields::new(Arc::clone(&dataset.0), lengths, collate, Arc::clone(&engine.slab))?;
            let fetch = fetch.with_tokens(tokens)?.with_fields(fields)?;
            match labels {
                Some(labels) => fetch.with_labels(labels),
                None => Ok(fetch),
            }
        })?;
        let fetch = Arc::new(fetch);
        let pieces = Arc::clone(&fetch);
        let check: PieceCheck = Box::new(move |indices| pieces.pieces(indices).is_ok());
        Ok(Self::of_pieces(engine, fetch, check, indices, hand_over, in_order))
    }

    /// Puts requested batches into pinned blocks from `allocate`; up to `most` blocks wait for batches.
    fn pin(&self, allocate: Py<PyAny>, most: usize) {
        // Only the first call counts; another allocator would be no better.
        let _ = self.pinned.set((allocate, most));
    }

    /// Requests the samples at `indices`, as batch `number` of the epoch. Returns false, as other `push` methods do,
    /// and requests nothing if one is not a plain `int` in range, or if they are pieces that form no rows.
    fn push(&self, py: Python<'_>, number: u64, indices: &Bound<'_, PyList>) -> PyResult<bool> {
        self.push_indices(py, number, plain_indices(indices, self.positions), NOBODY_KNOWS)
    }

    /// Requests the samples at `indices[start:stop]`. Returns false and requests nothing if one is out of range.
    fn push_slice(&self, py: Python<'_>, number: u64, indices: &Indices, start: usize, stop: usize) -> PyResult<bool> {
        self.push_indices(py, number, indices.places(start, stop, self.positions), NOBODY_KNOWS)
    }

    /// Requests the samples from `start` to `stop`. Returns false and requests nothing if there are not that many.
    fn push_range(&self, py: Python<'_>, number: u64, start: usize, stop: usize) -> PyResult<bool> {
        let size = stop.saturating_sub(start).max(1);
        // The next ranges are expected to follow this one.
        let look = |batch: usize, into: &mut Vec<usize>| {
            let (first, step) = (batch.saturating_mul(size), size.div_ceil(8));
            into.extend((first..self.positions.len.min(first.saturating_add(size))).step_by(step));
        };
        self.push_indices(
            py,
            number,
            (stop <= self.positions.len).then(|| (start..stop).collect()),
            Some((start / size, look)),
        )
    }

    /// Requests batch `batch` of `plan`. Returns false and requests nothing if one of its indices is out of range.
    fn push_planned(&self, py: Python<'_>, number: u64, plan: &Plan, batch: usize) -> PyResult<bool> {
        let (_, indices) = plan.planned(py, batch)?;
        let is_in_range = indices.iter().all(|&index| index < self.positions.len);
        let look = |batch: usize, into: &mut Vec<usize>| plan.peek_indices(batch, into);
        self.push_indices(py, number, is_in_range.then_some(indices), Some((batch, look)))
    }

    /// Returns the number of batches requested and not taken.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        detach(py, || Ok(self.window().len()))
    }

    /// Waits for the next batch. Returns the entry for its number, which it removes from `under_way`, and the batch, or
    /// an exception in its place if it could not be fetched. Returns None if nothing was requested, or if `timeout`
    /// seconds pass first (default: no limit).
    #[pyo3(signature = (under_way, timeout=None))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        under_way: &Bound<'py, PyDict>,
        timeout: Option<f64>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        // A time that the clock cannot represent means no limit.
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let helpers = self.helpers.load(Ordering::Relaxed);
        loop {
            let left = deadline.map_or(SIGNAL_INTERVAL, |deadline| deadline.saturating_duration_since(Instant::now()));
            let patience = left.min(SIGNAL_INTERVAL);
            let (long, popped, is_empty) = detach(py, || {
                let mut window = self.window();
                Ok(match window.take_long() {
                    Some(long) => (Some(long), None, false),
                    None => (None, with_helpers(helpers, || window.pop(patience)), window.is_empty()),
                })
            })?;
            let popped = match long {
                // Without locking the window: a signal handler may request a batch, too.
                Some(long) => Some(detach_step(py, || Ok(with_helpers(helpers, || long.fetch())))?),
                None => popped,
            };
            if let Some((indices, batch)) = popped {
                let entry = under_way.call_method1("pop", (indices.batch_in_epoch, py.None()))?;
                let batch = batch.map_err(|error| to_python(py, error));
                let of = Samples { indices: &indices.indices, dataset: self.dataset.as_deref() };
                return match batch.and_then(|batch| self.hand_over.get().batch(py, of, batch)) {
                    Ok(batch) => Ok(Some((entry, batch))),
                    // Other than an `Exception` (Ctrl-C was pressed while the batch was made): it belongs to no batch.
                    Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
                    Err(error) => Ok(Some((entry, error.into_value(py).into_bound(py).into_any()))),
                };
            }
            if is_empty || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
            py.check_signals()?;
        }
    }
}

impl Prefetch {
    fn of_pieces(
        engine: &Engine,
        fetch: Arc<dyn Fetch>,
        check: PieceCheck,
        len: usize,
        hand_over: Py<HandOver>,
        in_order: bool,
    ) -> Self {
        Self {
            window: window(engine, fetch, in_order),
            positions: Positions::new(len),
            packed: Some(check),
            hand_over,
            dataset: None,
            epoch: AtomicU64::new(0),
            draws: Mutex::default(),
            helpers: AtomicUsize::new(0),
            slab: Arc::clone(&engine.slab),
            bytes_ahead: Arc::clone(&engine.bytes_ahead),
            pinned: OnceLock::new(),
        }
    }

    /// Locks the window when it is this thread's turn. To be called without the GIL: the wait may be long.
    fn window(&self) -> MutexGuard<'_, sluicegate::internal::Prefetch<'static>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the block for a batch of this many samples; None while it is unknown.
    fn block_bytes(&self, py: Python<'_>, samples: usize) -> Option<usize> {
        if let Some(dataset) = self.dataset.as_ref().filter(|dataset| !dataset.schema().is_variable()) {
            let collate = self.hand_over.bind(py).get().collate();
            return collate.layout(dataset.schema(), &Sizes::fixed(samples)).ok().map(|layout| layout.bytes);
        }
        // Torch's allocator rounds up to a power of two anyway. A batch larger than all before it is copied once more.
        let largest = self.bytes_ahead.largest();
        (largest > 0).then(|| largest.checked_next_power_of_two())?
    }

    /// Follows the draws of the samples at `indices` in sequence; returns None if they draw nothing, or from a seed.
    ///
    /// # Errors
    /// If the data that they depend on could not be read; nothing was drawn.
    fn draw(&self, py: Python<'_>, indices: &[usize]) -> PyResult<Option<Arc<[GeneratorPlace]>>> {
        let Some(drawing) = self.dataset.as_deref().and_then(sluicegate::Dataset::as_drawing) else { return Ok(None) };
        let draws = self.draws.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|each| each.clone_ref(py));
        draws.map(|draws| draws.follow(py, drawing, indices)).transpose()
    }

    /// Requests the samples at `indices`. `plan` has the position of this batch in the plan, and a function that
    /// returns some indices of later ones: see [`look_ahead`](sluicegate::internal::Prefetch::look_ahead).
    fn push_indices(
        &self,
        py: Python<'_>,
        number: u64,
        indices: Option<Vec<usize>>,
        plan: Option<(usize, impl FnMut(usize, &mut Vec<usize>) + Send)>,
    ) -> PyResult<bool> {
        let Some(indices) = indices else { return Ok(false) };
        // Python raises the error for pieces that form no rows.
        if self.packed.as_ref().is_some_and(|make_rows| !make_rows(&indices)) {
            return Ok(false);
        }
        if let Some((allocate, most)) = self.pinned.get()
            && let Some(bytes) = self.block_bytes(py, indices.len())
        {
            if self.slab.offered() >= *most {
                // Blocks for batches that have failed, or that were smaller, would otherwise wait forever.
                self.slab.withdraw_smaller(bytes);
            }
            if self.slab.offered() < *most {
                // It does not matter which batch gets it: the threads take any block with enough room.
                pinned_leases(allocate.bind(py), vec![bytes])?.into_iter().for_each(|block| self.slab.offer(block));
            }
        }
        let draws = match self.draw(py, &indices) {
            Ok(draws) => draws,
            // Python then draws, and fails, as it does without the core.
            Err(error) if error.is_instance_of::<PyException>(py) => return Ok(false),
            Err(error) => return Err(error),
        };
        let batch = IndexBatch { epoch: self.epoch.load(Ordering::Relaxed), batch_in_epoch: number, indices, draws };
        detach(py, || {
            let mut window = self.window();
            window.push(batch)?;
            if let Some((batch, look)) = plan {
                window.look_ahead(batch, look);
            }
            Ok(())
        })?;
        Ok(true)
    }
}

fn window(engine: &Engine, fetch: Arc<dyn Fetch>, in_order: bool) -> Mutex<sluicegate::internal::Prefetch<'static>> {
    let delivery = if in_order { Delivery::InOrder } else { Delivery::AsCompleted };
    let window = sluicegate::internal::Prefetch::new(fetch, engine.pool.clone(), delivery);
    Mutex::new(window.with_bytes_ahead(Arc::clone(&engine.bytes_ahead)))
}

fn packed_labels(shift_labels: bool) -> PackedLabels {
    if shift_labels { PackedLabels::Shifted } else { PackedLabels::Same }
}

/// Returns the number of tokens of each document.
fn lengths_of_documents(mut lengths: Integers) -> sluicegate::Result<Vec<u32>> {
    let mut found = Vec::with_capacity(lengths.len());
    let mut block = [0; LENGTHS_AT_ONCE];
    for start in (0..lengths.len()).step_by(LENGTHS_AT_ONCE) {
        watch::advance(0)?;
        let block = &mut block[..LENGTHS_AT_ONCE.min(lengths.len() - start)];
        lengths.read(start, block)?;
        for &length in &*block {
            found.push(u32::try_from(length).map_err(|_| Error::InvalidArgument {
                argument: "lengths",
                reason: format!("document {} has an invalid number of tokens, {length}", found.len()),
            })?);
        }
    }
    Ok(found)
}
