//! Addresses that the package found in other libraries' objects.

use sluicegate::Result;
use sluicegate::internal::{ForeignTable, ForeignWords};

/// Returns the `len` words of 32 bits at `address`.
///
/// # Errors
/// If words cannot be at that address.
pub(crate) fn words_at(address: usize, len: usize) -> Result<ForeignWords> {
    // SAFETY: the package passes the address of a generator's state, which it found by a search and verified by writing
    // to it, and holds the generator as long as the object that has these words.
    unsafe { ForeignWords::at(address, len) }
}

/// Returns the table behind the stream at `address`.
///
/// # Errors
/// If the address is not that of a stream, or the stream cannot report its contents.
pub(crate) fn table_at(address: usize) -> Result<ForeignTable> {
    // SAFETY: the package passes the contents of a capsule named `arrow_array_stream` that it has just requested, and
    // that no other code has.
    unsafe { ForeignTable::at(address) }
}
