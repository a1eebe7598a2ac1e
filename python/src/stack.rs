//! `Kinds`: the classes of samples that the core can stack; [`Rows`]: samples of the same kind.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use sluicegate::internal::Lease;
use sluicegate::{BatchField, DType};

use super::detach::detach;
use super::dlpack::travels_as_bytes;
use super::error::to_python;
use super::memory::{TensorAccess, Views};
use super::pinned_block::leased_tensor;

/// From this size in bytes on, a copy takes longer than another thread should wait for the GIL.
const LARGE: usize = 256 << 10;

/// Querying a tensor's flags and memory takes twice as long as torch takes to stack a small one; from this size in
/// bytes on, reusing memory saves more than that.
const SMALL_TENSOR: usize = 16 << 10;

/// The classes whose objects the core stacks as torch's default collate would, and torch's functions for it.
///
/// Objects of any other class, including subclasses, are left to torch: they may mean anything.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Kinds {
    /// None in versions of torch that do not expose the memory of tensors.
    access: Option<TensorAccess>,
    tensor: Py<PyType>,
    /// Methods of a tensor that return true if its values are not those that its bytes show.
    flags: Vec<Py<PyString>>,
    /// Torch's data types, with the core's.
    dtypes: Vec<(Py<PyAny>, DType)>,
    arrays: Vec<Py<PyType>>,
    scalars: Vec<(Py<PyType>, DType)>,
    from_dlpack: Py<PyAny>,
}

#[pymethods]
impl Kinds {
    /// Stacks tensors of class `tensor`, none of whose `flags` (methods) returns true, of data types `dtypes`; NumPy's
    /// `arrays` and `scalars`; and Python's `int`, `float`, and `bool`. `from_dlpack` makes a tensor from a capsule.
    #[new]
    fn new(
        tensor: Bound<'_, PyType>,
        flags: Vec<Py<PyString>>,
        dtypes: Vec<(Py<PyAny>, String)>,
        arrays: Vec<Py<PyType>>,
        scalars: Vec<(Py<PyType>, String)>,
        from_dlpack: Py<PyAny>,
    ) -> PyResult<Self> {
        let py = tensor.py();
        let parse = |name: String| name.parse().map_err(|error| to_python(py, error));
        Ok(Self {
            access: TensorAccess::of(&tensor),
            tensor: tensor.unbind(),
            flags,
            dtypes: dtypes.into_iter().map(|(known, name)| Ok((known, parse(name)?))).collect::<PyResult<_>>()?,
            arrays,
            scalars: scalars.into_iter().map(|(class, name)| Ok((class, parse(name)?))).collect::<PyResult<_>>()?,
            from_dlpack,
        })
    }
}

impl Kinds {
    /// Returns the tensor whose first byte is at `offset` in the slot.
    pub(super) fn tensor<'py>(
        &self,
        py: Python<'py>,
        lease: &Arc<Lease>,
        offset: usize,
        (dtype, shape): (DType, &[usize]),
    ) -> PyResult<Bound<'py, PyAny>> {
        self.viewed(leased_tensor(self.from_dlpack.bind(py), lease, offset, (dtype, shape))?, dtype)
    }

    /// Returns a tensor of the memory in `capsule`, which holds `dtype`.
    pub(super) fn of_capsule<'py>(&self, capsule: Bound<'py, PyAny>, dtype: DType) -> PyResult<Bound<'py, PyAny>> {
        self.viewed(self.from_dlpack.bind(capsule.py()).call1((capsule,))?, dtype)
    }

    fn viewed<'py>(&self, tensor: Bound<'py, PyAny>, dtype: DType) -> PyResult<Bound<'py, PyAny>> {
        if !travels_as_bytes(dtype) {
            return Ok(tensor);
        }
        let torchs = self.dtypes.iter().find(|known| known.1 == dtype).map(|known| &known.0);
        tensor.call_method1(intern!(tensor.py(), "view"), (torchs,))
    }

    /// Returns the memory of tensors; None if torch must handle them itself, for example if a query fails.
    fn views_of_tensors<'py>(&self, samples: &Bound<'py, PyTuple>) -> Option<Views<'py>> {
        let py = samples.py();
        let access = self.access.as_ref()?;
        let first = samples.get_item(0).ok()?;
        let torchs = first.getattr(intern!(py, "dtype")).ok()?;
        let &(_, dtype) = self.dtypes.iter().find(|known| known.0.is(&torchs))?;
        if first.getattr(intern!(py, "nbytes")).ok()?.extract::<usize>().ok()? < SMALL_TENSOR {
            return None;
        }
        // Packed integers show up as bytes, and DLPack does not distinguish the types that are passed as bytes.
        let is_ambiguous = dtype.bytes() == 1 && dtype != DType::Bool;
        let is_complex = matches!(dtype, DType::Complex32 | DType::Complex64 | DType::Complex128);
        // All are checked before any memory is read, because torch's methods let other threads run.
        for sample in samples.iter_borrowed() {
            if !has_exact_type(&sample, &self.tensor)
                || sample.getattr(intern!(py, "requires_grad")).ok()?.is_truthy().ok()?
                || (is_complex && sample.call_method0(intern!(py, "is_conj")).ok()?.is_truthy().ok()?)
                || (is_ambiguous && !sample.getattr(intern!(py, "dtype")).ok()?.is(&torchs))
            {
                return None;
            }
            for flag in &self.flags {
                if sample.call_method0(flag.bind(py)).ok()?.is_truthy().ok()? {
                    return None;
                }
            }
        }
        Views::of_tensors(access, dtype, samples)
    }

    /// Returns the data type of a tensor of numbers like `first`, if it is a number.
    fn number_type(&self, first: &Bound<'_, PyAny>) -> Option<DType> {
        if first.is_exact_instance_of::<PyInt>() {
            Some(DType::Int64)
        } else if first.is_exact_instance_of::<PyFloat>() {
            Some(DType::Float64)
        } else if first.is_exact_instance_of::<PyBool>() {
            Some(DType::Bool)
        } else {
            self.scalars.iter().find(|scalar| has_exact_type(first, &scalar.0)).map(|scalar| scalar.1)
        }
    }
}

