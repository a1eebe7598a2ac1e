//! [`StreamBatches`]: the batches of one pass over an [`IterableDataset`].

use std::iter::FusedIterator;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::shuffled_stream::ShuffledStream;
use crate::memory::Slab;
use crate::sampler::check_batch_size;
use crate::state::{ShuffledOrder, ShuffledPlace};
use crate::{
    Batch, BufferBound, Collate, IterableDataset, LastBatch, ReadAhead, Result, StackSamples, StreamPart,
    StreamPosition, StreamState,
};

/// So many bytes are read ahead, unless the caller says otherwise: 16 MiB.
const BYTES_AHEAD: usize = 16 << 20;
/// So many slots are kept for reuse: the batch in use, and the one that is made.
const FREE_SLOTS: usize = 2;
/// Nobody is told anything while a sample is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The batches of one pass over an [`IterableDataset`], which is read ahead on a thread of its own. The thread begins with
/// the first batch that is asked for; dropping this has it end, and waits for that for 10 seconds at most. An error ends the pass.
///
/// # Example
/// ```
/// use sluicegate::{StreamBatches, StreamDataset, StreamFormat, StreamSource, StreamState};
///
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 5".into())], StreamFormat::JsonLines(None));
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
    batch_size: usize,
    last_batch: LastBatch,
    collate: Arc<dyn Collate>,
    bytes_ahead: usize,
    shuffle: Option<(BufferBound, u64, u64)>,
    /// What is to be held when it begins.
    resumed: Option<ShuffledPlace>,
    slab: Slab,
    pass: Pass,
}

enum Pass {
    Before,
    Begun(Box<ReadAhead>, Option<Box<ShuffledStream>>),
    /// With the lines of damage that nobody has asked for yet, and where the consumer is, if anybody knows.
    Over(Vec<String>, Option<StreamState>),
}

