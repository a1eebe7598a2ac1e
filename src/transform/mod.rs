//! WHAT is done to a sample on the way: pictures are decoded.

mod decode;
mod exif;
mod image;
mod image_mode;
mod jpeg;
mod raster;

pub use decode::{DecodeOptions, Orientation, Truncated, decode_image, image_size};
pub use image::Image;
pub use image_mode::ImageMode;

/// Why something can't be done, in words; who knows the file makes an error of it.
type Reason = String;
