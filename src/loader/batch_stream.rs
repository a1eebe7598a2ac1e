//! [`BatchStream`]: the batches of one epoch, of fields or of items, for who must not block.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::{FusedStream, Stream};

use super::Batches;
use crate::{Batch, LoaderState, Result};

/// The batches of one epoch as a stream: what [`Batches::into_stream`] gives. Whoever polls it is woken by the thread that
/// fetched; there is no runtime, and no polling in between.
///
/// A loader without threads fetches where it is polled, and so does one with threads where a batch costs about as much as
/// to wake one, or less: then some more may be fetched in one poll, which come with the next.
pub struct BatchStream<'scope, B = Batch>(Batches<'scope, B>);

impl<'scope, B: Send + 'scope> Batches<'scope, B> {
    /// The same batches as a stream. Feature `futures`.
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
    /// Where the consumer is now.
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
