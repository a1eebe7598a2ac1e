//! A copy that bypasses the caches.

use std::ptr;

/// Rows of at least this many bytes bypass the cache, because another process reads them later.
const STREAMED: usize = 1 << 20;

/// Copies `from` to `into`. Large rows bypass the caches, which saves reading the cache lines that are overwritten.
///
/// # Safety
/// `into.len()` bytes must be readable at `from`, and must not overlap `into`.
pub(super) unsafe fn copy(from: *const u8, into: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if into.len() >= STREAMED {
        // SAFETY: the caller's promise.
        return unsafe { stream(from, into) };
    }
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
}

/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn stream(from: *const u8, into: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;

    let head = into.as_ptr().align_offset(LINE).min(into.len());
    let lines = (into.len() - head) / LINE;
    let tail = head + lines * LINE;
    let to = into.as_mut_ptr();
    // SAFETY: head, lines, and tail are parts of the range that the caller guarantees; the lines are aligned.
    unsafe {
        ptr::copy_nonoverlapping(from, to, head);
        for line in 0..lines {
            let (from, to) =
                (from.add(head + line * LINE).cast::<__m128i>(), to.add(head + line * LINE).cast::<__m128i>());
            for part in 0..4 {
                _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part)));
            }
        }
        ptr::copy_nonoverlapping(from.add(tail), to.add(tail), into.len() - tail);
        // The message that the batch is ready must not become visible before these lines.
        _mm_sfence();
    }
}
