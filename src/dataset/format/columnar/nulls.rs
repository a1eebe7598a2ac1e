//! Null buffers, and the replacement of nulls in bytes.

use arrow_buffer::{Buffer, NullBuffer};

/// Returns the rows that are null.
pub(super) fn null_rows(nulls: &NullBuffer) -> impl Iterator<Item = usize> + '_ {
    let absent = !nulls.inner();
    let rows: Vec<usize> = absent.set_indices().collect();
    rows.into_iter()
}

/// Merges null buffers. `None` stands for no nulls, also in the result.
pub(super) fn union(a: Option<&NullBuffer>, b: Option<&NullBuffer>) -> Option<NullBuffer> {
    NullBuffer::union(a, b).filter(|nulls| nulls.null_count() > 0)
}

/// Returns `bytes` with null rows overwritten by repetitions of `element`, or by zeros if it is empty.
pub(super) fn overwritten(bytes: &Buffer, width: usize, nulls: &NullBuffer, element: &[u8]) -> Buffer {
    let mut filled = bytes.to_vec();
    for row in null_rows(nulls) {
        let row = &mut filled[row * width..(row + 1) * width];
        match element {
            [] => row.fill(0),
            element => row.chunks_exact_mut(element.len()).for_each(|place| place.copy_from_slice(element)),
        }
    }
    Buffer::from_vec(filled)
}

/// Returns the null buffer of rows of `len` items each: a row is null if any of its items is.
pub(super) fn of_rows(items: Option<&NullBuffer>, len: usize, rows: usize) -> Option<NullBuffer> {
    let items = items?;
    let whole = (0..rows).map(|row| (row * len..(row + 1) * len).all(|item| items.is_valid(item)));
    Some(NullBuffer::from_iter(whole)).filter(|nulls| nulls.null_count() > 0)
}
