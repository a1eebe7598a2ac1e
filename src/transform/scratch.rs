//! Byte buffers that a thread reuses: new pages for each image cost more than resizing it.

use std::cell::RefCell;

/// Number of buffers that a thread keeps: one to decode into, one to resize into, and one more.
const KEPT: usize = 3;

/// Larger buffers are returned to the operating system, so that a single large image does not hold memory permanently.
const LARGEST_KEPT: usize = 8 << 20;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a buffer of `len` bytes with arbitrary contents.
pub(super) fn take(len: usize) -> Vec<u8> {
    let kept = BUFFERS.with_borrow_mut(|buffers| {
        let fitting = buffers.iter().position(|buffer| buffer.len() >= len);
        fitting.map(|place| buffers.swap_remove(place)).or_else(|| buffers.pop())
    });
    let mut buffer = kept.unwrap_or_default();
    buffer.resize(len, 0);
    buffer
}

/// Takes back a buffer that is no longer needed.
pub(super) fn give(buffer: Vec<u8>) {
    if buffer.capacity() <= LARGEST_KEPT {
        BUFFERS.with_borrow_mut(|buffers| {
            if buffers.len() < KEPT {
                buffers.push(buffer);
            }
        });
    }
}
