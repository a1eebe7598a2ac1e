//! Memory across the language border: Python arrays and samples that Rust reads, and our slots that become tensors.
//!
//! # Rationale
//! An address from Python is trusted: `sluicegate._core` is private, and the package passes `tensor.data_ptr()` or the
//! address of a NumPy array together with the object that owns it. The owner is held until the last reader is gone; the
//! package checks before each batch that the owner still has its memory there.
//!
//! Samples expose their memory: tensors by DLPack's exchange API, arrays by Python's buffers; [`Views`] holds them.
//!
//! A slot leaves as DLPack capsules, one per field, which share one [`Lease`]. Columns of a slot do not overlap, and no
//! other slot overlaps this one, so tensors never alias. The deleter drops its share of the lease and touches no Python
//! object: it runs on any thread, with or without the GIL, even while the interpreter shuts down.
#![expect(unsafe_code, reason = "one of the two places that handle addresses; every block says why it is sound")]

mod foreign;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use sluicegate::internal::{Array, Lease, Scattered, Segment, WorkerEnd};
use sluicegate::{DType, Field};

pub(super) use self::foreign::{table_at, words_at};
use super::convert::buffer_type;
use super::dlpack::{CPU, DLManagedTensor, DLTensor, ExchangeApi, dlpack_type, travels_as_bytes};
use super::error::to_python;
use super::pinned_block::PinnedBlock;
use super::positions::Positions;

/// Keeps a Python object alive on behalf of Rust, and releases it soon after it is dropped, on any thread.
pub(super) struct Owner(pub(super) ManuallyDrop<Py<PyAny>>);

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let object = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: both may be called on any thread, with or without the GIL.
        let can_drop = unsafe { ffi::Py_IsInitialized() == 0 || !ffi::PyGILState_GetThisThreadState().is_null() };
        if can_drop {
            return drop(object);
        }
        // A pool thread must not wait for the GIL, and pyo3 would keep the object until this library is next called.
        // SAFETY: may be called without the GIL; `decrement_reference` receives the reference that was taken here, once.
        // A queue that is full does not take it; then it is leaked.
        unsafe { ffi::Py_AddPendingCall(Some(decrement_reference), object.into_ptr().cast()) };
    }
}

/// Releases a reference. The main thread runs this for `Owner`, between two of its instructions.
extern "C" fn decrement_reference(object: *mut c_void) -> c_int {
    // SAFETY: Python calls this with the GIL and with the reference that `Owner` passed.
    unsafe { ffi::Py_DecRef(object.cast()) };
    0
}

/// Returns a lease on each block of these sizes in bytes, which `allocate` returns in one object.
pub(super) fn pinned_leases(allocate: &Bound<'_, PyAny>, sizes: Vec<usize>) -> PyResult<Vec<Lease>> {
    let blocks = allocate.call1((PyTuple::new(allocate.py(), &sizes)?,))?;
    let addresses: Vec<usize> = blocks.getattr("addresses")?.extract()?;
    let blocks = Arc::new(Owner(ManuallyDrop::new(blocks.unbind())));
    let lease = |(number, (address, bytes)): (usize, (usize, usize))| {
        let address = NonNull::new(ptr::with_exposed_provenance_mut(address)).filter(|at| at.addr().get() % 64 == 0);
        let address = address.ok_or_else(|| PyValueError::new_err("a block must be aligned to 64 bytes"))?;
        let owner = Box::new(PinnedBlock::new(Arc::clone(&blocks), number));
        // SAFETY: the package allocated these bytes for this (see the module's rationale): no other code has them, and
        // they live as long as the object. Whatever another library's allocator left in them is acceptable.
        Ok(unsafe { Lease::foreign(address, bytes, owner) })
    };
    addresses.into_iter().zip(sizes).enumerate().map(lease).collect()
}

/// A Python array, as described by the package.
#[derive(FromPyObject)]
pub(super) struct ForeignArray(String, String, usize, Vec<usize>, Vec<usize>, Py<PyAny>);

