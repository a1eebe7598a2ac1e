//! [`ProductRounding`]: how to round the sums of products that determine where the pixels of a warped image come from.

use std::sync::atomic::{AtomicBool, Ordering};

/// How to round a sum of products. torchvision multiplies matrices to find where pixels come from, and torch leaves
/// that to a library that rounds differently on different processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProductRounding {
    /// Each product is rounded together with the sum that it is added to.
    #[default]
    Fused,
    /// Each product and each sum is rounded.
    Separate,
}

static IS_SEPARATE: AtomicBool = AtomicBool::new(false);

impl ProductRounding {
    /// Sets the rounding of this process, so that warps match torch's on this machine in the last bit. The default is
    /// [`Fused`](Self::Fused).
    pub fn set(self) {
        IS_SEPARATE.store(self == Self::Separate, Ordering::Relaxed);
    }

    /// Returns the rounding of this process.
    #[must_use]
    pub fn get() -> Self {
        if IS_SEPARATE.load(Ordering::Relaxed) { Self::Separate } else { Self::Fused }
    }
}
