//! [`in_memory`]: arrays of Python as a dataset.

use sluicegate::InMemory;

use super::memory::ForeignArray;

/// Arrays in memory, a field each.
pub(super) fn in_memory(arrays: Vec<ForeignArray>) -> sluicegate::Result<InMemory> {
    let arrays = arrays.into_iter().map(ForeignArray::into_field).collect::<sluicegate::Result<Vec<_>>>();
    arrays.and_then(InMemory::new)
}