impl ForeignArray {
    /// Returns the field that its rows form, and the array.
    pub(super) fn into_field(self) -> sluicegate::Result<(Field, Array)> {
        let Self(name, dtype, address, shape, strides, owner) = self;
        let dtype: DType = dtype.parse()?;
        let reach: usize = shape.iter().zip(&strides).map(|(&size, &stride)| size.saturating_sub(1) * stride).sum();
        let bytes = if shape.contains(&0) { 0 } else { reach + dtype.bytes() };
        let address = NonNull::new(ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling());
        // SAFETY: the package passes the address, shape, and strides of one array of `owner` (see the rationale above),
        // so these bytes are its elements, and they live as long as the owner. An empty array has no bytes.
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
    /// Wraps `len` integers of 64 bits at `address`, which belong to `owner`.
    #[new]
    fn new(address: usize, len: usize, owner: Py<PyAny>) -> PyResult<Self> {
        let address = match NonNull::new(ptr::with_exposed_provenance_mut::<i64>(address)) {
            Some(address) if address.is_aligned() => address,
            None if len == 0 => NonNull::dangling(),
            _ => return Err(PyValueError::new_err(format!("{address:#x} is not the address of an int64 array"))),
        };
        Ok(Self { address, len, _owner: owner })
    }

    pub(super) fn __len__(&self) -> usize {
        self.len
    }
}

impl Indices {
    /// Returns the positions that indices `start` to `stop` stand for; None if one is out of range.
    pub(super) fn places(&self, start: usize, stop: usize, positions: Positions) -> Option<Vec<usize>> {
        (start..stop.min(self.len))
            .map(|place| {
                // SAFETY: `place` is below the array's length, and the owner keeps the array. It is read by value, so
                // a concurrent write changes only which index is read.
                positions.find(unsafe { self.address.add(place).read_volatile() })
            })
            .collect()
    }
}

/// A tensor being handed over: the structure that DLPack exposes comes first, then what it points to.
#[repr(C)]
struct Handover {
    managed: DLManagedTensor,
    shape: Box<[i64]>,
    owner: Arc<dyn Send + Sync>,
}

const UNUSED: &CStr = c"dltensor";

/// Returns a DLPack capsule of the tensor whose first byte is at `offset` in the slot. It holds the lease until it is
/// consumed; from then on, the tensor made from it holds the lease.
pub(super) fn capsule<'py>(
    py: Python<'py>,
    lease: &Arc<Lease>,
    offset: usize,
    (dtype, shape): (DType, &[usize]),
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = shape.iter().fold(dtype.bytes(), |bytes, &axis| bytes.saturating_mul(axis));
    assert!(offset.saturating_add(bytes) <= lease.len(), "a tensor lies inside its slot");
    // SAFETY: the tensor is inside the slot, as asserted, and the lease that keeps the slot goes with it.
    let address = unsafe { lease.address().add(offset) };
    hand_over(py, address, dtype, shape, Arc::clone(lease) as Arc<dyn Send + Sync>)
}

/// Returns a DLPack capsule of tensor `field` of the batch that this worker is making, to be written at once: the
/// memory stays mapped as long as the tensor lives, but belongs to the batch only until the next tensor is placed.
pub(super) fn making_capsule<'py>(
    py: Python<'py>,
    end: &mut WorkerEnd,
    field: usize,
    (dtype, shape): (DType, &[usize]),
) -> PyResult<Bound<'py, PyAny>> {
    let (address, segment) = end.address(field).map_err(|error| to_python(py, error))?;
    hand_over(py, address, dtype, shape, segment)
}

