//! Images that the samples of any format name or hold.

pub(super) mod broken_images;
mod link;

pub use broken_images::{BrokenImages, EncodedField, ImageSources, broken_images};
pub use link::ImageLink;
