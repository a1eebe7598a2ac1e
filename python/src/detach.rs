//! The one place that releases the GIL.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use sluicegate::internal::watch::{self, Progress};

use super::error::to_python;

/// Runs `work` without the GIL, and converts its error to a Python exception.
///
/// Everything that can wait, copy a batch, or take a lock goes through here: a thread that holds the GIL while it waits
/// for a thread that wants the GIL never wakes up.
#[expect(clippy::disallowed_methods, reason = "the lint points here")]
pub(super) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> sluicegate::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| to_python(py, error))
}

/// Work that takes less time than this shows no progress.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// Like [`detach`], for work that may take long: handles signals while it runs, and shows its progress on a terminal.
///
/// `what` describes the work in a few words.
pub(super) fn detach_long<T: Send>(
    py: Python<'_>,
    what: &'static str,
    work: impl FnOnce() -> sluicegate::Result<T> + Send,
) -> PyResult<T> {
    detach(py, || {
        let mut line = Line { what, begun: Instant::now(), shown: None };
        let watcher = move |progress| attached(|py| py.check_signals().and_then(|()| line.show(py, progress)));
        watch::within(Box::new(watcher), work)
    })
}

/// Like [`detach_long`], for opening a dataset, which may read all of its files.
pub(super) fn opening<T: Send>(py: Python<'_>, open: impl FnOnce() -> sluicegate::Result<T> + Send) -> PyResult<T> {
    detach_long(py, "opening a dataset", open)
}

/// Like [`detach`], for a step of work that shows its progress itself; handles signals while it runs.
pub(super) fn detach_step<T: Send>(py: Python<'_>, work: impl FnOnce() -> sluicegate::Result<T> + Send) -> PyResult<T> {
    detach(py, || watch::within(Box::new(|_| attached(|py| py.check_signals())), work))
}

fn attached(work: impl FnOnce(Python<'_>) -> PyResult<()>) -> sluicegate::Result<()> {
    Python::attach(work).map_err(|error| sluicegate::Error::User(Box::new(error)))
}

/// The progress of work, shown on the terminal.
struct Line {
    what: &'static str,
    begun: Instant,
    /// The progress line, and the number of steps that it shows.
    shown: Option<(Py<PyAny>, u64)>,
}

impl Line {
    fn show(&mut self, py: Python<'_>, Progress { done, total }: Progress) -> PyResult<()> {
        if self.shown.is_none() && self.begun.elapsed() > SHOWN_AFTER {
            let class = py.import("sluicegate.progress_line")?.getattr("ProgressLine")?;
            self.shown = Some((class.call1((self.what, py.None()))?.unbind(), 0));
        }
        if let Some((line, before)) = &mut self.shown {
            line.setattr(py, "total", (total >= done && total > 0).then_some(total))?;
            line.call_method1(py, "advance", (done - std::mem::replace(before, done),))?;
        }
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some((line, _)) = self.shown.take() {
            Python::attach(|py| {
                // A closed terminal must not make the work fail.
                let _ = line.call_method1(py, "__exit__", (py.None(), py.None(), py.None()));
            });
        }
    }
}
