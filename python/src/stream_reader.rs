//! `StreamReader`: one pass over one part of a stream.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyList;
use sluicegate::internal::{ConsumedSamples, ReadAhead, ShuffledSamples, Slab, StreamSplit};
use sluicegate::{StreamPart, StreamPosition};

use super::detach::detach;
use super::field_kind::Samples;
use super::format::typed_field::content_of;
use super::hand_over::HandOver;
use super::shuffle_buffer::ShuffleBuffer;
use super::stream::Stream;
use super::stream_pass::StreamPass;

/// How long the consumer sleeps between two checks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// After a longer wait, signals are handled before samples are taken: a handler that raises would lose them.
const SIGNAL_MARGIN: Duration = Duration::from_millis(1);

/// Slots kept for the next samples or batches.
const FREE_SLOTS: usize = 4;

/// One pass over one part of a stream, read ahead on a thread. For one consumer; a second thread waits for its turn.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct StreamReader {
    ahead: Mutex<ReadAhead>,
    /// The samples in the shuffle buffer, if there is one.
    shuffled: Mutex<ShuffledSamples>,
    slab: Slab,
    batch_bytes: AtomicUsize,
}

/// (ordinal, source, ordinal of its first sample, offset).
type PositionForm = (u64, u64, u64, u64);

/// (samples read, position).
type MarkForm = (u64, PositionForm);

/// (num_workers, run, for each worker the ordinal below which all was read, the ordinals below it that were held).
type ConsumedForm = (u64, u64, Vec<u64>, Vec<u64>);

fn form(position: &StreamPosition) -> PositionForm {
    (position.ordinal, position.source, position.first_of_source, position.offset)
}

#[pymethods]
impl StreamReader {
    /// Returns a reader of one worker's part, (rank, world_size, worker, num_workers, run), after `position`, except
    /// samples `consumed` under other splits. With `shared`, one thread reads for all workers.
    #[new]
    #[pyo3(signature = (stream, part, consumed, position, bytes_ahead, shared=None))]
    fn new(
        stream: &Stream,
        part: (u64, u64, u64, u64, u64),
        consumed: Vec<ConsumedForm>,
        position: PositionForm,
        bytes_ahead: usize,
        shared: Option<&StreamPass>,
    ) -> Self {
        let (rank, world_size, worker, num_workers, run) = part;
        let (ordinal, source, first_of_source, offset) = position;
        let from = StreamPosition { ordinal, source, first_of_source, offset };
        let split = StreamSplit { rank, world_size, num_workers, run };
        let consumed = consumed.into_iter().map(|(num_workers, run, until, held)| ConsumedSamples {
            split: StreamSplit { num_workers, run, ..split },
            until,
            held,
        });
        let part = StreamPart { split, worker, consumed: consumed.collect() };
        let dataset = stream.core();
        let ahead = match shared {
            Some(pass) => ReadAhead::shared(dataset, part, from, bytes_ahead, pass.core()),
            None => ReadAhead::new(dataset, part, from, bytes_ahead),
        };
        let (ahead, shuffled) = (Mutex::new(ahead), Mutex::new(ShuffledSamples::new(0, from, 1, u64::MAX)));
        Self { ahead, shuffled, slab: Slab::new(FREE_SLOTS), batch_bytes: AtomicUsize::new(0) }
    }

    /// Waits for the first sample or the end; returns the fields of the samples as (name, dtype, content).
    fn begin(&self, py: Python<'_>) -> PyResult<Vec<(String, &'static str, &'static str)>> {
        self.wait(py, 1)?;
        detach(py, || {
            let ahead = self.ahead();
            let fields = ahead.fields().iter();
            Ok(fields
                .map(|typed| (typed.field().name().to_owned(), typed.field().dtype().name(), content_of(typed)))
                .collect())
        })
    }

