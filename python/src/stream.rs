//! `Stream`: samples that are read from front to back, and `StreamReader`, one pass over them.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyList;
use sluicegate::internal::{Damages, ReadAhead, ShuffledSamples, Slab, StreamPacking};
use sluicegate::{
    ConsumedSamples, CsvHeader, Error, Features, Field, IterableDataset, RawField, StreamDataset, StreamFormat,
    StreamPart, StreamPosition, StreamSource, StreamSplit, TarEnd,
};

use super::detach::detach;
use super::error::{to_python, unknown};
use super::field_kind::Samples;
use super::format::tar::{on_missing_of, tar_fields};
use super::format::typed_field::{TypedForm, content_of, typed_fields};
use super::hand_over::HandOver;
use super::memory::descriptors;
use super::shuffle_buffer::ShuffleBuffer;

/// How long the consumer sleeps before it looks whether Ctrl-C was pressed.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// So many slots are kept for the next samples or batches.
const FREE_SLOTS: usize = 4;

/// (kind, path or command or name, descriptor): the kinds are "path", "command" and "open".
type SourceForm = (String, OsString, Option<RawFd>);

/// (unpack by content, leave out what is damaged, the most bytes of a sample, whether commands may be run).
type OptionsForm = (bool, bool, u64, bool);

/// A dataset of the core without an index. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Stream(Arc<StreamDataset>);

impl Stream {
    fn make(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        (by_content, leave_out, largest, may_run_commands): OptionsForm,
        format: sluicegate::Result<StreamFormat>,
    ) -> PyResult<Self> {
        let source = |(kind, text, number): SourceForm| match (kind.as_str(), number) {
            ("path", _) => Ok(StreamSource::Path(PathBuf::from(text))),
            ("open", Some(number)) => {
                let name = text.to_string_lossy().into_owned();
                let file = descriptors(&[number])[0].try_clone_to_owned();
                let file = file.map_err(|source| Error::Io { path: PathBuf::from(&text), source })?;
                Ok(StreamSource::Open(Arc::new(file), name))
            }
            ("command", _) => Ok(StreamSource::Command(text.to_string_lossy().into_owned())),
            // Whatever it is, it is not run by a shell.
            _ => Err(unknown("sources", &kind)),
        };
        let sources = sources.into_iter().map(source).collect::<sluicegate::Result<Vec<_>>>();
        let stream = sources.and_then(|sources| {
            let packing = if by_content { StreamPacking::ByContent } else { StreamPacking::None };
            let damages = if leave_out { Damages::LeaveOut } else { Damages::Refuse };
            let stream = StreamDataset::new(sources, format?);
            let stream = stream.packed(packing).on_damage(damages).with_largest_sample(largest);
            let stream = if may_run_commands { stream } else { stream.without_commands() };
            stream.check()?;
            Ok(Self(Arc::new(stream)))
        });
        stream.map_err(|error| to_python(py, error))
    }
}

#[pymethods]
impl Stream {
    /// Archives: (extension, what its bytes are), or all that the first sample has, as bytes. `on_missing` is "error", "skip"
    /// or "none".
    #[staticmethod]
    fn tar(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        fields: Option<Vec<(String, String)>>,
        on_missing: &str,
        concatenated: bool,
    ) -> PyResult<Self> {
        let on_missing = on_missing_of(on_missing).map_err(|error| to_python(py, error))?;
        let end = if concatenated { TarEnd::FileEnd } else { TarEnd::ZeroBlock };
        let format = fields.map_or(Ok(None), |fields| tar_fields(fields).map(Some)).and_then(|fields| {
            let first = tar_fields(Vec::new())?;
            let fields = fields.map(|fields| fields.into_iter().skip(first.len()).collect());
            Ok(StreamFormat::Tar { fields, first, on_missing, end })
        });
        Self::make(py, sources, options, format)
    }

    /// Lines, whole, or their fields.
    #[staticmethod]
    fn json_lines(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        fields: Option<Vec<TypedForm>>,
    ) -> PyResult<Self> {
        Self::make(py, sources, options, fields.map(typed_fields).transpose().map(StreamFormat::JsonLines))
    }

