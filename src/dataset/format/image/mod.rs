//! Images that samples of any format contain or refer to.

pub(super) mod broken_images;
mod link;

pub use broken_images::{BrokenImages, EncodedField, ImageSources, broken_images};
pub use link::ImageLink;
