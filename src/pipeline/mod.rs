//! WHEN it happens: batches are fetched ahead of the consumer and handed over in order.
//!
//! [`Fetch`] is the only trait that the pipeline knows: one [`IndexBatch`] in, one filled [`Batch`] out. [`Prefetch`]
//! keeps a window of them, on the [`Pool`] or on the calling thread, whichever is sooner.

mod batch;
mod fetch;
mod pace;
mod pool;
mod prefetch;
mod reorder;

pub use batch::Batch;
pub use fetch::{Fetch, FetchSamples, IndexBatch};
pub use pool::Pool;
pub use prefetch::{Delivery, Prefetch};
