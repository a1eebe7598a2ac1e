//! [`RowLayout`]: where the elements of one row are in memory.

use std::ptr;

use super::stream;

/// The positions of a row's elements relative to its first one, and the copy that puts them into C order.
#[derive(Debug)]
pub(super) struct RowLayout {
    bytes: usize,
    /// The axes outside the innermost contiguous piece, outermost first: number of steps, bytes per step.
    axes: Vec<(usize, usize)>,
}

impl RowLayout {
    /// Returns the layout of rows of `shape` and `strides` (in bytes) whose elements have `item_bytes` bytes, or None
    /// if the size of a row overflows an address.
    pub(super) fn new(item_bytes: usize, shape: &[usize], strides: &[usize]) -> Option<Self> {
        let bytes = if shape.contains(&0) {
            0
        } else {
            shape.iter().try_fold(item_bytes, |bytes, &size| bytes.checked_mul(size))?
        };
        let mut run = item_bytes;
        let mut axes: Vec<(usize, usize)> = Vec::new();
        for (&size, &step) in shape.iter().zip(strides).rev().filter(|(size, _)| **size > 1) {
            if axes.is_empty() && step == run {
                run *= size;
            } else {
                axes.insert(0, (size, step));
            }
        }
        Some(Self { bytes, axes })
    }

    /// Returns the size of one row in C order, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if a row is in C order in memory, without gaps.
    pub(super) fn is_contiguous(&self) -> bool {
        self.axes.is_empty()
    }

    /// Copies the row at `from` to `into`, in C order.
    ///
    /// # Safety
    /// Every element of a row of this layout whose first element is at `from` must be readable.
    ///
    /// # Panics
    /// If `into` is not exactly one row long.
    pub(super) unsafe fn copy(&self, from: *const u8, into: &mut [u8]) {
        assert_eq!(into.len(), self.bytes, "room for one row");
        if self.bytes > 0 {
            // SAFETY: the caller's promise; the row has elements, and the axes are those of the layout.
            unsafe { copy_axes(from, &self.axes, into) };
        }
    }
}

/// Copies the elements that `axes` reach from `from`.
///
/// # Safety
/// `into` must not be empty, and all elements that the axes reach, as many bytes as `into` has, must be readable.
unsafe fn copy_axes(from: *const u8, axes: &[(usize, usize)], into: &mut [u8]) {
    match axes {
        // SAFETY: readable by the caller's promise; `into` is exclusively borrowed, so the two do not overlap.
        [] => unsafe { stream::copy(from, into) },
        // The pieces of a transposed image are single elements, and those of a crop are rows of pixels. A small piece
        // takes one or two machine instructions when its size is a constant, and a function call otherwise.
        &[(steps, stride)] => {
            // SAFETY: the caller's promise, for this one axis.
            unsafe {
                match into.len() / steps {
                    1 => copy_steps::<1>(from, stride, into),
                    2 => copy_steps::<2>(from, stride, into),
                    3 => copy_steps::<3>(from, stride, into),
                    4 => copy_steps::<4>(from, stride, into),
                    8 => copy_steps::<8>(from, stride, into),
                    16 => copy_steps::<16>(from, stride, into),
                    32 => copy_steps::<32>(from, stride, into),
                    64 => copy_steps::<64>(from, stride, into),
                    _ => copy_parts(from, steps, stride, &[], into),
                }
            }
        }
        // SAFETY: the caller's promise.
        [(steps, stride), inner @ ..] => unsafe { copy_parts(from, *steps, *stride, inner, into) },
    }
}

/// Copies `steps` parts that are `stride` bytes apart, each through the `inner` axes.
///
/// # Safety
/// As for [`copy_axes`], with this axis before the inner ones.
unsafe fn copy_parts(from: *const u8, steps: usize, stride: usize, inner: &[(usize, usize)], into: &mut [u8]) {
    let part = into.len() / steps;
    for (step, into) in into.chunks_exact_mut(part).enumerate() {
        // SAFETY: the part begins at an element of the row, which the caller has promised to be readable.
        unsafe { copy_axes(from.add(step * stride), inner, into) };
    }
}

/// Copies pieces of `SIZE` bytes that are `stride` bytes apart.
///
/// # Safety
/// As for [`copy_axes`], with this one axis.
unsafe fn copy_steps<const SIZE: usize>(from: *const u8, stride: usize, into: &mut [u8]) {
    for (step, piece) in into.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
        // SAFETY: the piece is part of the row; `into` is exclusively borrowed, so the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(from.add(step * stride), piece.as_mut_ptr(), SIZE) };
    }
}
