//! Fields as candle tensors, and datasets of such tensors.

use std::sync::Arc;

use candle_core::{CpuStorage, DType as CandleDType, Device, Storage, Tensor};

use super::refused;
use crate::memory::{Array, Segment};
use crate::{DType, Error, Field, FieldView, InMemory, Result};

impl FieldView<'_> {
    /// Returns the elements of all samples as a tensor of [`shape`](Self::shape) on `device`: one copy, which the
    /// tensor owns. Booleans become uint8, which candle's own comparisons return. Feature `candle`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if candle lacks the data type: int8, uint16, uint64, complex numbers, and some 8-bit
    /// floats; [`Error::User`] with candle's own error if the device fails.
    ///
    /// # Example
    /// ```
    /// use candle_core::Device;
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let points = InMemory::from_vec("point", vec![1.0_f32, 2.0, 3.0, 4.0], [2])?;
    /// let batch = DataLoader::builder(points).batch_size(2).build()?.epoch(0)?.next().expect("two samples")?;
    /// let point = batch.field("point")?.to_candle(&Device::Cpu)?;
    /// assert_eq!(point.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_candle(&self, device: &Device) -> Result<Tensor> {
        let dtype = match self.dtype() {
            DType::Bool | DType::UInt8 => CandleDType::U8,
            DType::UInt32 => CandleDType::U32,
            DType::Int16 => CandleDType::I16,
            DType::Int32 => CandleDType::I32,
            DType::Int64 => CandleDType::I64,
            DType::BFloat16 => CandleDType::BF16,
            DType::Float16 => CandleDType::F16,
            DType::Float32 => CandleDType::F32,
            DType::Float64 => CandleDType::F64,
            DType::Float8E4M3Fn => CandleDType::F8E4M3,
            DType::Float8E8M0Fnu => CandleDType::F8E8M0,
            other => return Err(refused(self.name(), other, "candle")),
        };
        Tensor::from_raw_buffer(self.bytes(), dtype, self.shape(), device).map_err(foreign)
    }
}

impl InMemory {
    /// Returns a dataset of one field over `tensor`, whose first axis counts the samples: one copy, from any device.
    /// Feature `candle`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the tensor has no axis, or contains 4-bit or 6-bit floats; [`Error::User`] with
    /// candle's own error if the device fails.
    ///
    /// # Example
    /// ```
    /// use candle_core::{Device, Tensor};
    /// use sluicegate::{Dataset, InMemory};
    ///
    /// let points = Tensor::new(&[[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]], &Device::Cpu)?;
    /// assert_eq!(InMemory::from_candle("point", &points)?.schema().to_string(), "(point: float32[2])");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_candle(name: &str, tensor: &Tensor) -> Result<Self> {
        let refuse = |reason| Error::invalid("tensor", reason);
        let Some(shape) = tensor.dims().get(1..) else {
            return Err(refuse("a scalar has no first axis, which must count the samples".into()));
        };
        let tensor = tensor.to_device(&Device::Cpu).and_then(|tensor| tensor.contiguous()).map_err(foreign)?;
        let (storage, layout) = tensor.storage_and_layout();
        let (Storage::Cpu(storage), Some((start, end))) = (&*storage, layout.contiguous_offsets()) else {
            return Err(refuse("candle did not copy it to memory".into()));
        };
        let part = start..end;
        let (dtype, values) = match storage {
            CpuStorage::U8(values) => (DType::UInt8, Segment::from_vec(values[part].to_vec())),
            CpuStorage::U32(values) => (DType::UInt32, Segment::from_vec(values[part].to_vec())),
            CpuStorage::I16(values) => (DType::Int16, Segment::from_vec(values[part].to_vec())),
            CpuStorage::I32(values) => (DType::Int32, Segment::from_vec(values[part].to_vec())),
            CpuStorage::I64(values) => (DType::Int64, Segment::from_vec(values[part].to_vec())),
            CpuStorage::F32(values) => (DType::Float32, Segment::from_vec(values[part].to_vec())),
            CpuStorage::F64(values) => (DType::Float64, Segment::from_vec(values[part].to_vec())),
            CpuStorage::F8E8M0(values) => (DType::Float8E8M0Fnu, Segment::from_vec(values[part].to_vec())),
            CpuStorage::BF16(values) => (DType::BFloat16, bits(&values[part], |value| value.to_bits())),
            CpuStorage::F16(values) => (DType::Float16, bits(&values[part], |value| value.to_bits())),
            CpuStorage::F8E4M3(values) => (DType::Float8E4M3Fn, bits(&values[part], |value| value.to_bits())),
            CpuStorage::F6E2M3(_) | CpuStorage::F6E3M2(_) | CpuStorage::F4(_) => {
                return Err(refuse(format!("it holds {:?}, whose elements are not whole bytes", tensor.dtype())));
            }
        };
        let rows = Array::contiguous(Arc::new(values), 0, dtype.bytes(), tensor.dims())?;
        Self::new(vec![(Field::new(name, dtype, shape), rows)])
    }
}

/// Returns the bits of `values`, whose type is not one of our element types.
fn bits<T, U: crate::Element>(values: &[T], bits: impl Fn(&T) -> U) -> Segment {
    Segment::from_vec(values.iter().map(bits).collect())
}

fn foreign(error: candle_core::Error) -> Error {
    Error::User(Box::new(error))
}
