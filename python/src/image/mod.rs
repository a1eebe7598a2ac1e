//! Images: decoders, transforms, and datasets.

pub(crate) mod decoder;
pub(crate) mod fake_images;
pub(crate) mod file_images;
pub(crate) mod operations;
pub(crate) mod pillow_head;
pub(crate) mod pipeline;
pub(crate) mod pixel_images;
pub(crate) mod transforms;
