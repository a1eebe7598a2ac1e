//! [`Torchvision`]: the version of torchvision's transforms.

use serde::{Deserialize, Serialize};

/// Which of torchvision's two transform modules applies to a Pillow image: some transforms draw different values, and
/// round differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Torchvision {
    /// `torchvision.transforms`.
    V1,
    /// `torchvision.transforms.v2`.
    #[default]
    V2,
}
