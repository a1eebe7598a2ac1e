//! [`make_room`]: memory for bytes of a file, or an error.

use crate::{Error, Result};

/// Makes `buffer` have `bytes` bytes, whatever they are. A file may have samples of gigabytes: without memory for one the
/// process would end.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(in crate::dataset::format) fn make_room(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    if buffer.try_reserve(bytes.saturating_sub(buffer.len())).is_err() {
        return Err(Error::OutOfMemory { bytes, source: std::io::ErrorKind::OutOfMemory.into() });
    }
    buffer.resize(bytes, 0);
    Ok(())
}
