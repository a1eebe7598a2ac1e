//! [`scan`]: one task for each of many files, in parallel.

use std::thread::available_parallelism;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use crate::watch;
use crate::{Error, Result};

/// With fewer items, starting threads does not pay off.
const WORTH_THREADS: usize = 2;

/// Returns the results of `work` for each item, in order. It starts its own threads, as many as the affinity mask and
/// the CPU quota of the control group allow (`available_parallelism` reads both), and joins them before it returns, so
/// that a forked child inherits none.
///
/// # Errors
/// That of the first item in order that fails, even if a later one fails earlier; or [`Error::Threads`].
pub(crate) fn scan<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
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
    watch::on_other_threads(|caller| {
        let watched = |item| caller.watch(|| watch::advance(0).and_then(|()| work(item)));
        let all: Vec<Result<R>> = pool.install(|| items.par_iter().map(watched).collect());
        all.into_iter().collect()
    })
}