    /// Samples of TFRecords: their bytes, their features, or those that the first ones have.
    #[staticmethod]
    fn tfrecord(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        is_raw: bool,
        features: Option<Vec<TypedForm>>,
    ) -> PyResult<Self> {
        let features = match features {
            _ if is_raw => Ok(Features::Raw),
            Some(forms) => typed_fields(forms).map(Features::Typed),
            None => Ok(Features::Inferred),
        };
        Self::make(py, sources, options, features.map(StreamFormat::TfRecord))
    }

    /// Rows: the columns that `fields` describe, or all, with `defaults` (name, text) for empty cells.
    #[staticmethod]
    fn csv(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        fields: Option<Vec<TypedForm>>,
        defaults: Vec<(String, String)>,
        has_header: bool,
        delimiter: u8,
    ) -> PyResult<Self> {
        let header = if has_header { CsvHeader::FirstRow } else { CsvHeader::None };
        let format = fields.map(typed_fields).transpose();
        let format = format.map(|fields| StreamFormat::Csv { fields, defaults, header, delimiter });
        Self::make(py, sources, options, format)
    }

    /// Samples of `sample_bytes` bytes: (name, dtype, shape, offset, is swapped) by field.
    #[staticmethod]
    fn raw(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        header_bytes: usize,
        sample_bytes: usize,
        fields: Vec<(String, String, Vec<usize>, usize, bool)>,
    ) -> PyResult<Self> {
        let fields = fields.into_iter().map(|(name, dtype, shape, offset, is_swapped)| {
            let field = RawField::new(Field::new(name, dtype.parse()?, shape), offset);
            Ok(if is_swapped { field.swapped() } else { field })
        });
        let fields = fields.collect::<sluicegate::Result<Vec<_>>>();
        Self::make(py, sources, options, fields.map(|fields| StreamFormat::Raw { header_bytes, sample_bytes, fields }))
    }

    /// True if a second pass, or another process, finds the same samples.
    #[getter]
    fn is_repeatable(&self) -> bool {
        self.0.is_repeatable()
    }
}

/// One pass over one part of a stream, read ahead on a thread. For one consumer; a second thread waits for its turn.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct StreamReader {
    ahead: Mutex<ReadAhead>,
    /// What a shuffle buffer holds, when the samples go through one.
    shuffled: Mutex<ShuffledSamples>,
    slab: Slab,
}

/// (ordinal, source, ordinal of its first sample, offset).
type PositionForm = (u64, u64, u64, u64);

/// (samples read, position).
type MarkForm = (u64, PositionForm);

/// (num_workers, run, by worker the ordinal below which all was read, those below it that were held).
type ConsumedForm = (u64, u64, Vec<u64>, Vec<u64>);

fn form(position: &StreamPosition) -> PositionForm {
    (position.ordinal, position.source, position.first_of_source, position.offset)
}

#[pymethods]
impl StreamReader {
    /// The part of one worker, (rank, world_size, worker, num_workers, run), behind `position`; without what was `consumed`
    /// under other splits.
    #[new]
    fn new(
        stream: &Stream,
        part: (u64, u64, u64, u64, u64),
        consumed: Vec<ConsumedForm>,
        position: PositionForm,
        bytes_ahead: usize,
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
        let dataset = Arc::clone(&stream.0) as Arc<dyn IterableDataset>;
        let ahead = ReadAhead::new(dataset, part, from, bytes_ahead);
        let shuffled = Mutex::new(ShuffledSamples::new(0, from, 1, u64::MAX));
        Self { ahead: Mutex::new(ahead), shuffled, slab: Slab::new(FREE_SLOTS) }
    }

    /// The fields of the samples, as (name, dtype, what it holds), when the first sample has come, or the end.
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