    /// True if the next `samples` samples, or the end, have arrived. Waits up to `seconds` for them.
    fn has(&self, py: Python<'_>, samples: usize, seconds: f64) -> PyResult<bool> {
        if let Ok(mut ahead) = self.ahead.try_lock()
            && ahead.has(samples, Duration::ZERO)
        {
            return Ok(true);
        }
        let deadline = Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.waiting(py, || {
            let limit = deadline.saturating_duration_since(Instant::now()).min(SIGNAL_INTERVAL);
            let has = self.ahead().has(samples, limit);
            Ok((has || limit.is_zero()).then_some(has))
        })
    }

    /// Waits for a sample; returns up to `most` of the next ones, and the position after each. Returns none at the end.
    fn samples<'py>(
        &self,
        py: Python<'py>,
        hand_over: &HandOver,
        most: usize,
    ) -> PyResult<(Bound<'py, PyList>, Vec<PositionForm>)> {
        let mut samples = self.wait(py, 1)?.min(most);
        if samples == 0 {
            return Ok((PyList::empty(py), Vec::new()));
        }
        loop {
            let (batch, positions) = self.batch_of(py, hand_over, samples)?;
            let ordinals: Vec<usize> = positions.iter().map(ordinal).collect();
            match hand_over.samples(py, Samples { indices: &ordinals, dataset: None }, batch) {
                // One of them can't be converted, but those before it can.
                Err(_) if samples > 1 => samples = 1,
                list => {
                    self.take(py, samples)?;
                    return Ok((list?, positions.iter().map(form).collect()));
                }
            }
        }
    }

    /// Returns the batch of the next `samples` samples (fewer at the end), how many there are, and the position after
    /// them; None at the end.
    fn batch<'py>(
        &self,
        py: Python<'py>,
        hand_over: &HandOver,
        samples: usize,
    ) -> PyResult<Option<(Bound<'py, PyAny>, usize, PositionForm)>> {
        let collate = hand_over.collate();
        // Releases the GIL only once, because getting it back from busy threads is expensive.
        let (schema, batch, positions) = self.waiting(py, || {
            let mut ahead = self.ahead();
            let start = Instant::now();
            let Some(available) = ahead.wait(samples, SIGNAL_INTERVAL)? else { return Ok(None) };
            if start.elapsed() > SIGNAL_MARGIN {
                return Ok(None);
            }
            let (batch, positions) = ahead.batch(available.min(samples), &*collate, &self.slab)?;
            ahead.take(positions.len());
            Ok(Some((ahead.schema().clone(), batch, positions)))
        })?;
        let Some(last) = positions.last() else { return Ok(None) };
        hand_over.check(&schema)?;
        self.batch_bytes.store(batch.slot_bytes(), Ordering::Relaxed);
        let ordinals: Vec<usize> = positions.iter().map(ordinal).collect();
        let of = Samples { indices: &ordinals, dataset: None };
        Ok(Some((hand_over.batch(py, of, batch)?, ordinals.len(), form(last))))
    }

    /// Passes later samples through a shuffle buffer, for which `read` were read before this: see `ShuffledSamples`.
    fn shuffle(&self, py: Python<'_>, read: u64, position: PositionForm, every: u64, next_mark: u64) -> PyResult<()> {
        let (ordinal, source, first_of_source, offset) = position;
        let position = StreamPosition { ordinal, source, first_of_source, offset };
        detach(py, || {
            *self.shuffled() = ShuffledSamples::new(read, position, every, next_mark);
            Ok(())
        })
    }

    /// Restores the buffer that held `held` of the first `read` samples; returns false if the stream has fewer.
    fn read_again(&self, py: Python<'_>, read: u64, held: Vec<u64>, has_ended: bool) -> PyResult<bool> {
        self.waiting(py, || {
            let (mut shuffled, mut ahead) = (self.shuffled(), self.ahead());
            let found = shuffled.read_again(&mut ahead, read, &held, SIGNAL_INTERVAL)?;
            if found == Some(true) && has_ended {
                shuffled.see_end();
            }
            Ok(found)
        })
    }

    /// Returns the batch of the next `samples` samples that `buffer` draws (fewer at the end), and how many there are;
    /// None at the end.
    fn shuffled_batch<'py>(
        &self,
        py: Python<'py>,
        hand_over: &HandOver,
        buffer: &mut ShuffleBuffer,
        samples: usize,
    ) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
        let (buffer, collate) = (buffer.core(), hand_over.collate());
        let (schema, (batch, ordinals)) = self.waiting(py, || {
            let (mut shuffled, mut ahead) = (self.shuffled(), self.ahead());
            let start = Instant::now();
            let drawn = shuffled.draw(&mut ahead, buffer, samples, SIGNAL_INTERVAL)?;
            if start.elapsed() > SIGNAL_MARGIN {
                return Ok(None);
            }
            let schema = ahead.schema().clone();
            drawn.map(|_| Ok((schema.clone(), shuffled.batch(&schema, &*collate, &self.slab)?))).transpose()
        })?;
        if ordinals.is_empty() {
            return Ok(None);
        }
        hand_over.check(&schema)?;
        self.batch_bytes.store(batch.slot_bytes(), Ordering::Relaxed);
        let of = Samples { indices: &ordinals, dataset: None };
        Ok(Some((hand_over.batch(py, of, batch)?, ordinals.len())))
    }

    /// Returns how many samples the buffer has read, the stream position after them, true if the stream has ended, and
    /// the marks passed since the last call.
    fn shuffled_place(&self, py: Python<'_>) -> PyResult<(u64, PositionForm, bool, Vec<MarkForm>)> {
        let place = |mut shuffled: MutexGuard<'_, ShuffledSamples>| {
            let marks = shuffled.marks().iter().map(|(read, position)| (*read, form(position))).collect();
            let (read, position, has_ended) = shuffled.place();
            Ok((read, form(&position), has_ended, marks))
        };
        match self.shuffled.try_lock() {
            Ok(shuffled) => place(shuffled),
            Err(_) => detach(py, || Ok(place(self.shuffled())))?,
        }
    }

    /// Returns one line for each item skipped since the last call.
    fn left_out(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        match self.ahead.try_lock() {
            Ok(mut ahead) => Ok(ahead.left_out()),
            Err(_) => detach(py, || Ok(self.ahead().left_out())),
        }
    }

    /// Returns the size of the last batch in bytes.
    #[getter]
    fn batch_bytes(&self) -> usize {
        self.batch_bytes.load(Ordering::Relaxed)
    }
}

