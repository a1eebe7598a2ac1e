//! Memory across the border: arrays of Python's that Rust reads, and slots of ours that become tensors.
//!
//! # Rationale
//! An address that Python hands in is believed: `sluicegate._core` is private, and the package passes
//! `tensor.data_ptr()` or the address of a NumPy array together with the object that owns it. The owner is held until
//! the last reader is gone; the package checks before each batch that the owner still has its memory there.
//!
//! A slot leaves as DLPack capsules, one per field, all holding one [`Lease`]. Columns of a slot do not overlap and no
//! other slot overlaps this one, so tensors never alias. The deleter drops its part of the lease and touches nothing of
//! Python: it runs on any thread, with or without the GIL, also while the interpreter shuts down.
#![expect(unsafe_code, reason = "one of the two places that handle addresses; every block says why it is sound")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::convert::wrap;
use crate::memory::{Array, Lease, Segment};
use crate::{BatchField, DType, Field};

/// Keeps a Python object alive on behalf of Rust, and lets go of it soon after it is dropped, on whichever thread.
struct Owner(ManuallyDrop<Py<PyAny>>);

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let object = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: both may be called on any thread, with or without the GIL.
        let is_pythons = unsafe { ffi::Py_IsInitialized() == 0 || !ffi::PyGILState_GetThisThreadState().is_null() };
        if is_pythons {
            return drop(object);
        }
        // A thread of the pool. It must not wait for the GIL, and pyo3 would keep the object (the whole dataset, perhaps)
        // until somebody next calls this library.
        let object = object.into_ptr();
        // SAFETY: may be called without the GIL; `let_go` gets the reference that was taken here, once. A queue that is
        // full does not take it: a leak is all that is left then.
        unsafe { ffi::Py_AddPendingCall(Some(let_go), object.cast()) };
    }
}

/// Gives up a reference: what the main thread runs for `Owner`, between two instructions of its own.
extern "C" fn let_go(object: *mut c_void) -> c_int {
    // SAFETY: Python calls this with the GIL and with the reference that `Owner` passed.
    unsafe { ffi::Py_DecRef(object.cast()) };
    0
}

/// An array of Python's, as the package describes it.
#[derive(FromPyObject)]
pub(super) struct ForeignArray(String, String, usize, Vec<usize>, Vec<usize>, Py<PyAny>);

impl ForeignArray {
    /// The field that its rows are, and the array.
    pub(super) fn into_field(self) -> crate::Result<(Field, Array)> {
        let Self(name, dtype, address, shape, strides, owner) = self;
        let dtype: DType = dtype.parse()?;
        let reach: usize = shape.iter().zip(&strides).map(|(&size, &stride)| size.saturating_sub(1) * stride).sum();
        let bytes = if shape.contains(&0) { 0 } else { reach + dtype.bytes() };
        let address = NonNull::new(ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling());
        // SAFETY: the package passes the address, shape and strides of one array of `owner`'s (see the module's rationale),
        // so these bytes are its elements, and they live as long as the owner. An array without elements has no bytes.
        let segment = unsafe { Segment::foreign(address, bytes, Box::new(Owner(ManuallyDrop::new(owner)))) };
        let array = Array::new(Arc::new(segment), 0, dtype.bytes(), &shape, &strides)?;
        Ok((Field::new(name, dtype, shape.get(1..).unwrap_or_default()), array))
    }
}

/// A contiguous int64 array of indices, such as a permutation that torch drew, read by its address.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Indices {
    address: NonNull<i64>,
    len: usize,
    _owner: Py<PyAny>,
}

// SAFETY: the array is only read, and it lives as long as its owner, which is held.
unsafe impl Send for Indices {}
// SAFETY: as for `Send`.
unsafe impl Sync for Indices {}

#[pymethods]
impl Indices {
    /// `len` integers of 64 bits at `address`, which belong to `owner`.
    #[new]
    fn new(address: usize, len: usize, owner: Py<PyAny>) -> PyResult<Self> {
        let address = match NonNull::new(ptr::with_exposed_provenance_mut::<i64>(address)) {
            Some(address) if address.is_aligned() => address,
            None if len == 0 => NonNull::dangling(),
            _ => return Err(PyValueError::new_err(format!("{address:#x} is not the address of an int64 array"))),
        };
        Ok(Self { address, len, _owner: owner })
    }

