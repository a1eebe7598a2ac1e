//! [`Array`]: a strided array in a segment, read row by row.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::{RowLayout, Segment};
use crate::{Error, Result};

/// A dense or strided array whose first axis counts samples. Rows are only copied; the bytes are not exposed otherwise.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::internal::{Array, Segment};
/// let zeros = Arc::new(Segment::anonymous(12).unwrap());
/// let array = Array::new(zeros, 0, 4, &[3], &[4]).unwrap();
/// let mut row = [1; 4];
/// array.copy_row(2, &mut row).unwrap();
/// assert_eq!(row, [0; 4]);
/// ```
pub struct Array {
    segment: Arc<Segment>,
    offset: usize,
    len: usize,
    /// Distance between consecutive rows in bytes; zero for a broadcast array.
    stride: usize,
    row: RowLayout,
}

impl Array {
    /// Returns an array with `shape` and `strides` (one entry per axis; strides in bytes, none negative) whose first
    /// element is at byte `offset` of `segment`; each element has `item_bytes` bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the array has no axis or extends past the segment.
    pub fn new(
        segment: Arc<Segment>,
        offset: usize,
        item_bytes: usize,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Self> {
        let invalid = |reason: String| Error::invalid("array", reason);
        let (Some((&len, row_shape)), Some((&stride, row_strides))) = (shape.split_first(), strides.split_first())
        else {
            return Err(invalid("a scalar has no first axis, which must count the samples".into()));
        };
        let span = if shape.contains(&0) {
            Some(0)
        } else {
            shape.iter().zip(strides).try_fold(item_bytes, |span, (&size, &step)| {
                (size - 1).checked_mul(step).and_then(|reach| span.checked_add(reach))
            })
        };
        if shape.len() != strides.len() || span.is_none_or(|span| span > segment.len().saturating_sub(offset)) {
            return Err(invalid(format!(
                "shape {shape:?} with strides {strides:?} (bytes) at byte {offset} reaches past {} bytes",
                segment.len()
            )));
        }
        // A broadcast axis uses no memory, so rows of a small segment can be larger than any slot.
        let Some(row) = RowLayout::new(item_bytes, row_shape, row_strides) else {
            return Err(invalid(format!("a row of shape {row_shape:?} has more bytes than can be addressed")));
        };
        Ok(Self { segment, offset, len, stride, row })
    }

    /// Returns an array of `shape` in C order, without gaps.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn contiguous(segment: Arc<Segment>, offset: usize, item_bytes: usize, shape: &[usize]) -> Result<Self> {
        let mut strides = vec![item_bytes; shape.len()];
        for axis in (1..shape.len()).rev() {
            // `new` rejects a stride that overflows, because it multiplies the stride.
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
        }
        Self::new(segment, offset, item_bytes, shape, &strides)
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the array has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of one row in C order, in bytes.
    #[must_use]
    pub fn bytes_per_row(&self) -> usize {
        self.row.bytes()
    }

    /// Returns the segment that holds the array.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Copies row `index` to `into`, in C order.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    ///
    /// # Panics
    /// If `into` is not exactly one row long.
    pub fn copy_row(&self, index: usize, into: &mut [u8]) -> Result<()> {
        self.gather(&[index], into)
    }

    /// Copies row `indices[i]` to the i-th row of `into`, in C order.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for the first invalid index; nothing is copied then.
    ///
    /// # Panics
    /// If the length of `into` is not that of `indices.len()` rows.
    pub fn gather(&self, indices: &[usize], into: &mut [u8]) -> Result<()> {
        assert_eq!(into.len(), indices.len() * self.bytes_per_row(), "room for {} rows", indices.len());
        if let Some(&index) = indices.iter().find(|&&index| index >= self.len) {
            return Err(Error::IndexOutOfRange { index, len: self.len });
        }
        if self.bytes_per_row() > 0 && !indices.is_empty() {
            self.segment.read_by(|| self.copy_rows(indices, into));
        }
        Ok(())
    }

    /// Copies the rows of `range` consecutively to `into`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`]; nothing is copied then.
    ///
    /// # Panics
    /// If the length of `into` is not that of `range.len()` rows.
    pub fn copy_range(&self, range: Range<usize>, into: &mut [u8]) -> Result<()> {
        if range.start > range.end || range.end > self.len {
            return Err(Error::IndexOutOfRange { index: range.end, len: self.len });
        }
        let size = self.bytes_per_row();
        if self.stride != size || !self.row.is_contiguous() {
            return self.gather(&range.collect::<Vec<_>>(), into);
        }
        assert_eq!(into.len(), range.len() * size, "room for {} rows", range.len());
        if !into.is_empty() {
            self.segment.read_by(|| self.copy(self.offset + range.start * size, into));
        }
        Ok(())
    }

    /// Asks the operating system to start reading the rows at `indices` of a mapped file; invalid indices are skipped.
    pub(crate) fn will_read(&self, indices: &[usize]) {
        let mut rows = indices.iter().filter(|&&index| index < self.len).peekable();
        while let Some(&first) = rows.next() {
            let mut last = first;
            while let Some(&next) = rows.next_if(|&&next| next == last + 1) {
                last = next;
            }
            // Rows with scattered elements are not worth one call each.
            if self.row.is_contiguous() {
                let start = self.offset + first * self.stride;
                self.segment.will_read(start..self.offset + last * self.stride + self.bytes_per_row());
            }
        }
    }

    /// Copies rows whose indices are valid.
    fn copy_rows(&self, indices: &[usize], into: &mut [u8]) {
        if !self.row.is_contiguous() {
            let start = self.segment.at(self.offset);
            indices.iter().zip(into.chunks_exact_mut(self.bytes_per_row())).for_each(|(&index, row)| {
                // SAFETY: as in `gather_sized`.
                unsafe { self.row.copy(start.as_ptr().add(index * self.stride), row) };
            });
        } else if self.stride == self.bytes_per_row()
            && indices.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1))
        {
            self.copy(self.offset + indices[0] * self.stride, into);
        } else {
            // A small row takes one or two machine instructions when its size is a constant, and a function call
            // otherwise.
            match self.bytes_per_row() {
                1 => self.gather_sized::<1>(indices, into),
                2 => self.gather_sized::<2>(indices, into),
                4 => self.gather_sized::<4>(indices, into),
                8 => self.gather_sized::<8>(indices, into),
                12 => self.gather_sized::<12>(indices, into),
                16 => self.gather_sized::<16>(indices, into),
                32 => self.gather_sized::<32>(indices, into),
                64 => self.gather_sized::<64>(indices, into),
                size => indices
                    .iter()
                    .zip(into.chunks_exact_mut(size))
                    .for_each(|(&index, row)| self.copy(self.offset + index * self.stride, row)),
            }
        }
    }

    fn gather_sized<const SIZE: usize>(&self, indices: &[usize], into: &mut [u8]) {
        let start = self.segment.at(self.offset);
        for (&index, row) in indices.iter().zip(into.as_chunks_mut::<SIZE>().0) {
            // SAFETY: `gather` has checked that `index` is below `len`, and `new` that every row is inside the segment,
            // which `self` keeps alive; the slot is exclusively borrowed, so the two do not overlap.
            unsafe { ptr::copy_nonoverlapping(start.as_ptr().add(index * self.stride), row.as_mut_ptr(), SIZE) };
        }
    }

    #[inline]
    fn copy(&self, from: usize, into: &mut [u8]) {
        debug_assert!(from + into.len() <= self.segment.len(), "copies stay inside the segment");
        // SAFETY: every caller starts at a row that `gather` or `copy_range` has checked, so the bytes are inside the
        // segment, which `self` keeps alive; `into` is exclusively borrowed, so the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(self.segment.at(from).as_ptr(), into.as_mut_ptr(), into.len()) };
    }
}