/// Returns the ordinal of the sample before a position.
fn ordinal(position: &StreamPosition) -> usize {
    usize::try_from(position.ordinal.saturating_sub(1)).unwrap_or(usize::MAX)
}

impl StreamReader {
    /// Locks the pass when it is this thread's turn. To be called without the GIL: the wait may be long.
    fn ahead(&self) -> MutexGuard<'_, ReadAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the samples in the shuffle buffer. This lock is taken before that of the pass.
    fn shuffled(&self) -> MutexGuard<'_, ShuffledSamples> {
        self.shuffled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `ask` without the GIL until it returns a value; handles signals in between.
    fn waiting<T: Send>(
        &self,
        py: Python<'_>,
        mut ask: impl FnMut() -> sluicegate::Result<Option<T>> + Send,
    ) -> PyResult<T> {
        loop {
            if let Some(found) = detach(py, &mut ask)? {
                return Ok(found);
            }
            py.check_signals()?;
        }
    }

    /// Waits for this many samples, or the end; returns how many are available.
    fn wait(&self, py: Python<'_>, samples: usize) -> PyResult<usize> {
        self.waiting(py, || self.ahead().wait(samples, SIGNAL_INTERVAL))
    }

    fn take(&self, py: Python<'_>, samples: usize) -> PyResult<()> {
        detach(py, || {
            self.ahead().take(samples);
            Ok(())
        })
    }

    fn batch_of(
        &self,
        py: Python<'_>,
        hand_over: &HandOver,
        samples: usize,
    ) -> PyResult<(sluicegate::Batch, Vec<StreamPosition>)> {
        let collate = hand_over.collate();
        let (batch, schema) = detach(py, || {
            let ahead = self.ahead();
            Ok((ahead.batch(samples, &*collate, &self.slab)?, ahead.schema().clone()))
        })?;
        hand_over.check(&schema)?;
        Ok(batch)
    }
}