    /// Up to `most` of the next samples, waiting for one; and the position behind each. No samples at the end.
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
                // One of them can't be had: those before it can.
                Err(_) if samples > 1 => samples = 1,
                list => {
                    self.take(py, samples)?;
                    return Ok((list?, positions.iter().map(form).collect()));
                }
            }
        }
    }

    /// The batch of the next `samples` samples, or of fewer at the end; and how many, and the position behind them. None
    /// when there is none.
    fn batch<'py>(
        &self,
        py: Python<'py>,
        hand_over: &HandOver,
        samples: usize,
    ) -> PyResult<Option<(Bound<'py, PyAny>, usize, PositionForm)>> {
        let samples = self.wait(py, samples)?.min(samples);
        if samples == 0 {
            return Ok(None);
        }
        let (batch, positions) = self.batch_of(py, hand_over, samples)?;
        let Some(last) = positions.last() else { return Ok(None) };
        self.take(py, samples)?;
        let ordinals: Vec<usize> = positions.iter().map(ordinal).collect();
        let of = Samples { indices: &ordinals, dataset: None };
        Ok(Some((hand_over.batch(py, of, batch)?, samples, form(last))))
    }

    /// From now on the samples go through a shuffle buffer, of which `read` were read by now: see `ShuffledSamples`.
    fn shuffle(&self, py: Python<'_>, read: u64, position: PositionForm, every: u64, next_mark: u64) -> PyResult<()> {
        let (ordinal, source, first_of_source, offset) = position;
        let position = StreamPosition { ordinal, source, first_of_source, offset };
        detach(py, || {
            *self.shuffled() = ShuffledSamples::new(read, position, every, next_mark);
            Ok(())
        })
    }

    /// Brings the buffer to where `held` of the first `read` samples were held; false when there are not so many.
    fn read_again(&self, py: Python<'_>, read: u64, held: Vec<u64>, has_ended: bool) -> PyResult<bool> {
        loop {
            let found = detach(py, || {
                let (mut shuffled, mut ahead) = (self.shuffled(), self.ahead());
                let found = shuffled.read_again(&mut ahead, read, &held, SIGNAL_INTERVAL)?;
                if found == Some(true) && has_ended {
                    shuffled.see_end();
                }
                Ok(found)
            })?;
            match found {
                Some(found) => return Ok(found),
                None => py.check_signals()?,
            }
        }
    }

    /// The batch of the next `samples` samples that `buffer` draws, or of fewer at the end, and how many it has. None when
    /// there is none.
    fn shuffled_batch<'py>(
        &self,
        py: Python<'py>,
        hand_over: &HandOver,
        buffer: &mut ShuffleBuffer,
        samples: usize,
    ) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
        let buffer = buffer.core();
        let drawn = loop {
            let drawn = detach(py, || self.shuffled().draw(&mut self.ahead(), buffer, samples, SIGNAL_INTERVAL))?;
            if let Some(drawn) = drawn {
                break drawn;
            }
            py.check_signals()?;
        };
        if drawn == 0 {
            return Ok(None);
        }
        let collate = hand_over.collate();
        let (schema, (batch, ordinals)) = detach(py, || {
            let (mut shuffled, ahead) = (self.shuffled(), self.ahead());
            Ok((ahead.schema().clone(), shuffled.batch(ahead.schema(), &*collate, &self.slab)?))
        })?;
        hand_over.check(&schema)?;
        Ok(Some((hand_over.batch(py, Samples { indices: &ordinals, dataset: None }, batch)?, drawn)))
    }

    /// How many samples the buffer has read, where the stream is behind them, whether it has ended; and the places that were
    /// passed since this was asked last.
    fn shuffled_place(&self, py: Python<'_>) -> PyResult<(u64, PositionForm, bool, Vec<MarkForm>)> {
        detach(py, || {
            let mut shuffled = self.shuffled();
            let marks = shuffled.marks().iter().map(|(read, position)| (*read, form(position))).collect();
            let (read, position, has_ended) = shuffled.place();
            Ok((read, form(&position), has_ended, marks))
        })
    }

    /// What was left out since this was asked last, a line for each.
    fn left_out(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detach(py, || Ok(self.ahead().left_out()))
    }
}

/// Which sample a position lies behind.
fn ordinal(position: &StreamPosition) -> usize {
    usize::try_from(position.ordinal.saturating_sub(1)).unwrap_or(usize::MAX)
}

impl StreamReader {
    /// The pass, when it is this thread's turn. To be called without the GIL: the turn may be a long wait.
    fn ahead(&self) -> MutexGuard<'_, ReadAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the shuffle buffer holds. Its lock is taken before that of the pass.
    fn shuffled(&self) -> MutexGuard<'_, ShuffledSamples> {
        self.shuffled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this many samples, or the end; returns how many there are.
    fn wait(&self, py: Python<'_>, samples: usize) -> PyResult<usize> {
        loop {
            if let Some(there) = detach(py, || self.ahead().wait(samples, SIGNAL_INTERVAL))? {
                return Ok(there);
            }
            py.check_signals()?;
        }
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