    fn __len__(&self) -> usize {
        self.len
    }
}

impl Indices {
    /// The indices from `start` to `stop` as places in a dataset of `len` samples; nothing when one is out of range.
    pub(super) fn places(&self, start: usize, stop: usize, len: usize) -> Option<Vec<usize>> {
        let stop = stop.min(self.len);
        (start..stop)
            .map(|place| {
                // SAFETY: `place` is below the array's length, and the owner keeps the array. It is read by value, so
                // whoever writes to it meanwhile changes which index is read, and no more.
                wrap(unsafe { self.address.add(place).read_volatile() }, len)
            })
            .collect()
    }
}

// The C structures of DLPack 0.8 (https://dmlc.github.io/dlpack): the layout that every torch of our range reads.

#[repr(C)]
struct DLDevice {
    device_type: i32,
    device_id: i32,
}

const CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };

#[repr(C)]
#[derive(Clone, Copy)]
struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DLManagedTensor {
    tensor: DLTensor,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// One tensor on its way out: the structure that DLPack shows, first, and what it points to.
#[repr(C)]
struct Handover {
    managed: DLManagedTensor,
    shape: Box<[i64]>,
    lease: Arc<Lease>,
}

const UNUSED: &CStr = c"dltensor";

/// DLPack's code for `dtype`; a type that it does not know travels as bytes and is viewed as what it is.
fn dlpack_type(dtype: DType) -> DLDataType {
    let code = match dtype {
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => 0,
        DType::Float16 | DType::Float32 | DType::Float64 => 2,
        DType::BFloat16 => 4,
        DType::Complex32 | DType::Complex64 | DType::Complex128 => 5,
        DType::Bool => 6,
        _ => 1,
    };
    DLDataType { code, bits: (dtype.bytes() * 8) as u8, lanes: 1 }
}

/// A DLPack capsule of `field`, whose first byte is at `offset` of the slot. It holds the lease until it is consumed, and
/// the tensor made of it does from then on.
pub(super) fn capsule<'py>(
    py: Python<'py>,
    lease: &Arc<Lease>,
    offset: usize,
    field: &BatchField,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = field.shape.iter().product::<usize>() * field.dtype.bytes();
    assert!(offset + bytes <= lease.len(), "a field lies inside its slot");
    let shape: Box<[i64]> = field.shape.iter().map(|&size| size as i64).collect();
    let tensor = DLTensor {
        // SAFETY: the field lies inside the slot, as asserted, and the lease that keeps the slot goes with it.
        data: unsafe { lease.address().add(offset) }.as_ptr().cast(),
        device: CPU,
        ndim: shape.len() as i32,
        dtype: dlpack_type(field.dtype),
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = DLManagedTensor { tensor, manager: ptr::null_mut(), deleter: Some(give_back) };
    let mut handover = Box::new(Handover { managed, shape, lease: Arc::clone(lease) });
    // Now that the shape is where it stays.
    handover.managed.tensor.shape = handover.shape.as_mut_ptr();
    let handover = Box::into_raw(handover);
    // SAFETY: the pointer is valid until `give_back` frees it, the name is a static C string, and the GIL is held.
    let capsule = unsafe { ffi::PyCapsule_New(handover.cast(), UNUSED.as_ptr(), Some(drop_unused)) };
    if capsule.is_null() {
        // SAFETY: no capsule owns the handover, so this is its only owner.
        unsafe { give_back(handover.cast()) };
    }
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// DLPack's deleter: called once, by the tensor's last view, on any thread, without the GIL.
unsafe extern "C" fn give_back(managed: *mut DLManagedTensor) {
    // SAFETY: `managed` is the first field of a handover that `capsule` boxed, and its consumer calls this once.
    let handover = unsafe { Box::from_raw(managed.cast::<Handover>()) };
    drop((handover.shape, handover.lease));
}

/// The capsule's destructor: a consumer renames the capsule, so one that still has its name was never consumed.
unsafe extern "C" fn drop_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that is going, and holds the GIL.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNUSED.as_ptr()) == 1 {
            give_back(ffi::PyCapsule_GetPointer(capsule, UNUSED.as_ptr()).cast());
        }
    }
}
