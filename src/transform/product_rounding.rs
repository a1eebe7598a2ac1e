//! [`ProductRounding`]: how the sums of products are rounded that say where the pixels of a warped image come from.

use std::sync::atomic::{AtomicBool, Ordering};

/// How a sum of products is rounded. torchvision multiplies matrices to find where pixels come from, and torch leaves that to a
/// library that rounds in one way on some processors and in another on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProductRounding {
    /// Each product is rounded together with the sum that it is added to.
    #[default]
    Fused,
    /// Each product, and each sum.
    Separate,
}

static IS_SEPARATE: AtomicBool = AtomicBool::new(false);

impl ProductRounding {
    /// Makes it the rounding of this process, for warps to match torch's on this machine in the last bit. The default is
    /// [`Fused`](Self::Fused).
    pub fn set(self) {
        IS_SEPARATE.store(self == Self::Separate, Ordering::Relaxed);
    }

    /// The rounding of this process.
    #[must_use]
    pub fn get() -> Self {
        if IS_SEPARATE.load(Ordering::Relaxed) { Self::Separate } else { Self::Fused }
    }
}
