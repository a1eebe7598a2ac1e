//! [`Integers`]: a Python array of integers of any width.

use sluicegate::internal::Array;
use sluicegate::{DType, Element, Error, Result};

use super::memory::ForeignArray;

/// A one-dimensional array of integers, read as int64. Its contents may change between two reads.
pub(super) struct Integers {
    array: Array,
    dtype: DType,
    /// The name of the argument, for error messages.
    argument: &'static str,
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Integers {
    /// Wraps the integers of `array`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it does not have one axis, or does not contain integers.
    pub(super) fn new(argument: &'static str, array: ForeignArray) -> Result<Self> {
        let (field, array) = array.into_field()?;
        let dtype = field.dtype();
        let is_integer = matches!(
            dtype,
            DType::Bool
                | DType::Int8
                | DType::Int16
                | DType::Int32
                | DType::Int64
                | DType::UInt8
                | DType::UInt16
                | DType::UInt32
        );
        if !is_integer || !field.shape().is_empty() {
            let reason = format!("expected integers along one axis, but got {field}");
            return Err(Error::InvalidArgument { argument, reason });
        }
        Ok(Self { array, dtype, argument, bytes: Vec::new(), places: Vec::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.array.len()
    }

    /// Fills `into` with the integers from `start` on.
    pub(super) fn read(&mut self, start: usize, into: &mut [i64]) -> Result<()> {
        self.places.clear();
        self.places.extend(start..start + into.len());
        self.bytes.resize(into.len() * self.dtype.bytes(), 0);
        self.array.gather(&self.places, &mut self.bytes)?;
        match self.dtype {
            DType::Bool | DType::UInt8 => self.widen::<u8>(into),
            DType::Int8 => self.widen::<i8>(into),
            DType::Int16 => self.widen::<i16>(into),
            DType::UInt16 => self.widen::<u16>(into),
            DType::Int32 => self.widen::<i32>(into),
            DType::UInt32 => self.widen::<u32>(into),
            DType::Int64 => self.widen::<i64>(into),
            other => {
                let reason = format!("expected integers, but got {other}");
                return Err(Error::InvalidArgument { argument: self.argument, reason });
            }
        }
        Ok(())
    }

    fn widen<T: Element + Into<i64>>(&self, into: &mut [i64]) {
        for (into, bytes) in into.iter_mut().zip(self.bytes.chunks_exact(size_of::<T>())) {
            *into = T::from_ne_bytes(bytes).into();
        }
    }
}
