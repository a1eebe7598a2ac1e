//! [`StreamBatches`]: the batches of one pass over an [`IterableDataset`].

use std::iter::FusedIterator;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::Slab;
use crate::sampler::check_batch_size;
use crate::{
    Batch, BufferBound, Collate, IterableDataset, LastBatch, ReadAhead, Result, ShuffleBuffer, ShuffledSamples,
    StackSamples, StreamPart, StreamPosition,
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
/// use sluicegate::{StreamBatches, StreamDataset, StreamFormat, StreamPosition, StreamSource};
///
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 5".into())], StreamFormat::JsonLines(None));
/// let mut batches = StreamBatches::new(lines.clone(), 2)?;
/// assert_eq!(batches.next().expect("five samples")?.sample(0, 1), b"2");
/// let position: StreamPosition = batches.position().expect("they are not shuffled");
/// let rest = StreamBatches::new(lines, 2)?.start_at(position);
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
    slab: Slab,
    pass: Pass,
}

enum Pass {
    Before,
    Begun(Box<ReadAhead>, Option<Box<(ShuffleBuffer, ShuffledSamples)>>),
    /// With the lines of damage that nobody has asked for yet.
    Over(Vec<String>),
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

    /// Samples come through a buffer of `bound`, as a [`ShuffleBuffer`] of (`seed`, `epoch`) and this part's rank and worker
    /// draws them. A pass that is to be resumed keeps [`ShuffledSamples`] itself.
    #[must_use]
    pub fn shuffle(self, bound: BufferBound, seed: u64, epoch: u64) -> Self {
        Self { shuffle: Some((bound, seed, epoch)), ..self }
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
            Pass::Over(lines) => mem::take(lines),
            Pass::Before => Vec::new(),
        }
    }

    fn advance(&mut self) -> Result<Option<Batch>> {
        if matches!(self.pass, Pass::Before) {
            let dataset = Arc::clone(&self.dataset);
            let ahead = ReadAhead::new(dataset, self.part.clone(), self.position, self.bytes_ahead);
            let shuffled = self.shuffle.map(|(bound, seed, epoch)| {
                let buffer = ShuffleBuffer::new(bound, seed, epoch, self.part.split.rank, self.part.worker);
                // Nobody asks for the places that it passes.
                Box::new((buffer, ShuffledSamples::new(0, self.position, u64::MAX, u64::MAX)))
            });
            self.pass = Pass::Begun(Box::new(ahead), shuffled);
        }
        let Pass::Begun(ahead, shuffled) = &mut self.pass else { return Ok(None) };
        let samples = loop {
            let there = match shuffled.as_deref_mut() {
                Some((buffer, samples)) => samples.draw(ahead, buffer, self.batch_size, PATIENCE)?,
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
        if let Some((_, samples)) = shuffled.as_deref_mut() {
            let (batch, _) = samples.batch(ahead.schema(), &*self.collate, &self.slab)?;
            return Ok(Some(batch));
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
            self.pass = Pass::Over(self.left_out());
        }
        outcome
    }
}

impl FusedIterator for StreamBatches {}
