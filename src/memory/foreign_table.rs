//! [`ForeignTable`]: a table that another Arrow library owns.

use std::ptr;

use arrow_array::RecordBatch;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};

use crate::{Error, Result};

/// The batches of a table, without copying values: the values belong to the library that created them, and are released
/// to it when their last buffer is dropped, on any thread.
pub struct ForeignTable {
    batches: RecordBatchStreamReader,
}

impl ForeignTable {
    /// Takes over the contents of the stream at `address`, through Arrow's C stream interface. The stream is empty
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no stream, or it cannot report its contents.
    ///
    /// # Safety
    /// `address` must be the contents of a capsule named `arrow_array_stream` that no other code uses meanwhile. The
    /// sizes of the arrays are trusted; the offsets in them are not.
    pub unsafe fn at(address: usize) -> Result<Self> {
        let stream = ptr::with_exposed_provenance_mut::<FFI_ArrowArrayStream>(address);
        if stream.is_null() || !stream.is_aligned() {
            return Err(refused(format!("{address:#x} is not the address of a stream")));
        }
        // SAFETY: the caller guarantees a stream at this address that no other code uses meanwhile (its capsule is the
        // caller's). It is moved out; the structure left at the address is marked as released.
        let batches = unsafe { RecordBatchStreamReader::from_raw(stream) };
        Ok(Self { batches: batches.map_err(|error| refused(error.to_string()))? })
    }
}

impl Iterator for ForeignTable {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next().map(|batch| batch.map_err(|error| refused(error.to_string())))
    }
}

fn refused(reason: String) -> Error {
    Error::invalid("table", reason)
}
