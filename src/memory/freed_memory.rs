//! [`keep_freed_memory`] and [`return_freed_memory`]: what the allocator of the C library does with memory that is freed.
//!
//! Written from the manual of glibc (`mallopt(3)`, `malloc_trim(3)`); with another C library nothing happens.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_KEPT: AtomicBool = AtomicBool::new(false);

/// Keeps memory that this process frees, up to the most that it had at once, for its next allocations.
///
/// By default glibc maps each large allocation separately, and the kernel clears each of its pages at the first write: with
/// samples of 3 MB that takes three times as long as writing them. Allocations of more than 32 MiB are still mapped, because
/// glibc allows no higher threshold. Returns false, and changes nothing, where the environment sets the allocator, or there is no glibc.
pub(crate) fn keep_freed_memory() -> bool {
    const SETTINGS: [&str; 5] =
        ["GLIBC_TUNABLES", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"];
    if SETTINGS.iter().any(|name| std::env::var_os(name).is_some()) {
        return false;
    }
    let is_kept = keep();
    IS_KEPT.store(is_kept, Ordering::Relaxed);
    is_kept
}

/// Returns to the system what [`keep_freed_memory`] kept, in this process. Does nothing where it keeps nothing.
pub(crate) fn return_freed_memory() {
    if IS_KEPT.load(Ordering::Relaxed) {
        trim();
    }
}

#[cfg(target_env = "gnu")]
fn keep() -> bool {
    /// The largest value that glibc takes on 64 bits (`HEAP_MAX_SIZE / 2`).
    const LARGEST_THRESHOLD: libc::c_int = 32 << 20;
    /// Memory is never returned while it is freed.
    const NEVER: libc::c_int = -1;
    // SAFETY: it takes numbers, and locks the arenas by itself.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_THRESHOLD) == 1
            && libc::mallopt(libc::M_TRIM_THRESHOLD, NEVER) == 1
    }
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: it takes a number, locks the arenas by itself, and touches only pages without allocations.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn keep() -> bool {
    false
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
