//! [`StreamBatches`]: the batches of one pass over an [`IterableDataset`].

use std::iter::FusedIterator;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::shuffled_stream::ShuffledStream;
use crate::error::catch;
use crate::memory::Slab;
use crate::pipeline::ReadAhead;
use crate::sampler::check_positive;
use crate::state::{ShuffledOrder, ShuffledPlace};
use crate::{
    Batch, BufferBound, Collate, Error, IterableDataset, LastBatch, Result, StackSamples, StreamPart, StreamPosition,
    StreamState,
};

/// Default number of bytes to read ahead: 16 MiB.
const BYTES_AHEAD: usize = 16 << 20;
/// Number of slots kept for reuse: the batch in use, and the batch being made.
const FREE_SLOTS: usize = 2;
/// Maximum duration of one wait for a sample; nothing is reported when it elapses.
const PATIENCE: Duration = Duration::from_secs(60);

/// The batches of one pass over an [`IterableDataset`], which a separate thread reads ahead. The thread starts when the
/// first batch is requested. Dropping this tells the thread to stop, and waits up to 10 seconds for it. An error ends
/// the pass. Settings that are changed too late also end it, with [`Error::InvalidArgument`]: call `part`, `start_at`,
/// `shuffle`, and `bytes_ahead` before the first batch.
///
/// # Example
/// ```
/// use sluicegate::{StreamBatches, StreamDataset, StreamFormat, StreamSource, StreamState};
///
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 5".into())], StreamFormat::json_lines(None));
/// let mut batches = StreamBatches::new(lines.clone(), 2)?;
/// assert_eq!(batches.next().expect("five samples")?.sample(0, 1), b"2");
/// let state: StreamState = batches.state().expect("nothing has failed");
/// let rest = StreamBatches::new(lines, 2)?.resume(&state)?;
/// assert_eq!(rest.map(|batch| batch.map(|batch| batch.samples())).collect::<Result<Vec<_>, _>>()?, [2, 1]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct StreamBatches {
    dataset: Arc<dyn IterableDataset>,
    part: StreamPart,
    position: StreamPosition,
    pub(super) batch_size: usize,
    last_batch: LastBatch,
    collate: Arc<dyn Collate>,
    bytes_ahead: usize,
    shuffle: Option<(BufferBound, u64, u64)>,
    /// Where to resume; None once the pass has begun.
    resumed: Option<StreamState>,
    slab: Slab,
    pass: Pass,
    /// The setting that was changed after the pass had begun.
    late: Option<&'static str>,
}

enum Pass {
    Before,
    Begun(Box<ReadAhead>, Option<Box<ShuffledStream>>),
    /// With the skip messages that were not requested yet, and the consumer's position, if it is known.
    Over(Vec<String>, Option<StreamState>),
}

impl StreamBatches {
    /// Returns batches of `batch_size` samples of `dataset`, in stream order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `batch_size` is 0.
    pub fn new(dataset: impl IterableDataset + 'static, batch_size: usize) -> Result<Self> {
        check_positive("batch_size", batch_size)?;
        Ok(Self {
            dataset: Arc::new(dataset),
            part: StreamPart::WHOLE,
            position: StreamPosition::default(),
            batch_size,
            last_batch: LastBatch::default(),
            collate: Arc::new(StackSamples),
            bytes_ahead: BYTES_AHEAD,
            shuffle: None,
            resumed: None,
            slab: Slab::new(FREE_SLOTS),
            pass: Pass::Before,
            late: None,
        })
    }

    /// Restricts the pass to the samples of this part. Default: all.
    #[must_use]
    pub fn part(self, part: StreamPart) -> Self {
        self.configure("part", |batches| batches.part = part)
    }

    /// Starts at `position` instead of at a saved state. Default: the beginning.
    #[must_use]
    pub fn start_at(self, position: StreamPosition) -> Self {
        self.configure("position", |batches| {
            batches.position = position;
            batches.resumed = None;
        })
    }

    /// Sets how to treat a smaller last batch. Default: yield it.
    #[must_use]
    pub fn last_batch(self, last_batch: LastBatch) -> Self {
        Self { last_batch, ..self }
    }

    /// Sets how samples become a batch. Default: [`StackSamples`].
    #[must_use]
    pub fn collate(self, collate: Arc<dyn Collate>) -> Self {
        Self { collate, ..self }
    }

    /// Sets approximately how many bytes to read ahead. Default: 16 MiB.
    #[must_use]
    pub fn bytes_ahead(self, bytes: usize) -> Self {
        self.configure("bytes_ahead", |batches| batches.bytes_ahead = bytes)
    }

    /// Passes samples through a buffer of `bound`: once it is full, each sample that is read takes the place of one
    /// that is drawn at random, a pure function of `seed`, `epoch`, and this part's rank and worker. An error of the
    /// stream ends the pass, and the samples held at that point are lost.
    #[must_use]
    pub fn shuffle(self, bound: BufferBound, seed: u64, epoch: u64) -> Self {
        self.configure("shuffle", |batches| batches.shuffle = Some((bound, seed, epoch)))
    }

    /// Resumes where `state` was saved by a pass over the same part of the same stream, with the same shuffling: set
    /// those first. The batch size may differ. A shuffled pass rereads the stream from the oldest sample that it held,
    /// or from up to 1,023 samples before it, and reports damage in that range again.
    ///
    /// # Errors
    /// [`Error::State`] if the state was saved by a pass over a different part or in a different order, if this pass
    /// has begun, or if the stream can be read only once. The first batch is that error if files of the stream have
    /// become shorter than the part that was read, or if `part` or `shuffle` are changed afterwards. Other changes to
    /// the files are not detected.
    pub fn resume(self, state: &StreamState) -> Result<Self> {
        if !matches!(self.pass, Pass::Before) {
            let reason = "the pass has already begun, and can't resume; make a new one".to_owned();
            return Err(Error::State { reason });
        }
        if !self.dataset.is_repeatable() {
            let reason = "the stream can be read only once, so it can't return to its position".to_owned();
            return Err(Error::State { reason });
        }
        state.check(&self.part, self.order())?;
        Ok(Self { position: state.position(), resumed: Some(state.clone()), ..self })
    }

