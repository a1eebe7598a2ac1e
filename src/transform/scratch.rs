//! Buffers of bytes that a thread uses again: pages that are new for each image cost more than its resizing.

use std::cell::RefCell;

/// So many buffers does a thread keep: one that is decoded into, one that is resized into, and one more.
const KEPT: usize = 3;

/// A larger buffer goes back to the system: one image of many would hold that memory for good.
const LARGEST_KEPT: usize = 8 << 20;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of `len` bytes, with whatever is in it.
pub(super) fn take(len: usize) -> Vec<u8> {
    let kept = BUFFERS.with_borrow_mut(|buffers| {
        let fitting = buffers.iter().position(|buffer| buffer.len() >= len);
        fitting.map(|place| buffers.swap_remove(place)).or_else(|| buffers.pop())
    });
    let mut buffer = kept.unwrap_or_default();
    buffer.resize(len, 0);
    buffer
}

/// Gives a buffer back that is done with.
pub(super) fn give(buffer: Vec<u8>) {
    if buffer.capacity() <= LARGEST_KEPT {
        BUFFERS.with_borrow_mut(|buffers| {
            if buffers.len() < KEPT {
                buffers.push(buffer);
            }
        });
    }
}
