//! How samples are changed on the way: images are decoded and transformed.

mod apply;
mod box_format;
mod boxes;
mod canvas;
mod coordinates;
mod cubic;
mod cut;
mod decode;
mod drawing;
mod encoded;
mod exact_resize;
mod exif;
mod finished;
mod geometry;
mod grid_map;
mod image;
mod image_cache;
mod image_mode;
mod image_pipeline;
mod image_transform;
mod jpeg;
mod key_points;
mod level;
mod level_tables;
mod levels;
mod mask;
mod moves;
mod operation;
mod outcome;
mod palette;
mod perspective;
mod picture;
mod pillow;
mod pixel_pipeline;
mod pixels;
mod plain_file;
mod plain_jpeg;
mod plain_png;
mod product_rounding;
mod random;
mod raster;
mod resize;
mod resize_filters;
mod resize_to;
mod scratch;
mod torchvision;

pub use box_format::BoxFormat;
pub use boxes::{Boxes, Clamping};
pub use canvas::JpegScale;
pub use coordinates::Coordinates;
pub use decode::{DecodeOptions, Orientation, Truncated, decode_image, image_size};
pub use finished::ChannelOrder;
pub use image::Image;
pub use image_cache::ImageCache;
pub use image_mode::ImageMode;
pub use image_pipeline::{ImageForm, ImagePipeline, TransformedImage};
pub use image_transform::{AugmentPolicy, CropDraws, ErasingValue, ImageShape, ImageTransform, SmallImage};
pub use key_points::KeyPoints;
pub use mask::MaskValue;
pub use moves::Moves;
pub use operation::{Antialias, Eraser, Frame, Interpolation, Noise, Operation, PaddingMode, Values};
pub use outcome::fixed_size;
pub use picture::{AnyPicture, Picture};
pub use pixel_pipeline::PixelPipeline;
pub use plain_file::{Beginning, PlainFile};
pub use product_rounding::ProductRounding;
pub use random::ask_torch;
pub use random::{
    AugMix, GaussianNoise, JpegQuality, RandomIoUCrop, RandomPerspective, RandomResize, RandomShortestSize,
    RandomZoomOut, ScaleJitter,
};
pub use resize_to::ResizeTo;
pub use torchvision::Torchvision;

/// A text that says why something cannot be done; a caller that knows the file turns it into an error.
type Reason = String;