/// Returns the elements of the tensor of `dtype` that torch makes from these numbers; None if one is out of range, or
/// the type is not one that Python's own numbers convert to.
fn numbers(samples: &Bound<'_, PyTuple>, dtype: DType) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(samples.len() * dtype.bytes());
    for sample in samples.iter_borrowed() {
        match dtype {
            DType::Bool => bytes.push(sample.is_truthy().ok()?.into()),
            DType::Int64 => bytes.extend_from_slice(&sample.extract::<i64>().ok()?.to_ne_bytes()),
            DType::Int32 => bytes.extend_from_slice(&sample.extract::<i32>().ok()?.to_ne_bytes()),
            DType::UInt8 => bytes.push(sample.extract::<u8>().ok()?),
            DType::Float64 => bytes.extend_from_slice(&sample.extract::<f64>().ok()?.to_ne_bytes()),
            DType::Float32 => bytes.extend_from_slice(&(sample.extract::<f64>().ok()? as f32).to_ne_bytes()),
            _ => return None,
        }
    }
    Some(bytes)
}

/// True if `object` is of `class`, but not of a subclass.
fn has_exact_type(object: &Bound<'_, PyAny>, class: &Py<PyType>) -> bool {
    object.get_type_ptr() == class.as_ptr().cast()
}

/// Samples of one kind, data type, and shape, which become one tensor of a batch.
pub(super) struct Rows<'py> {
    field: BatchField,
    bytes: usize,
    elements: Elements<'py>,
}

enum Elements<'py> {
    /// Numbers, already as the bytes of a tensor.
    Numbers(Vec<u8>),
    Foreign(Views<'py>),
}

impl<'py> Rows<'py> {
    /// Returns the samples in a list or tuple as rows of one tensor; None if torch must stack them itself.
    pub(super) fn of(samples: &Bound<'py, PyAny>, kinds: &Kinds) -> Option<Self> {
        // A separate tuple, which no other thread changes.
        let samples = match samples.cast_exact::<PyList>() {
            Ok(list) => list.to_tuple(),
            Err(_) => samples.cast_exact::<PyTuple>().ok()?.clone(),
        };
        let first = samples.get_item(0).ok()?;
        let is_array = |sample: &Bound<'_, PyAny>| kinds.arrays.iter().any(|array| has_exact_type(sample, array));
        let views = if has_exact_type(&first, &kinds.tensor) {
            kinds.views_of_tensors(&samples)?
        } else if is_array(&first) {
            samples.iter_borrowed().all(|sample| is_array(&sample)).then(|| Views::of_arrays(&samples))??
        } else {
            let dtype = kinds.number_type(&first)?;
            let class = first.get_type_ptr();
            if samples.iter_borrowed().any(|sample| sample.get_type_ptr() != class) {
                return None;
            }
            if let Some(bytes) = numbers(&samples, dtype) {
                let field = BatchField { name: String::new(), dtype, shape: vec![samples.len()] };
                return Some(Self { field, bytes: bytes.len(), elements: Elements::Numbers(bytes) });
            }
            // The rest are NumPy scalars, which expose their memory like arrays, and `int`s that are too large.
            (!first.is_instance_of::<PyInt>()).then(|| Views::of_arrays(&samples))??
        };
        let rows = views.rows();
        let bytes = rows.bytes_per_row().checked_mul(rows.len())?;
        let shape = [&[rows.len()], rows.shape()].concat();
        let field = BatchField { name: String::new(), dtype: views.dtype(), shape };
        Some(Self { field, bytes, elements: Elements::Foreign(views) })
    }

    /// Returns the field of a batch that the rows form.
    pub(super) fn field(&self) -> &BatchField {
        &self.field
    }

    /// Returns the size of all rows in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies the rows to `into`, in sequence; large ones without the GIL.
    ///
    /// # Panics
    /// If `into` is not as long as the rows.
    pub(super) fn copy_into(&self, py: Python<'py>, into: &mut [u8]) -> PyResult<()> {
        match &self.elements {
            Elements::Numbers(bytes) => into.copy_from_slice(bytes),
            Elements::Foreign(views) if self.bytes < LARGE => views.rows().copy_into(into),
            Elements::Foreign(views) => {
                let rows = views.rows();
                detach(py, || {
                    rows.copy_into(into);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// True if torch, too, stacks these in C order if it is free to choose the layout.
    ///
    /// It does, except for rows of four or five axes in channels-last layout, which the batch adopts.
    pub(super) fn stack_in_c_order(&self) -> bool {
        match &self.elements {
            Elements::Numbers(_) => true,
            Elements::Foreign(views) => {
                let rows = views.rows();
                rows.strides().all(|strides| !is_channels_last(rows.shape(), strides))
            }
        }
    }
}

/// Implements c10's `is_channels_last_strides_2d` and `_3d` (`c10/core/MemoryFormat.h`), which depend only on the order
/// of the strides, in any unit.
fn is_channels_last(shape: &[usize], strides: &[usize]) -> bool {
    if !matches!(shape.len(), 4 | 5) || strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for axis in [1].into_iter().chain((2..shape.len()).rev()).chain([0]) {
        if shape[axis] == 0 || strides[axis] < least || (axis == 0 && least == strides[1]) {
            return false;
        }
        least = strides[axis].saturating_mul(if shape[axis] > 1 { shape[axis] } else { 1 });
    }
    true
}
