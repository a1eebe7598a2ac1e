//! [`TransformedImage`]: the result of a pipeline for an image.

use super::Reason;
use super::finished::{ChannelOrder, Finished};
use super::moves::Moves;
use crate::DType;

/// The result of a pipeline for an image; the last step is done when it is written.
pub struct TransformedImage {
    pub(super) finished: Finished,
    pub(super) moves: Moves,
    pub(super) order: ChannelOrder,
    pub(super) dtype: DType,
}

impl TransformedImage {
    /// Returns how its pixels moved.
    #[doc(hidden)]
    #[must_use]
    pub fn moves(&self) -> &Moves {
        &self.moves
    }

    /// Returns channels, height, width, or the order of the channel layout.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        let [channels, height, width] = self.finished.shape();
        self.order.shape(channels, [height, width])
    }

    /// Returns the data type of a value.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shape().iter().product::<usize>() * self.dtype.bytes()
    }

    /// Writes the values to `into` in the machine's byte order.
    ///
    /// # Errors
    /// The reason, if `into` does not have the size of the image.
    pub fn write(self, into: &mut [u8]) -> Result<(), Reason> {
        self.finished.write(self.dtype, self.order, into)
    }

    /// Returns the values in the machine's byte order.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn to_bytes(self) -> Result<Vec<u8>, Reason> {
        let mut bytes = vec![0; self.bytes()];
        self.write(&mut bytes)?;
        Ok(bytes)
    }
}