impl StreamBatches {
    /// Batches of `batch_size` samples of `dataset`, in its order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when `batch_size` is 0.
    pub fn new(dataset: impl IterableDataset + 'static, batch_size: usize) -> Result<Self> {
        check_batch_size(batch_size)?;
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
        })
    }

    /// Of the samples of this part only. Default: all.
    #[must_use]
    pub fn part(self, part: StreamPart) -> Self {
        Self { part, ..self }
    }

    /// Goes on behind what led to `position`. Default: from the beginning.
    #[must_use]
    pub fn start_at(self, position: StreamPosition) -> Self {
        Self { position, ..self }
    }

    /// What becomes of a last batch that is smaller. Default: it comes.
    #[must_use]
    pub fn last_batch(self, last_batch: LastBatch) -> Self {
        Self { last_batch, ..self }
    }

    /// How samples become a batch. Default: [`StackSamples`].
    #[must_use]
    pub fn collate(self, collate: Arc<dyn Collate>) -> Self {
        Self { collate, ..self }
    }

    /// About so many bytes are read ahead. Default: 16 MiB.
    #[must_use]
    pub fn bytes_ahead(self, bytes: usize) -> Self {
        Self { bytes_ahead: bytes, ..self }
    }

    /// Samples come through a buffer of `bound`, as a [`ShuffleBuffer`](crate::ShuffleBuffer) of (`seed`, `epoch`) and this part's
    /// rank and worker draws them.
    #[must_use]
    pub fn shuffle(self, bound: BufferBound, seed: u64, epoch: u64) -> Self {
        Self { shuffle: Some((bound, seed, epoch)), ..self }
    }

    /// Goes on where `state` was saved, by a pass over the same part of the same stream, shuffled as this one: give those first.
    /// The batches may have another size. A shuffled pass reads what it held again, and no more than that lies between.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) when it was shuffled in another way. The first batch is that error where the stream
    /// has become shorter.
    pub fn resume(self, state: &StreamState) -> Result<Self> {
        let resumed = state.go_on(self.order())?;
        Ok(Self { position: state.position(), resumed, ..self })
    }

    /// Where the consumer is, behind the batches that came; nothing after an error of a shuffled pass, where samples that were
    /// drawn are lost.
    #[must_use]
    pub fn state(&self) -> Option<StreamState> {
        match &self.pass {
            Pass::Before => Some(StreamState::new(self.position, self.place())),
            Pass::Begun(_, Some(shuffled)) => Some(shuffled.state()),
            Pass::Begun(_, None) => Some(StreamState::new(self.position, None)),
            Pass::Over(_, state) => state.clone(),
        }
    }

    /// Where the stream is behind the batches that came; nothing where they are shuffled, and no place says which did.
    #[must_use]
    pub fn position(&self) -> Option<StreamPosition> {
        self.shuffle.is_none().then_some(self.position)
    }

    /// What was left out of what has come since this was asked last, a line for each damage.
    pub fn left_out(&mut self) -> Vec<String> {
        match &mut self.pass {
            Pass::Begun(ahead, _) => ahead.left_out(),
            Pass::Over(lines, _) => mem::take(lines),
            Pass::Before => Vec::new(),
        }
    }

    fn order(&self) -> Option<ShuffledOrder> {
        let (rank, worker) = (self.part.split.rank, self.part.worker);
        self.shuffle.map(|(bound, seed, epoch)| ShuffledOrder { bound, seed, epoch, rank, worker })
    }

    /// What is held before the first batch.
    fn place(&self) -> Option<ShuffledPlace> {
        let nothing = |order| ShuffledPlace { order, since: 0, read: 0, held: Vec::new(), has_ended: false };
        self.resumed.clone().or_else(|| self.order().map(nothing))
    }

    fn begin(&self) -> Result<Pass> {
        let mut ahead = ReadAhead::new(Arc::clone(&self.dataset), self.part.clone(), self.position, self.bytes_ahead);
        let shuffled = match (&self.resumed, self.order()) {
            (Some(place), _) => Some(ShuffledStream::resume(place, self.position, &mut ahead, PATIENCE)?),
            (None, order) => order.map(|order| ShuffledStream::new(order, self.position)),
        };
        Ok(Pass::Begun(Box::new(ahead), shuffled.map(Box::new)))
    }

    fn advance(&mut self) -> Result<Option<Batch>> {
        if matches!(self.pass, Pass::Before) {
            self.pass = self.begin()?;
        }
        let Pass::Begun(ahead, shuffled) = &mut self.pass else { return Ok(None) };
        let samples = loop {
            let there = match shuffled.as_deref_mut() {
                Some(shuffled) => shuffled.draw(ahead, self.batch_size, PATIENCE)?,
                None => ahead.wait(self.batch_size, PATIENCE)?.map(|there| there.min(self.batch_size)),
            };
            if let Some(there) = there {
                break there;
            }
        };
        if samples == 0 || (samples < self.batch_size && self.last_batch == LastBatch::Drop) {
            // What came before an error comes first; here is nothing left that could.
            ahead.take(samples);
            ahead.wait(1, Duration::ZERO)?;
            return Ok(None);
        }
        if let Some(shuffled) = shuffled.as_deref_mut() {
            return Ok(Some(shuffled.batch(ahead, &*self.collate, &self.slab)?));
        }
        let (batch, positions) = ahead.batch(samples, &*self.collate, &self.slab)?;
        ahead.take(samples);
        self.position = positions.last().copied().unwrap_or(self.position);
        Ok(Some(batch))
    }
}

impl Iterator for StreamBatches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let outcome = self.advance().transpose();
        if !matches!(outcome, Some(Ok(_))) {
            // Some of what a shuffled pass has drawn since its last batch came to nobody.
            let state = self.state().filter(|_| outcome.is_none() || self.shuffle.is_none());
            self.pass = Pass::Over(self.left_out(), state);
        }
        outcome
    }
}

impl FusedIterator for StreamBatches {}
