//! [`make_room`]: allocates memory for bytes of a file, or fails.

use crate::{Error, Result};

/// Resizes `buffer` to `bytes` bytes, of any value. A file may have samples of gigabytes: an allocation that fails must
/// not end the process.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn make_room(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    if buffer.try_reserve(bytes.saturating_sub(buffer.len())).is_err() {
        return Err(Error::OutOfMemory { bytes, source: std::io::ErrorKind::OutOfMemory.into() });
    }
    buffer.resize(bytes, 0);
    Ok(())
}
