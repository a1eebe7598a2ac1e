//! Fields as data for burn's tensors.

use burn_core::tensor::{TensorData, bf16, f16};

use crate::integration::refused;
use crate::{DType, FieldView, Result};

impl FieldView<'_> {
    /// Returns a copy of the elements of all samples as burn's tensor data, with the shape and data type of the field.
    /// Feature `burn`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if burn lacks the data type: complex numbers and 8-bit
    /// floats.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "burn-flex")] {
    /// use burn_core::tensor::{Device, Int, Tensor};
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let labels = InMemory::from_vec("label", vec![3_i64, 1, 2], [])?;
    /// let batch = DataLoader::builder(labels).batch_size(3).build()?.epoch(0)?.next().expect("three samples")?;
    /// let label = Tensor::<1, Int>::from_data(batch.field("label")?.to_burn()?, &Device::flex());
    /// assert_eq!(label.dims(), [3]);
    /// # }
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn to_burn(&self) -> Result<TensorData> {
        let shape = self.shape();
        let halves = || self.bytes().as_chunks().0.iter().map(|&half| u16::from_ne_bytes(half));
        Ok(match self.dtype() {
            DType::Bool => TensorData::new(self.bytes().iter().map(|&byte| byte != 0).collect(), shape),
            DType::UInt8 => TensorData::new(self.view::<u8>()?.to_vec(), shape),
            DType::Int8 => TensorData::new(self.view::<i8>()?.to_vec(), shape),
            DType::UInt16 => TensorData::new(self.view::<u16>()?.to_vec(), shape),
            DType::Int16 => TensorData::new(self.view::<i16>()?.to_vec(), shape),
            DType::UInt32 => TensorData::new(self.view::<u32>()?.to_vec(), shape),
            DType::Int32 => TensorData::new(self.view::<i32>()?.to_vec(), shape),
            DType::UInt64 => TensorData::new(self.view::<u64>()?.to_vec(), shape),
            DType::Int64 => TensorData::new(self.view::<i64>()?.to_vec(), shape),
            DType::Float16 => TensorData::new(halves().map(f16::from_bits).collect(), shape),
            DType::BFloat16 => TensorData::new(halves().map(bf16::from_bits).collect(), shape),
            DType::Float32 => TensorData::new(self.view::<f32>()?.to_vec(), shape),
            DType::Float64 => TensorData::new(self.view::<f64>()?.to_vec(), shape),
            other => return Err(refused(self.name(), other, "burn")),
        })
    }
}
