//! `PinnedBlock`: memory from torch's allocator of pinned memory, as the owner of a lease.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sluicegate::DType;
use sluicegate::internal::Lease;

use super::memory::{Owner, capsule};

/// One of the blocks that a Python object holds. Its memory is reused once no tensor uses it and, as torch's allocator
/// tracks, no device reads it.
pub(super) struct PinnedBlock {
    blocks: Arc<Owner>,
    number: usize,
}

impl PinnedBlock {
    pub(super) fn new(blocks: Arc<Owner>, number: usize) -> Self {
        Self { blocks, number }
    }
}

/// Returns the tensor whose first byte is at `offset` in the slot; as bytes if DLPack does not know its data type.
///
/// For a pinned block, torch makes the tensor: its storage tells torch which block a device is still reading.
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
