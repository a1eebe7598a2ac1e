//! [`NestedRoom`]: a bounded buffer for the encoded values of a nested column.

use super::Reason;
use super::nested_type::len_bytes;

/// A bounded buffer for encoded values.
pub(super) struct NestedRoom {
    pub(super) bytes: Vec<u8>,
    most: usize,
    /// True if a null was found that is refused.
    pub(super) is_broken: bool,
}

impl NestedRoom {
    /// Creates a buffer for at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most, is_broken: false }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        // A few bytes of a dictionary can expand to any number of bytes.
        if bytes.len() > self.most - self.bytes.len() {
            return Err(format!("its lists have more than {} bytes, the most that is decoded at once", self.most));
        }
        self.bytes.extend(bytes);
        Ok(())
    }

    pub(super) fn put_len(&mut self, len: usize) -> Result<(), Reason> {
        self.put(&len_bytes(len)?)
    }

    pub(super) fn put_string(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        self.put_len(bytes.len())?;
        self.put(bytes)
    }
}
