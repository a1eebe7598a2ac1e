//! [`Batches`]: the batches of one epoch, and the samples in each.

use std::iter::FusedIterator;
#[cfg(feature = "futures")]
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::catch;
use crate::pipeline::{IndexBatch, Party, Prefetch};
use crate::{Batch, EpochPlan, Error, LoaderState, PlannedBatch, Result};

/// The batches of one epoch: [`Batch`]es of fields, or the results of an [`ItemLoader`](crate::ItemLoader)'s collate. A
/// batch that could not be fetched yields an error in its place, and the next batch follows. If the order of the epoch
/// cannot be queried, or threads cannot be started, the error follows the batches that were already requested, and ends
/// the epoch.
///
/// Dropping it cancels fetches that have not started, and waits for those that are running: nothing reads the dataset
/// for it after that. When dropped on one of the fetching threads, it does not wait, because it may be running on top
/// of the fetch to wait for.
pub struct Batches<'scope, B = Batch> {
    /// The rest of the epoch.
    plan: EpochPlan,
    /// The number in the epoch of the plan's first batch.
    first: u64,
    window: Prefetch<'scope, B>,
    ahead: usize,
    /// None once the epoch is over, so that it no longer takes a share of the bound. Items have no bytes that could be
    /// counted.
    party: Option<Party>,
    /// The position in the plan of the next batch to request.
    next: usize,
    /// Number of batches still to come.
    pub(super) left: usize,
    pub(super) state: LoaderState,
    last_ids: Option<BatchIds>,
    /// The error that prevents more requests; it is returned after the batches that were already requested.
    failure: Option<Error>,
}

/// Identifies the samples of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchIds {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The number of the batch in the epoch for this rank, counted from 0.
    pub batch_in_epoch: u64,
    /// The position of its first sample in the global order of the epoch, or, if a
    /// [`BatchingSampler`](crate::BatchingSampler) makes the batches, the position of the batch among all batches.
    pub position: usize,
    /// The index of each sample, in batch order.
    pub indices: Vec<usize>,
    /// How many of the samples, counted from the first one, are part of the epoch. The others are padding
    /// ([`Remainder::Exact`](crate::Remainder::Exact)): counting only the valid samples of all ranks counts every
    /// sample once.
    pub valid: usize,
}

