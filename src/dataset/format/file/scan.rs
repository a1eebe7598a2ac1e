//! [`scan`]: one piece of work for each of many files, side by side.

use std::thread::available_parallelism;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use crate::watch;
use crate::{Error, Result};

/// Below this number of items threads are not worth their start.
const WORTH_THREADS: usize = 2;

/// What `work` makes of each item, in order. On threads of its own, as many as the affinity mask and the CPU quota of the
/// control group leave (`available_parallelism` reads both), that are gone when it returns: a process that is forked at any
/// time inherits none.
///
/// # Errors
/// That of the first item that fails, whichever thread was there first; or [`Error::Threads`].
pub(in crate::dataset::format) fn scan<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = available_parallelism().map_or(1, usize::from).min(items.len());
    if threads < WORTH_THREADS {
        let watched = |item| watch::advance(0).and_then(|()| work(item));
        return items.iter().map(watched).collect();
    }
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|thread| format!("sluice-scan-{thread}"))
        .build()
        .map_err(|error| Error::Threads { threads, reason: error.to_string() })?;
    watch::elsewhere(|caller| {
        let watched = |item| caller.watch(|| watch::advance(0).and_then(|()| work(item)));
        let all: Vec<Result<R>> = pool.install(|| items.par_iter().map(watched).collect());
        all.into_iter().collect()
    })
}
