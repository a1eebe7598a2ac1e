//! [`in_memory`]: Python's arrays as a dataset.

use sluicegate::InMemory;

use super::memory::ForeignArray;

/// Returns a dataset of arrays in memory, one field each.
pub(super) fn in_memory(arrays: Vec<ForeignArray>) -> sluicegate::Result<InMemory> {
    let arrays = arrays.into_iter().map(ForeignArray::into_field).collect::<sluicegate::Result<Vec<_>>>();
    arrays.and_then(InMemory::new)
}
