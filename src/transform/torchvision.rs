//! [`Torchvision`]: which of its two modules of transforms is meant.

use serde::{Deserialize, Serialize};

/// Which of torchvision's two modules of transforms an image of Pillow's is transformed by: some draw other values, and round
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Torchvision {
    /// `torchvision.transforms`.
    #[serde(rename = "v1")]
    V1,
    /// `torchvision.transforms.v2`.
    #[default]
    #[serde(rename = "v2")]
    V2,
}
