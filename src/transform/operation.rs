//! [`Operation`]: one step applied to an image, after its random values were drawn.

use serde::{Deserialize, Serialize};

use super::box_format::BoxFormat;
use super::torchvision::Torchvision;
use crate::DType;

/// How to compute values between pixels, with torchvision's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    /// The pixel at the position rounded down, like torch's `nearest`.
    Nearest,
    /// The nearest pixel, like Pillow.
    NearestExact,
    /// Linear in both directions.
    #[default]
    Bilinear,
    /// Cubic in both directions.
    Bicubic,
    /// The mean of the covered pixels.
    Box,
    /// Between bilinear and bicubic.
    Hamming,
    /// A windowed sinc of three lobes.
    Lanczos,
}

/// Determines if a smaller image is computed from all pixels, or only from those around each position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Antialias {
    /// From all: the filter is as wide as the step.
    #[default]
    On,
    /// From two (bilinear) or four (bicubic) in each direction.
    Off,
    /// From all, with the integer arithmetic of Pillow 13: the values are Pillow's, bit for bit. Only for bytes.
    Pillow,
    /// Like `Pillow` before version 13, which resizes columns first if it removes over twice as many rows as columns.
    #[serde(rename = "pillow 12")]
    Pillow12,
    /// From all, with the integer arithmetic of torch on processors with AVX2: the values are those of
    /// `torch.nn.functional.interpolate`, bit for bit. Only for bytes, bilinear and bicubic.
    Torch,
}

impl Antialias {
    /// True if values are Pillow's or torch's, bit for bit.
    pub(super) fn is_exact(self) -> bool {
        matches!(self, Self::Pillow | Self::Pillow12 | Self::Torch)
    }
}

/// How to fill the pixels outside an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaddingMode {
    /// A color.
    #[default]
    Constant,
    /// The pixel at the edge.
    Edge,
    /// The reflected image, without repeating the edge pixel.
    Reflect,
    /// The reflected image, repeating the edge pixel.
    Symmetric,
}

/// The size of a rotated image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Frame {
    /// The original size: corners are cut off.
    #[default]
    Same,
    /// As large as the rotated image needs.
    Expanded,
}

/// How values change when their data type changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// They stay the same.
    #[default]
    Kept,
    /// White stays white: 255 in bytes, 1 in floats.
    Scaled,
    /// Bytes become floats like in `ToTensor`: divided by 255, which differs from `Scaled` in the last bit.
    Divided,
}

/// The values that [`Operation::Erase`] writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Eraser {
    /// One value for all channels, or one per channel.
    Color(Vec<f32>),
    /// These values: channels, rows, columns.
    Values(Vec<f32>),
}

/// How to treat values that [`Operation::GaussianNoise`] makes darker than black or lighter than white.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// Clamp them to black or white.
    #[default]
    Clipped,
    /// Floats stay unchanged; bytes wrap around, so that 256 becomes 0.
    Free,
}

