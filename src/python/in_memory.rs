//! [`in_memory`]: arrays of Python as a dataset.

use super::memory::ForeignArray;
use crate::InMemory;

/// Arrays in memory, a field each.
pub(super) fn in_memory(arrays: Vec<ForeignArray>) -> crate::Result<InMemory> {
    let arrays = arrays.into_iter().map(ForeignArray::into_field).collect::<crate::Result<Vec<_>>>();
    arrays.and_then(InMemory::new)
}
