//! [`BatchStream`]: the batches of one epoch, of fields or of items, for callers that must not block.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::{FusedStream, Stream};

use super::Batches;
use crate::{Batch, LoaderState, Result};

/// The batches of one epoch as a stream: the result of [`Batches::into_stream`]. The fetching thread wakes the task
/// that polls; no runtime is required, and there is no busy polling.
///
/// A loader without threads fetches inside the poll. So does one with threads if a batch costs at most about as much as
/// waking a thread: then one poll may fetch several batches, which later polls return.
pub struct BatchStream<'scope, B = Batch>(Batches<'scope, B>);

impl<'scope, B: Send + 'scope> Batches<'scope, B> {
    /// Returns the same batches as a stream. Feature `futures`.
    ///
    /// # Example
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// use futures_core::Stream;
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let dataset = InMemory::from_vec("x", (0..10_i64).collect(), [])?;
    /// let mut batches = pin!(DataLoader::builder(dataset).batch_size(4).build()?.epoch(0)?.into_stream());
    /// let mut context = Context::from_waker(Waker::noop()); // your runtime has a better one
    /// let Poll::Ready(Some(batch)) = batches.as_mut().poll_next(&mut context) else { panic!("no threads") };
    /// assert_eq!((batch?.samples(), batches.size_hint()), (4, (2, Some(2))));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    #[must_use]
    pub fn into_stream(self) -> BatchStream<'scope, B> {
        BatchStream(self)
    }
}

impl<'scope, B: Send + 'scope> BatchStream<'scope, B> {
    /// Returns the consumer's current position.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.0.state()
    }
}

impl<'scope, B: Send + 'scope> Stream for BatchStream<'scope, B> {
    type Item = Result<B>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'scope, B: Send + 'scope> FusedStream for BatchStream<'scope, B> {
    fn is_terminated(&self) -> bool {
        self.0.len() == 0
    }
}