impl<'scope, B: Send + 'scope> Batches<'scope, B> {
    /// Returns the batches of `plan` from `state` on, fetched through `window`, with `ahead` of them in flight, or as
    /// many as `party` allows.
    pub(super) fn new(
        plan: EpochPlan,
        window: Prefetch<'scope, B>,
        (ahead, party): (usize, Option<Party>),
        state: LoaderState,
    ) -> Self {
        let first = state.first_missing();
        let end = first.saturating_add(plan.len() as u64);
        let left = plan.len() - state.received_between(first, end);
        Self { plan, first, window, ahead, party, next: 0, left, state, last_ids: None, failure: None }
    }

    /// Returns the consumer's current position.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }

    /// Returns how many samples of the epoch remained when this began, if that is known.
    #[cfg(feature = "burn")]
    pub(crate) fn samples(&self) -> Option<usize> {
        self.plan.samples()
    }

    /// Returns which samples are in the last batch, including one that could not be fetched; None before the first
    /// batch.
    #[must_use]
    pub fn last_ids(&self) -> Option<&BatchIds> {
        self.last_ids.as_ref()
    }

    /// Returns every batch together with the identification of its samples.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let dataset = Arc::new(InMemory::from_vec("x", (0..10_i64).collect(), [])?);
    /// let loader = DataLoader::builder(dataset).batch_size(4).shuffle(7).build()?;
    /// for batch in loader.epoch(0)?.with_ids() {
    ///     let (batch, ids) = batch?;
    ///     let values = batch.to_vec::<i64>(0)?;
    ///     assert!(ids.indices.iter().zip(values).all(|(&index, value)| index as i64 == value));
    /// }
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    #[must_use]
    pub fn with_ids(self) -> BatchesWithIds<'scope, B> {
        BatchesWithIds(self)
    }

    /// Requests as many batches as there is room for. If that fails, the epoch ends after the batches that were already
    /// requested, and its state remains valid.
    fn ask(&mut self) {
        if let Err(error) = self.try_ask() {
            self.next = self.plan.len();
            self.left = self.window.len() + 1;
            self.failure = Some(error);
        }
    }

    fn try_ask(&mut self) -> Result<()> {
        while self.next < self.plan.len() && self.window.len() < self.room() {
            let batch_in_epoch = self.first + self.next as u64;
            if !self.state.has_received(batch_in_epoch) {
                let mut indices = Vec::new();
                let order = catch(|| {
                    self.plan.batch(self.next, &mut indices);
                    Ok(())
                });
                order.map_err(|error| match error {
                    Error::Panic { index, message } => {
                        Error::Panic { index, message: format!("order of batch {batch_in_epoch}: {message}") }
                    }
                    error => error,
                })?;
                self.window.push(IndexBatch { epoch: self.state.epoch(), batch_in_epoch, indices, draws: None })?;
                self.window.look_ahead(self.next, |batch, into| self.plan.peek_indices(batch, into));
            }
            self.next += 1;
        }
        Ok(())
    }

    fn room(&self) -> usize {
        self.party.as_ref().map_or(self.ahead, |party| party.room().min(self.ahead))
    }

    /// Ends the epoch, and returns its error, if there is one.
    fn end(&mut self) -> Option<Result<B>> {
        self.party = None;
        self.left = 0;
        self.failure.take().map(Err)
    }

    fn hand_over(&mut self, (asked, batch): (IndexBatch, Result<B>)) -> Result<B> {
        self.deliver(asked);
        if self.ahead > 1 && self.window.is_empty() {
            // Only one batch was in flight until its size was known.
            self.ask();
        }
        batch
    }

    /// Like [`next`](Iterator::next) without waiting: `context` is woken when the next batch has arrived.
    #[cfg(feature = "futures")]
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<B>>> {
        self.ask();
        match self.window.poll_pop(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(popped)) => Poll::Ready(Some(self.hand_over(popped))),
            Poll::Ready(None) => Poll::Ready(self.end()),
        }
    }

    /// Records that the consumer receives this batch, or the error in its place.
    fn deliver(&mut self, asked: IndexBatch) {
        let IndexBatch { epoch, batch_in_epoch, indices, .. } = asked;
        let in_plan = |batch_in_epoch: u64| (batch_in_epoch - self.first) as usize;
        let PlannedBatch { position, valid } = self.plan.planned(in_plan(batch_in_epoch), indices.len());
        self.state.receive(batch_in_epoch, |batch| self.plan.position_after(in_plan(batch)));
        self.left -= 1;
        self.last_ids = Some(BatchIds { epoch, batch_in_epoch, position, indices, valid });
    }
}

impl<'scope, B: Send + 'scope> Iterator for Batches<'scope, B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ask();
        while !self.window.is_empty() {
            if let Some(popped) = self.window.pop(Duration::from_secs(60)) {
                return Some(self.hand_over(popped));
            }
        }
        self.end()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'scope, B: Send + 'scope> ExactSizeIterator for Batches<'scope, B> {}
impl<'scope, B: Send + 'scope> FusedIterator for Batches<'scope, B> {}

impl<B> Drop for Batches<'_, B> {
    fn drop(&mut self) {
        self.window.join();
    }
}

/// The batches of one epoch, each with its [`BatchIds`]: the result of [`Batches::with_ids`].
///
/// # Example
/// ```
/// use sluicegate::{DataLoader, InMemory};
///
/// let numbers = InMemory::from_vec("number", vec![5_i64, 6, 7, 8], [])?;
/// let loader = DataLoader::builder(numbers).batch_size(2).build()?;
/// let (_, ids) = loader.epoch(0)?.with_ids().nth(1).expect("there are two batches")?;
/// assert_eq!((ids.batch_in_epoch, ids.position, ids.indices), (1, 2, vec![2, 3]));
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct BatchesWithIds<'scope, B = Batch>(Batches<'scope, B>);

impl<'scope, B: Send + 'scope> BatchesWithIds<'scope, B> {
    /// Returns the consumer's current position.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.0.state()
    }
}

impl<'scope, B: Send + 'scope> Iterator for BatchesWithIds<'scope, B> {
    type Item = Result<(B, BatchIds)>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.0.next()?;
        Some(batch.map(|batch| (batch, self.0.last_ids.take().expect("a batch that came was delivered"))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'scope, B: Send + 'scope> ExactSizeIterator for BatchesWithIds<'scope, B> {}
impl<'scope, B: Send + 'scope> FusedIterator for BatchesWithIds<'scope, B> {}
