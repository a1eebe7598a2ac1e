//! When batches are fetched: ahead of the consumer, which receives them in order.
//!
//! [`Fetch`] is the only trait that the pipeline uses: one [`IndexBatch`] in, one filled [`Batch`] (or a batch of
//! another type) out. [`Prefetch`] keeps a window of them, fetched on the [`Pool`] or on the calling thread, whichever
//! is faster, and reads the blocks of later batches ahead. [`Workers`] and [`WorkerEnd`] are the two ends of the memory
//! shared with worker processes, which run user code.

mod answer_wait;
mod batch;
mod blocks_ahead;
mod bytes_ahead;
mod fetch;
mod fetch_items;
mod fetch_packed;
mod fetch_packed_fields;
mod field_table;
mod field_view;
mod message;
mod pace;
mod pool;
mod prefetch;
mod read_ahead;
mod reorder;
mod scoped_threads;
mod shuffled_samples;
mod slot_copy;
mod spawn;
mod stream_pass;
mod stream_readers;
mod tasks;
mod unclaimed;
mod watch;
mod work;
mod worker_end;
mod worker_layout;
mod workers;

pub use answer_wait::AnswerWait;
pub use batch::Batch;
pub use bytes_ahead::{BytesAhead, Held, Party};
pub use fetch::{Fetch, FetchSamples, IndexBatch};
pub(crate) use fetch_items::FetchItems;
pub use fetch_packed::FetchPacked;
pub use fetch_packed_fields::{FetchPackedFields, PackedField};
pub use field_table::PlacedField;
pub use field_view::FieldView;
pub use message::{BatchNumber, Outcome, TaskKind};
pub use pool::Pool;
pub use prefetch::{Delivery, Prefetch};
pub use read_ahead::ReadAhead;
pub(crate) use scoped_threads::ScopedThreads;
pub use shuffled_samples::ShuffledSamples;
pub use slot_copy::SlotCopy;
pub(crate) use spawn::Spawn;
pub use stream_pass::StreamPass;
pub use watch::end_with;
pub use worker_end::{Task, WorkerEnd};
pub use workers::{Answer, Workers};
