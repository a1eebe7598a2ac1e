//! [`Scattered`]: rows of one shape, each at its own address.

use super::RowLayout;

/// Rows of one shape at arbitrary addresses, to be copied into one contiguous block.
///
/// # Example
/// ```
/// use sluicegate::internal::Scattered;
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
    /// Runs of consecutive rows with the same layout: the number of rows, their strides as given, and the layout.
    runs: Vec<(usize, Vec<usize>, RowLayout)>,
}

// SAFETY: the rows are only read, and the code that pushed them has promised that they stay readable as long as this
// exists.
unsafe impl Send for Scattered {}
// SAFETY: as for `Send`.
unsafe impl Sync for Scattered {}

impl Scattered {
    /// Returns an empty set with room for `rows` rows; each element has `item_bytes` bytes.
    #[must_use]
    pub fn new(item_bytes: usize, rows: usize) -> Self {
        Self { item_bytes, shape: Vec::new(), addresses: Vec::with_capacity(rows), runs: Vec::new() }
    }

    /// Adds the row at `address`, of `shape` and `strides` (in units of `step` bytes). Returns None and adds nothing if
    /// its shape differs from the first row's, a stride is negative or not a multiple of an element, or the row has
    /// elements but no address.
    ///
    /// # Safety
    /// The elements must stay readable until this is dropped. Others may write to them meanwhile: a copy then contains
    /// old or new bytes.
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

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// True if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns the shape of one row.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the size of one row in C order, in bytes.
    #[must_use]
    pub fn bytes_per_row(&self) -> usize {
        self.runs.first().map_or(0, |(_, _, layout)| layout.bytes())
    }

    /// Returns the strides of the rows as given, once for consecutive rows that share them.
    pub fn strides(&self) -> impl Iterator<Item = &[usize]> {
        self.runs.iter().map(|(_, strides, _)| strides.as_slice())
    }

    /// Copies the rows consecutively to `into`, each in C order.
    ///
    /// # Panics
    /// If the length of `into` is not that of the rows.
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
    fn scattered_samples_are_copied() {
        let mut samples = Scattered::new(2, 2);
        let parts = [[1_u16, 2, 3, 4], [5, 6, 7, 8]];
        for part in &parts {
            // SAFETY: the part outlives the copy, and contains all elements that the shape and the strides reach.
            unsafe { samples.push(part.as_ptr().cast(), &[2, 2], &[2, 4], 1) }.unwrap();
        }
        let mut into = vec![0; 16];
        samples.copy_into(&mut into);
        assert_eq!(into.as_chunks::<2>().0, [1_u16, 3, 2, 4, 5, 7, 6, 8].map(u16::to_ne_bytes));
    }
}