/// Returns a DLPack capsule of the tensor at `address`, which `owner` keeps mapped.
fn hand_over<'py>(
    py: Python<'py>,
    address: NonNull<u8>,
    dtype: DType,
    shape: &[usize],
    owner: Arc<dyn Send + Sync>,
) -> PyResult<Bound<'py, PyAny>> {
    let shape: Box<[i64]> = shape.iter().map(|&number| number as i64).collect();
    let tensor = DLTensor {
        data: address.as_ptr().cast(),
        device: CPU,
        ndim: shape.len() as i32,
        dtype: dlpack_type(dtype),
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = DLManagedTensor { tensor, manager: ptr::null_mut(), deleter: give_back as *const c_void };
    let mut handover = Box::new(Handover { managed, shape, owner });
    // The shape no longer moves.
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

/// Returns the descriptors with these numbers.
pub(super) fn descriptors<'a>(numbers: &[RawFd]) -> Vec<BorrowedFd<'a>> {
    // SAFETY: the package passes descriptors that it keeps open during the call (see the module's rationale).
    numbers.iter().map(|&number| unsafe { BorrowedFd::borrow_raw(number) }).collect()
}

/// DLPack's deleter: called once, for the tensor's last view, on any thread, without the GIL.
unsafe extern "C" fn give_back(managed: *mut DLManagedTensor) {
    // SAFETY: `managed` is the first field of a handover that `capsule` boxed, and its consumer calls this once.
    let handover = unsafe { Box::from_raw(managed.cast::<Handover>()) };
    drop((handover.shape, handover.owner));
}

/// The capsule's destructor: a consumer renames the capsule, so one that still has its name was never consumed.
unsafe extern "C" fn drop_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that is being destroyed, and holds the GIL.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNUSED.as_ptr()) == 1 {
            give_back(ffi::PyCapsule_GetPointer(capsule, UNUSED.as_ptr()).cast());
        }
    }
}

type ShowTensor = unsafe extern "C" fn(*mut ffi::PyObject, *mut DLTensor) -> c_int;

/// Torch's function that exposes the memory of a tensor, in versions that have one.
pub(super) struct TensorAccess {
    class: Py<PyType>,
    show: ShowTensor,
}

impl TensorAccess {
    /// Returns the function for tensors of exactly this class.
    pub(super) fn of(class: &Bound<'_, PyType>) -> Option<Self> {
        let capsule = class.getattr("__dlpack_c_exchange_api__").ok()?;
        // SAFETY: the GIL is held; an object that is not such a capsule gives null and an exception.
        let address = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr()) };
        drop(PyErr::take(class.py()));
        let mut table = address.cast_const().cast::<ExchangeApi>();
        while !table.is_null() {
            // SAFETY: DLPack promises that a table lives as long as the process, that its header is as declared here in
            // every version, and that in every version 1 the rest is, too, with a function of this type or null.
            unsafe {
                if (*table).major == 1 {
                    let show: Option<ShowTensor> = std::mem::transmute((*table).show);
                    return show.map(|show| Self { class: class.clone().unbind(), show });
                }
                table = (*table).previous;
            }
        }
        None
    }
}

/// Python's `Py_buffer`: part of the stable ABI since 3.11, and the same before that.
#[repr(C)]
struct Buffer {
    address: *mut c_void,
    _owner: *mut ffi::PyObject,
    _len: isize,
    item_bytes: isize,
    _readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    _suboffsets: *mut isize,
    _internal: *mut c_void,
}

/// `PyBUF_RECORDS_RO`: shape, strides and format, for reading.
const STRIDES_AND_FORMAT: c_int = 0x1c;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, buffer: *mut Buffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(buffer: *mut Buffer);
}

/// A buffer that was acquired. Not `Send`: it is released with the GIL held.
struct HeldBuffer(Buffer);

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        // SAFETY: it was acquired, it is released once, and its holder also holds a `Bound`, so the GIL is held.
        unsafe { PyBuffer_Release(&mut self.0) };
    }
}

/// Samples of one data type and shape, each in its owner's memory. The samples and their buffers are held.
pub(super) struct Views<'py> {
    rows: Scattered,
    dtype: DType,
    buffers: Vec<HeldBuffer>,
    _samples: Bound<'py, PyTuple>,
}

