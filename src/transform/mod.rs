//! Decodes and transforms images.

mod apply;
mod box_format;
mod boxes;
mod canvas;
mod convolution;
mod coordinates;
mod cubic;
mod cut;
mod decoding;
mod drawing;
mod exact_resize;
mod finished;
mod geometry;
mod grid_map;
mod image;
mod image_cache;
mod image_pipeline;
mod image_shape;
mod image_transform;
mod key_points;
mod level;
mod level_tables;
mod levels;
mod mask;
mod mask_value;
mod moves;
mod operation;
mod outcome;
mod perspective;
mod picture;
mod pillow;
mod pixel_pipeline;
mod pixels;
mod product_rounding;
mod random;
mod resize;
mod resize_filters;
mod resize_to;
mod scratch;
mod torchvision;
mod transform_arguments;
mod transformed_image;

pub use box_format::BoxFormat;
pub use boxes::{Boxes, Clamping};
pub use canvas::JpegScale;
pub use coordinates::Coordinates;
pub use decoding::decode::{decode_image, image_size};
pub use decoding::decode_options::{DecodeOptions, Orientation, Truncated};
pub use decoding::image_mode::ImageMode;
pub use decoding::plain_file::{Beginning, PlainFile};
pub use finished::ChannelOrder;
pub use image::Image;
pub use image_cache::ImageCache;
pub use image_pipeline::{ImageForm, ImagePipeline};
pub use image_shape::ImageShape;
pub use image_transform::ImageTransform;
pub use key_points::KeyPoints;
pub use mask_value::MaskValue;
pub use moves::Moves;
pub use operation::{Antialias, Eraser, Frame, Interpolation, Noise, Operation, PaddingMode, Values};
pub use outcome::fixed_size;
pub use picture::{AnyPicture, Picture};
pub use pixel_pipeline::PixelPipeline;
pub use product_rounding::ProductRounding;
pub use random::ask_torch;
pub use random::{
    AugMix, GaussianNoise, JpegQuality, RandomIoUCrop, RandomPerspective, RandomResize, RandomShortestSize,
    RandomZoomOut, ScaleJitter,
};
pub use resize_to::ResizeTo;
pub use torchvision::Torchvision;
pub use transform_arguments::{AugmentPolicy, CropDraws, ErasingValue, SmallImage};
pub use transformed_image::TransformedImage;

/// An error message that says why something cannot be done; a caller that knows the file turns it into an error.
type Reason = String;