/// One step applied to an image, after its random values were drawn. Lengths and positions are in pixels; colors have
/// one value for all channels, or one per channel, in the range of the image's values.
///
/// An empty `fill` means black; for operations that rotate or warp, it means torchvision's `None`, with which bilinear
/// edges fade to black less than with a `fill` of 0.
///
/// Each step does to an image of bytes or floats what torchvision's function of the same name
/// (`torchvision.transforms.v2.functional`) does to a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's functions")]
pub enum Operation {
    /// Selects a part of the image. The part may extend past the edges, where it is black.
    Crop { top: i64, left: i64, height: usize, width: usize },
    /// Resizes the whole image.
    Resize { height: usize, width: usize, interpolation: Interpolation, antialias: Antialias },
    /// Swaps left and right.
    HorizontalFlip,
    /// Swaps top and bottom.
    VerticalFlip,
    /// Adds rows and columns around the image; negative numbers remove some.
    Pad { left: i64, top: i64, right: i64, bottom: i64, fill: Vec<f32>, mode: PaddingMode },
    /// As `adjust_brightness`.
    Brightness { factor: f64 },
    /// As `adjust_contrast`.
    Contrast { factor: f64 },
    /// As `adjust_saturation`.
    Saturation { factor: f64 },
    /// As `adjust_hue`, `factor` from -0.5 to 0.5.
    Hue { factor: f64 },
    /// As `adjust_sharpness`.
    Sharpness { factor: f64 },
    /// As `rgb_to_grayscale`, with 1 or 3 channels.
    Grayscale { channels: usize },
    /// Repeats the one channel of a gray image, as torch broadcasts it.
    RepeatChannels { channels: usize },
    /// Reorders the channels: channel c is the former channel `order[c]`.
    PermuteChannels { order: Vec<usize> },
    /// As `gaussian_blur`; sizes and deviations are (horizontal, vertical).
    GaussianBlur { kernel_size: [usize; 2], sigma: [f64; 2] },
    /// As `invert`.
    Invert,
    /// As `posterize`.
    Posterize { bits: u32 },
    /// As `solarize`.
    Solarize { threshold: f64 },
    /// As `autocontrast`.
    Autocontrast,
    /// As `equalize`.
    Equalize,
    /// As `rotate`: counterclockwise, in degrees, about `center` (x, y) or the middle.
    Rotate { angle: f64, interpolation: Interpolation, frame: Frame, center: Option<[f64; 2]>, fill: Vec<f32> },
    /// As `affine`: angle and shear in degrees, translation in pixels (x, y).
    Affine {
        angle: f64,
        translate: [f64; 2],
        scale: f64,
        shear: [f64; 2],
        interpolation: Interpolation,
        center: Option<[f64; 2]>,
        fill: Vec<f32>,
    },
    /// As `perspective`: position (x, y) of the result shows ((a x + b y + c) / (g x + h y + 1), (d x + e y + f) / (g x
    /// + h y + 1)) of the image.
    Perspective { coefficients: [f64; 8], interpolation: Interpolation, fill: Vec<f32> },
    /// As `jpeg`: encodes with this quality, 1 to 100, and decodes; only for bytes.
    Jpeg { quality: u8 },
    /// The sum of the image and the results of each of the `chains` of operations, weighted by `shares`, the first of
    /// which belongs to the image. The chains must keep the size of the image.
    Mix { shares: Vec<f32>, chains: Vec<Vec<Operation>> },
    /// As `gaussian_noise`; the standard normal `deviates` are (channels, rows, columns).
    GaussianNoise { mean: f64, sigma: f64, noise: Noise, deviates: Vec<f32> },
    /// As `clamp_bounding_boxes`; pixels do not change.
    ClampBoxes,
    /// As `convert_bounding_box_format`; pixels do not change.
    ConvertBoxes { format: BoxFormat },
    /// As `sanitize_bounding_boxes`: drops boxes with an edge shorter than `min_size`, an area below `min_area`, or a
    /// corner outside the image; pixels do not change.
    SanitizeBoxes { min_size: f64, min_area: f64 },
    /// Marks boxes that a later `SanitizeBoxes` drops, like `RandomIoUCrop`: the four numbers of boxes that are not
    /// `kept` become 0; pixels do not change.
    BlankBoxes { kept: Vec<bool> },
    /// As `erase`.
    Erase { top: usize, left: usize, height: usize, width: usize, with: Eraser },
    /// As `normalize`: computes (value - mean) / std in each channel; only for floats.
    Normalize { mean: Vec<f32>, std: Vec<f32> },
    /// Like the inner operation, for a Pillow image in gray or in color, with Pillow's values, bit for bit.
    OfPillow { version: Torchvision, operation: Box<Operation> },
    /// As `to_dtype`.
    ToDtype {
        #[serde(with = "dtype_name")]
        dtype: DType,
        values: Values,
    },
}

pub(super) mod dtype_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::DType;

    pub(in super::super) fn serialize<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(dtype.name())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
