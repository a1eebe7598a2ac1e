//! [`Claims`]: what the parts of a shared segment are for.

use std::sync::atomic::AtomicUsize;

/// Which part of a shared segment holds words that other processes write at any time, and which part leases are cut
/// from. Every word is before the arena, so that a reference to a lease's bytes never covers a word.
pub(super) struct Claims {
    pub(super) words_end: AtomicUsize,
    /// Where the first arena starts.
    pub(super) arena: AtomicUsize,
    /// Where the last arena ends.
    pub(super) arenas_end: AtomicUsize,
}
