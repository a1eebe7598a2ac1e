//! [`Work`]: the state that a window's threads share with its consumer.

use std::sync::{Arc, Weak};

use super::pace::Pace;
use super::reorder::Reorder;
use super::unclaimed::Unclaimed;
use super::{BytesAhead, Fetch, IndexBatch};
use crate::Result;
use crate::error::catch;

/// The count of batches, and the function that returns the size of one.
type Counter<B> = (Arc<BytesAhead>, fn(&B) -> usize);

/// The fetch, and the batches waiting to be started and to be taken.
pub(super) struct Work<'scope, B> {
    /// The window keeps it alive. Late threads must not, because the dataset must be dropped with its loader.
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

    /// Returns the same settings with nothing in flight.
    pub(super) fn cleared(&self) -> Self {
        Self {
            fetch: Weak::clone(&self.fetch),
            reorder: Reorder::default(),
            unclaimed: Unclaimed::default(),
            pace: Arc::clone(&self.pace),
            bytes_ahead: self.bytes_ahead.clone(),
        }
    }

    /// Returns the same work with batches counted in `bytes_ahead`.
    pub(super) fn counted(self, bytes_ahead: Arc<BytesAhead>, bytes_of: fn(&B) -> usize) -> Self {
        Self { bytes_ahead: Some((bytes_ahead, bytes_of)), ..self }
    }

    /// Fetches the batch of `ticket`, and stores it for the consumer.
    pub(super) fn run(&self, ticket: u64, indices: Arc<IndexBatch>) {
        // The window was dropped, so the batch is not needed.
        let Some(fetch) = self.fetch.upgrade() else { return };
        let batch = self.fetch_by(&*fetch, &indices);
        // Dropped before the consumer is woken, so that this thread holds no part of the batch once the consumer has
        // it.
        drop((indices, fetch));
        let held = self.learn(&batch).map(|(ahead, bytes)| ahead.hold(bytes));
        self.reorder.put(ticket, batch, held);
    }

    /// Fetches a batch on the consumer's own thread.
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
