//! [`pool`]: the threads of a writer.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, Result};

/// Makes a pool of `threads` threads, named after `what`.
pub(crate) fn pool(threads: usize, what: &'static str) -> Result<ThreadPool> {
    let threads = threads.max(1);
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |thread| format!("sluice-{what}-{thread}"))
        .build()
        .map_err(|error| Error::Threads { threads, reason: error.to_string() })
}
