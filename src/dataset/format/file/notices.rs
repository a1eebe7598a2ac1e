//! [`take_notices`]: what was repaired without an error.

use std::sync::{Mutex, PoisonError};

use crate::memory::PerProcess;

/// More are not kept: they are not needed.
const MOST: usize = 100;

static NOTICES: PerProcess<Mutex<Vec<String>>> = PerProcess::new();

/// Keeps a text for the user.
pub(in crate::dataset::format) fn notice(text: String) {
    let mut notices = NOTICES.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if notices.len() < MOST && !notices.contains(&text) {
        notices.push(text);
    }
}

/// Returns what this process has noticed since the last call that is not an error: damaged indices and unpacked copies, which
/// were made again, and a cache that is larger than it was to be. One text for each; the Python package warns of them.
///
/// Threads may call it at the same time; each text is returned once.
///
/// # Example
/// ```
/// for text in sluicegate::internal::take_notices() {
///     eprintln!("{text}");
/// }
/// ```
#[must_use]
pub fn take_notices() -> Vec<String> {
    std::mem::take(&mut *NOTICES.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner))
}
