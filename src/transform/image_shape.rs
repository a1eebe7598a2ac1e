//! [`ImageShape`]: the sizes of an image, and the type of its values.

use crate::DType;

/// The properties of an image before or after a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "lengths in pixels, channels, and the type of their values")]
pub struct ImageShape {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub dtype: DType,
}