impl<'py> Views<'py> {
    /// Returns the memory of tensors of data type `dtype`; None if one is not of the accessed class, has a different
    /// type or shape, or is not dense CPU memory. A tensor's flags (conjugated, requires a gradient) are not checked.
    pub(super) fn of_tensors(access: &TensorAccess, dtype: DType, samples: &Bound<'py, PyTuple>) -> Option<Self> {
        let mut rows = Scattered::new(dtype.bytes(), samples.len());
        let expected = dlpack_type(dtype);
        for sample in samples.iter_borrowed() {
            let mut shown = MaybeUninit::<DLTensor>::uninit();
            if sample.get_type_ptr() != access.class.as_ptr().cast()
                // SAFETY: the function belongs to this class, the GIL is held, and there is room to write to.
                || unsafe { (access.show)(sample.as_ptr(), shown.as_mut_ptr()) } != 0
            {
                drop(PyErr::take(samples.py()));
                return None;
            }
            // SAFETY: zero means that it was written.
            let tensor = unsafe { shown.assume_init() };
            let is_expected = (tensor.dtype.bits, tensor.dtype.lanes) == (expected.bits, expected.lanes)
                && (tensor.dtype.code == expected.code || travels_as_bytes(dtype));
            if tensor.device.device_type != CPU.device_type || tensor.byte_offset != 0 || !is_expected {
                return None;
            }
            // SAFETY: torch has just exposed them, and the tensor has had no chance to change since. The samples are
            // held; code that takes a tensor's storage away while it is collated takes it away from torch as well.
            unsafe {
                let shape = extents(tensor.shape.cast(), tensor.ndim)?;
                rows.push(tensor.data.cast(), shape, extents(tensor.strides.cast(), tensor.ndim)?, dtype.bytes())?;
            }
        }
        Some(Self { rows, dtype, buffers: Vec::new(), _samples: samples.clone() })
    }

    /// Returns the memory of NumPy arrays or scalars; None if one differs in type or shape from the first, or has a
    /// type that torch makes no tensors from.
    pub(super) fn of_arrays(samples: &Bound<'py, PyTuple>) -> Option<Self> {
        let mut views: Option<Self> = None;
        for sample in samples.iter_borrowed() {
            let mut shown = MaybeUninit::<Buffer>::uninit();
            // SAFETY: the GIL is held, and there is room to write to.
            if unsafe { PyObject_GetBuffer(sample.as_ptr(), shown.as_mut_ptr(), STRIDES_AND_FORMAT) } != 0 {
                drop(PyErr::take(samples.py()));
                return None;
            }
            // SAFETY: zero means that it was written.
            let held = HeldBuffer(unsafe { shown.assume_init() });
            let HeldBuffer(buffer) = &held;
            if buffer.format.is_null() {
                return None;
            }
            // SAFETY: a format is a C string, valid as long as the buffer.
            let dtype = buffer_type(unsafe { CStr::from_ptr(buffer.format) }, buffer.item_bytes)?;
            let views = views.get_or_insert_with(|| {
                let (rows, buffers) = (Scattered::new(dtype.bytes(), samples.len()), Vec::with_capacity(samples.len()));
                Self { rows, dtype, buffers, _samples: samples.clone() }
            });
            if dtype != views.dtype {
                return None;
            }
            // SAFETY: the array has just exposed them, and keeps its memory until the views release the buffer.
            unsafe {
                let shape = extents(buffer.shape.cast(), buffer.ndim)?;
                views.rows.push(buffer.address.cast(), shape, extents(buffer.strides.cast(), buffer.ndim)?, 1)?;
            }
            views.buffers.push(held);
        }
        views
    }

    /// Returns the rows, which may be copied without the GIL.
    pub(super) fn rows(&self) -> &Scattered {
        &self.rows
    }

    /// Returns the data type of the elements.
    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }
}

/// Returns `ndim` sizes or strides; a negative one is larger than any address. Returns None if there are none to read.
///
/// # Safety
/// There must be that many 64-bit integers at `address`, unless it is null, for as long as they are used.
unsafe fn extents<'a>(address: *const usize, ndim: c_int) -> Option<&'a [usize]> {
    const { assert!(size_of::<usize>() == 8, "DLPack's are 64 bits wide, Python's as wide as an address") };
    match usize::try_from(ndim).ok()? {
        0 => Some(&[]),
        _ if address.is_null() => None,
        // SAFETY: the caller's promise.
        ndim => Some(unsafe { std::slice::from_raw_parts(address, ndim) }),
    }
}
