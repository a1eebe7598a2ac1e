//! [`Claims`]: which parts of a shared segment hold words, and which hold arenas.

use std::sync::atomic::AtomicUsize;

/// The boundary between the words of a shared segment, which other processes write at any time, and its arenas, which
/// leases are cut from. Every word is before the arenas, so that a reference to a lease's bytes never covers a word.
pub(super) struct Claims {
    pub(super) words_end: AtomicUsize,
    /// Where the first arena starts.
    pub(super) arena: AtomicUsize,
    /// Where the last arena ends.
    pub(super) arenas_end: AtomicUsize,
}
