//! Image files: recognizes their formats, and decodes them.

pub(super) mod decode;
pub(super) mod decode_options;
pub(super) mod encoded;
mod exif;
mod gif;
mod image_format;
pub(super) mod image_mode;
pub(super) mod jpeg;
mod palette;
pub(super) mod plain_file;
mod plain_jpeg;
mod plain_png;
mod raster;
mod tiff;
