//! [`take_notices`]: notices about repairs that raised no error.

use std::sync::{Mutex, PoisonError};

use crate::memory::PerProcess;

/// The most notices that are kept.
const MOST: usize = 100;

static NOTICES: PerProcess<Mutex<Vec<String>>> = PerProcess::new();

/// Keeps a text for the user.
pub(crate) fn notice(text: String) {
    let mut notices = NOTICES.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if notices.len() < MOST && !notices.contains(&text) {
        notices.push(text);
    }
}

/// Returns this process's notices since the last call, about problems that are not errors: damaged indices and copies
/// that were made again, and a cache beyond its limit. One text for each; the Python package turns them into warnings.
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
