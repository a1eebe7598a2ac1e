//! [`StreamSample`]: one sample of a stream, for reading.

use crate::error::catch;
use crate::{Element, Error, Result, SampleBlock, TypedField};

/// One sample of a stream, as passed to an adaptor's closure.
#[derive(Clone, Copy)]
pub struct StreamSample<'a> {
    fields: &'a [TypedField],
    /// A block whose first sample is this one.
    block: &'a SampleBlock,
}

impl<'a> StreamSample<'a> {
    pub(super) fn new(fields: &'a [TypedField], block: &'a SampleBlock) -> Self {
        Self { fields, block }
    }

    /// Runs the user's `work` on it; a panic becomes an error that names the ordinal.
    pub(super) fn catch<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        catch(work).map_err(|error| match error {
            Error::Panic { index: None, message } => {
                Error::Panic { index: usize::try_from(self.ordinal()).ok(), message }
            }
            other => other,
        })
    }

    /// Returns its ordinal in the stream.
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        self.block.position(0).ordinal.saturating_sub(1)
    }

    /// Returns its fields.
    #[must_use]
    pub fn fields(&self) -> &'a [TypedField] {
        self.fields
    }

    /// Returns the bytes of field `field`, in C order.
    ///
    /// # Panics
    /// If there are not that many fields.
    #[must_use]
    pub fn bytes(&self, field: usize) -> &'a [u8] {
        self.block.value(field, 0)
    }

    /// Returns a copy of the elements of field `field`, in C order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field has a different data type, or there are not that many fields.
    pub fn to_vec<T: Element>(&self, field: usize) -> Result<Vec<T>> {
        let refused = |reason| Err(Error::invalid("field", reason));
        let Some(of) = self.fields.get(field).map(TypedField::field) else {
            let fields = self.fields.len();
            return refused(format!("there is no field {field} (counted from 0) in a sample of {fields}"));
        };
        if of.dtype() != T::DTYPE {
            return refused(format!("field `{}` holds {}, not {}", of.name(), of.dtype(), T::DTYPE));
        }
        Ok(self.bytes(field).chunks_exact(size_of::<T>()).map(T::from_ne_bytes).collect())
    }
}
