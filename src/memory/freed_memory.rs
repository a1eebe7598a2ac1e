//! [`keep_freed_memory`] and [`return_freed_memory`]: control what the C library's allocator does with freed memory.
//!
//! Based on glibc's manual (`mallopt(3)`, `malloc_trim(3)`); with other C libraries these functions do nothing.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_KEPT: AtomicBool = AtomicBool::new(false);

/// Keeps freed memory of this process, up to its peak use, for its next allocations.
///
/// By default glibc maps each large allocation separately, and the kernel clears each page at the first write: with
/// samples of 3 MB that takes three times as long as writing them. Allocations of more than 32 MiB are still mapped,
/// because glibc allows no higher threshold. Returns false, and changes nothing, if the environment configures the
/// allocator or the C library is not glibc.
pub fn keep_freed_memory() -> bool {
    const SETTINGS: [&str; 5] =
        ["GLIBC_TUNABLES", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"];
    if SETTINGS.iter().any(|name| std::env::var_os(name).is_some()) {
        return false;
    }
    let is_kept = keep();
    IS_KEPT.store(is_kept, Ordering::Relaxed);
    is_kept
}

/// Returns the memory that [`keep_freed_memory`] kept in this process to the operating system. Does nothing if none is
/// kept.
pub fn return_freed_memory() {
    if IS_KEPT.load(Ordering::Relaxed) {
        trim();
    }
}

#[cfg(target_env = "gnu")]
fn keep() -> bool {
    /// The largest value that glibc accepts on 64 bits (`HEAP_MAX_SIZE / 2`).
    const LARGEST_THRESHOLD: libc::c_int = 32 << 20;
    /// Disables returning memory when it is freed.
    const NEVER: libc::c_int = -1;
    // SAFETY: the call takes numbers, and does its own locking.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_THRESHOLD) == 1
            && libc::mallopt(libc::M_TRIM_THRESHOLD, NEVER) == 1
    }
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: the call takes a number, does its own locking, and touches only pages without allocations.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn keep() -> bool {
    false
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
