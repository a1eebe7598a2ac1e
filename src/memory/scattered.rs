//! [`Scattered`]: rows of one shape, each at an address of its own.

use super::RowLayout;

/// Rows of one shape that lie wherever somebody has them, to be copied side by side.
///
/// # Example
/// ```
/// use sluicegate::memory::Scattered;
/// let (first, second) = ([1_u8, 2], [3_u8, 0, 4]);
/// let mut rows = Scattered::new(1, 2);
/// // SAFETY: both arrays have these elements, and outlive the copy.
/// unsafe {
///     rows.push(first.as_ptr(), &[2], &[1], 1).unwrap();
///     rows.push(second.as_ptr(), &[2], &[2], 1).unwrap();
/// }
/// let mut stacked = [0; 4];
/// rows.copy_into(&mut stacked);
/// assert_eq!(stacked, [1, 2, 3, 4]);
/// ```
#[derive(Debug)]
pub struct Scattered {
    item_bytes: usize,
    shape: Vec<usize>,
    addresses: Vec<*const u8>,
    /// Rows with one layout after the other: how many there are, their strides as they were given, and what follows.
    runs: Vec<(usize, Vec<usize>, RowLayout)>,
}

// SAFETY: the rows are only read, and who pushed them has promised that they can be as long as this lives.
unsafe impl Send for Scattered {}
// SAFETY: as for `Send`.
unsafe impl Sync for Scattered {}

impl Scattered {
    /// No rows yet, and room for `rows` of them; an element has `item_bytes`.
    #[must_use]
    pub fn new(item_bytes: usize, rows: usize) -> Self {
        Self { item_bytes, shape: Vec::new(), addresses: Vec::with_capacity(rows), runs: Vec::new() }
    }

    /// Adds the row at `address`, of `shape` and `strides` (one of them is `step` bytes). Nothing, and not added, when its
    /// shape is not that of the first row, a stride is negative or no multiple of an element, or it has elements but no
    /// address.
    ///
    /// # Safety
    /// The elements must stay readable until this is dropped. Others may write to them meanwhile: a copy then holds old
    /// or new bytes.
    pub unsafe fn push(&mut self, address: *const u8, shape: &[usize], strides: &[usize], step: usize) -> Option<()> {
        match self.runs.last_mut() {
            Some((rows, last, _)) if last == strides && self.shape == shape => *rows += 1,
            Some(_) if self.shape != shape => return None,
            _ => {
                let bytes: Option<Vec<usize>> = strides.iter().map(|stride| stride.checked_mul(step)).collect();
                let bytes = bytes.filter(|_| shape.len() == strides.len())?;
                if bytes.iter().any(|&stride| isize::try_from(stride).is_err() || stride % self.item_bytes != 0) {
                    return None;
                }
                let layout = RowLayout::new(self.item_bytes, shape, &bytes)?;
                self.shape = shape.to_vec();
                self.runs.push((1, strides.to_vec(), layout));
            }
        }
        if address.is_null() && self.bytes_per_row() > 0 {
            return None;
        }
        self.addresses.push(address);
        Some(())
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The shape of one row.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The size of one row in C order, in bytes.
    #[must_use]
    pub fn bytes_per_row(&self) -> usize {
        self.runs.first().map_or(0, |(_, _, layout)| layout.bytes())
    }

    /// The strides that rows have, as they were given: once for rows in a row that share them.
    pub fn strides(&self) -> impl Iterator<Item = &[usize]> {
        self.runs.iter().map(|(_, strides, _)| strides.as_slice())
    }

    /// Copies the rows to `into`, one after the other, each in C order.
    ///
    /// # Panics
    /// When `into` is not as long as the rows.
    pub fn copy_into(&self, into: &mut [u8]) {
        let bytes_per_row = self.bytes_per_row();
        assert_eq!(Some(into.len()), bytes_per_row.checked_mul(self.len()), "room for {} rows", self.len());
        if bytes_per_row == 0 {
            return;
        }
        let mut rows = self.addresses.iter().zip(into.chunks_exact_mut(bytes_per_row));
        for (count, _, layout) in &self.runs {
            for (&address, row) in rows.by_ref().take(*count) {
                // SAFETY: `push` was promised that the row of this layout is readable at its address.
                unsafe { layout.copy(address, row) };
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn samples_are_copied_from_where_they_lie() {
        let mut samples = Scattered::new(2, 2);
        let parts = [[1_u16, 2, 3, 4], [5, 6, 7, 8]];
        for part in &parts {
            // SAFETY: the part outlives the copy, and has what the shape and the strides lead to.
            unsafe { samples.push(part.as_ptr().cast(), &[2, 2], &[2, 4], 1) }.unwrap();
        }
        let mut into = vec![0; 16];
        samples.copy_into(&mut into);
        assert_eq!(into.as_chunks::<2>().0, [1_u16, 3, 2, 4, 5, 7, 6, 8].map(u16::to_ne_bytes));
    }
}