    /// Returns the consumer's position: after the batches that it received, and after the stream's end if it got there.
    /// Returns None if the stream can be read only once, and after an error of a shuffled pass, because samples that
    /// were drawn are lost.
    #[must_use]
    pub fn state(&self) -> Option<StreamState> {
        if !self.dataset.is_repeatable() {
            return None;
        }
        let (position, shuffled) = match &self.pass {
            Pass::Before => match &self.resumed {
                Some(state) => return Some(state.clone()),
                None => (self.position, self.order().map(nothing_read)),
            },
            Pass::Begun(_, Some(shuffled)) => {
                let (position, place) = shuffled.place();
                (position, Some(place))
            }
            Pass::Begun(_, None) => (self.position, None),
            Pass::Over(_, state) => return state.clone(),
        };
        Some(StreamState::new(self.part.clone(), position, shuffled))
    }

    /// Returns the stream's position after the batches received, and after its end if it got there. Returns None if
    /// samples are shuffled, because no position describes which of them were received.
    #[must_use]
    pub fn position(&self) -> Option<StreamPosition> {
        self.shuffle.is_none().then_some(self.position)
    }

    /// Returns one line for each item skipped since the last call. Skipped items may be ahead of the batches received,
    /// in a block of up to 1,024 samples, so a pass that resumes from a state may report some of them again.
    pub fn left_out(&mut self) -> Vec<String> {
        match &mut self.pass {
            Pass::Begun(ahead, _) => ahead.left_out(),
            Pass::Over(lines, _) => mem::take(lines),
            Pass::Before => Vec::new(),
        }
    }

    fn configure(mut self, argument: &'static str, set: impl FnOnce(&mut Self)) -> Self {
        match self.pass {
            Pass::Before => set(&mut self),
            _ => self.late = Some(argument),
        }
        self
    }

    fn order(&self) -> Option<ShuffledOrder> {
        self.shuffle.map(|(bound, seed, epoch)| ShuffledOrder { bound, seed, epoch })
    }

    fn begin(&mut self) -> Result<()> {
        self.part.check()?;
        if let Some(state) = &self.resumed {
            state.check(&self.part, self.order())?;
        }
        let mut ahead = ReadAhead::new(Arc::clone(&self.dataset), self.part.clone(), self.position, self.bytes_ahead);
        let place = self.resumed.as_ref().and_then(StreamState::shuffled);
        let shuffled = match (place, self.order()) {
            (Some(place), _) => {
                ShuffledStream::resume(place, &self.part, self.position, &mut ahead, PATIENCE).map(Some)
            }
            (None, order) => Ok(order.map(|order| ShuffledStream::new(order, &self.part, 0, self.position))),
        };
        self.pass = match shuffled {
            Ok(shuffled) => Pass::Begun(Box::new(ahead), shuffled.map(Box::new)),
            Err(error) => {
                self.pass = Pass::Over(ahead.left_out(), self.state());
                return Err(error);
            }
        };
        self.resumed = None;
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Batch>> {
        if let Some(argument) = self.late.take() {
            return Err(Error::invalid(argument, "the pass has already begun; set it before the first batch"));
        }
        if matches!(self.pass, Pass::Before) {
            self.begin()?;
        }
        let Pass::Begun(ahead, shuffled) = &mut self.pass else { return Ok(None) };
        let samples = loop {
            let available = match shuffled.as_deref_mut() {
                Some(shuffled) => shuffled.draw(ahead, self.batch_size, PATIENCE)?,
                None => ahead.wait(self.batch_size, PATIENCE)?.map(|available| available.min(self.batch_size)),
            };
            if let Some(available) = available {
                break available;
            }
        };
        if samples == 0 || (samples < self.batch_size && self.last_batch == LastBatch::Drop) {
            let mut end = self.position;
            while let Some((block, row)) = ahead.next() {
                end = block.position(row);
                ahead.take(1);
            }
            // Samples before an error are yielded first; none are left here. Without an error, everything skipped is
            // before the end.
            ahead.wait(1, Duration::ZERO)?;
            self.position = end;
            return Ok(None);
        }
        if let Some(shuffled) = shuffled.as_deref_mut() {
            return catch(|| shuffled.batch(ahead, &*self.collate, &self.slab)).map(Some);
        }
        let (batch, positions) = catch(|| ahead.batch(samples, &*self.collate, &self.slab))?;
        ahead.take(samples);
        self.position = positions.last().copied().unwrap_or(self.position);
        Ok(Some(batch))
    }
}

/// Returns the place before the first sample.
fn nothing_read(order: ShuffledOrder) -> ShuffledPlace {
    ShuffledPlace { order, since: 0, read: 0, held: Vec::new(), has_ended: false }
}

impl Iterator for StreamBatches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let outcome = self.advance().transpose();
        if !matches!(outcome, Some(Ok(_))) && !matches!(self.pass, Pass::Over(..)) {
            // Some samples that a shuffled pass has drawn since its last batch were never yielded.
            let is_lost = outcome.is_some() && matches!(self.pass, Pass::Begun(_, Some(_)));
            let state = self.state().filter(|_| !is_lost);
            self.pass = Pass::Over(self.left_out(), state);
        }
        outcome
    }
}

impl FusedIterator for StreamBatches {}
