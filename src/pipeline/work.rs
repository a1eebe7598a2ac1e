//! [`Work`]: what the threads of a window share with its consumer.

use std::sync::{Arc, Weak};

use super::pace::Pace;
use super::reorder::Reorder;
use super::unclaimed::Unclaimed;
use super::{BytesAhead, Fetch, IndexBatch};
use crate::Result;
use crate::error::catch;

/// Where batches are counted, and what tells the size of one.
type Counter<B> = (Arc<BytesAhead>, fn(&B) -> usize);

/// Who fetches, and where batches wait: to be begun, and to be taken.
pub(super) struct Work<'scope, B> {
    /// The window keeps it. Threads that are late must not: a dataset goes with its loader.
    fetch: Weak<dyn Fetch<B> + 'scope>,
    pub(super) reorder: Reorder<B>,
    pub(super) unclaimed: Unclaimed,
    pub(super) pace: Arc<Pace>,
    bytes_ahead: Option<Counter<B>>,
}

impl<'scope, B> Work<'scope, B> {
    pub(super) fn new(fetch: &Arc<dyn Fetch<B> + 'scope>) -> Self {
        Self {
            fetch: Arc::downgrade(fetch),
            reorder: Reorder::default(),
            unclaimed: Unclaimed::default(),
            pace: Arc::default(),
            bytes_ahead: None,
        }
    }

    /// The same with nothing under way.
    pub(super) fn anew(&self) -> Self {
        Self {
            fetch: Weak::clone(&self.fetch),
            reorder: Reorder::default(),
            unclaimed: Unclaimed::default(),
            pace: Arc::clone(&self.pace),
            bytes_ahead: self.bytes_ahead.clone(),
        }
    }

    /// The same with batches counted in `bytes_ahead`.
    pub(super) fn counted(self, bytes_ahead: Arc<BytesAhead>, bytes_of: fn(&B) -> usize) -> Self {
        Self { bytes_ahead: Some((bytes_ahead, bytes_of)), ..self }
    }

    /// Fetches the batch of `ticket`, and leaves it for the consumer.
    pub(super) fn run(&self, ticket: u64, indices: Arc<IndexBatch>) {
        // Nobody is left who could want it.
        let Some(fetch) = self.fetch.upgrade() else { return };
        let batch = self.fetch_by(&*fetch, &indices);
        // Before the consumer is woken, so that nothing of this batch is left here once the consumer has it.
        drop((indices, fetch));
        let held = self.learn(&batch).map(|(ahead, bytes)| ahead.hold(bytes));
        self.reorder.put(ticket, batch, held);
    }

    /// Fetches a batch for the consumer, who is the caller.
    pub(super) fn fetch_here(&self, fetch: &dyn Fetch<B>, indices: &IndexBatch) -> Result<B> {
        let batch = self.fetch_by(fetch, indices);
        self.learn(&batch);
        batch
    }

    fn fetch_by(&self, fetch: &dyn Fetch<B>, indices: &IndexBatch) -> Result<B> {
        self.pace.measure(|| catch(|| fetch.fetch(indices)))
    }

    fn learn(&self, batch: &Result<B>) -> Option<(&Arc<BytesAhead>, usize)> {
        let ((ahead, bytes_of), batch) = self.bytes_ahead.as_ref().zip(batch.as_ref().ok())?;
        let bytes = bytes_of(batch);
        ahead.learn(bytes);
        Some((ahead, bytes))
    }
}
