//! `PinnedBlock`: memory of torch's own allocator of pinned memory, as a lease knows it.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sluicegate::DType;
use sluicegate::internal::Lease;

use super::memory::{Owner, capsule};

/// One of the blocks that a Python object holds. Its memory is used again when no tensor shows it and, as torch's
/// allocator knows, no device reads it.
pub(super) struct PinnedBlock {
    blocks: Arc<Owner>,
    number: usize,
}

impl PinnedBlock {
    pub(super) fn new(blocks: Arc<Owner>, number: usize) -> Self {
        Self { blocks, number }
    }
}

/// The tensor whose first byte is at `offset` of the slot; one of a data type that DLPack does not know may be bytes.
///
/// On a pinned block torch makes it: by the storage of a tensor it knows which block a device is still reading.
pub(super) fn leased_tensor<'py>(
    from_dlpack: &Bound<'py, PyAny>,
    lease: &Arc<Lease>,
    offset: usize,
    (dtype, shape): (DType, &[usize]),
) -> PyResult<Bound<'py, PyAny>> {
    let py = from_dlpack.py();
    match lease.owner().and_then(|owner| owner.downcast_ref::<PinnedBlock>()) {
        None => from_dlpack.call1((capsule(py, lease, offset, (dtype, shape))?,)),
        Some(PinnedBlock { blocks, number }) => {
            let arguments = (number, dtype.to_string(), offset, PyTuple::new(py, shape)?);
            blocks.0.bind(py).call_method1(intern!(py, "tensor"), arguments)
        }
    }
}
