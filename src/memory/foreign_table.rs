//! [`ForeignTable`]: a table that another library of Arrow's holds.

use std::ptr;

use arrow_array::RecordBatch;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};

use crate::{Error, Result};

/// The batches of a table, none of whose values are copied: they belong to the library that it comes from, and are given
/// back to it when the last buffer of theirs is dropped, on whichever thread.
pub(crate) struct ForeignTable {
    batches: RecordBatchStreamReader,
}

impl ForeignTable {
    /// Takes over what the stream at `address` has, by Arrow's C stream interface. The stream is empty afterwards.
    ///
    /// Whoever calls it vouches for the address: it is what a capsule called `arrow_array_stream` holds. What the arrays
    /// claim is believed as far as their sizes go; the offsets in them are not.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there is no stream, or one that can't tell what it has.
    pub(crate) fn at(address: usize) -> Result<Self> {
        let stream = ptr::with_exposed_provenance_mut::<FFI_ArrowArrayStream>(address);
        if stream.is_null() || !stream.is_aligned() {
            return Err(refused(format!("{address:#x} is not the address of a stream")));
        }
        // SAFETY: the caller vouches for a stream at this address, which nobody else uses meanwhile (its capsule is the
        // caller's). It is moved out of there; what is left behind says that it was released.
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
    Error::InvalidArgument { argument: "table", reason }
}
