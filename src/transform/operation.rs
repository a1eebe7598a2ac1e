//! [`Operation`]: one step of what is done to an image, with everything drawn that is random about it.

use serde::{Deserialize, Serialize};

use super::box_format::BoxFormat;
use super::torchvision::Torchvision;
use crate::DType;

/// How values between pixels are made, by torchvision's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Interpolation {
    /// The pixel whose place is rounded down to, as torch's `nearest`.
    #[serde(rename = "nearest")]
    Nearest,
    /// The nearest pixel, as Pillow has it.
    #[serde(rename = "nearest-exact")]
    NearestExact,
    /// Linear in both directions.
    #[default]
    #[serde(rename = "bilinear")]
    Bilinear,
    /// Cubic in both directions.
    #[serde(rename = "bicubic")]
    Bicubic,
    /// The mean of the pixels below.
    #[serde(rename = "box")]
    Box,
    /// Between bilinear and bicubic.
    #[serde(rename = "hamming")]
    Hamming,
    /// A windowed sinc of three lobes.
    #[serde(rename = "lanczos")]
    Lanczos,
}

/// Whether a smaller image is made of all pixels, or of those around each place alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Antialias {
    /// Of all: the filter is as wide as the step.
    #[default]
    #[serde(rename = "on")]
    On,
    /// Of two (bilinear) or four (bicubic) in each direction.
    #[serde(rename = "off")]
    Off,
    /// Of all, by the integers that Pillow 13 has for its images: the values are Pillow's to the last bit. Of bytes only.
    #[serde(rename = "pillow")]
    Pillow,
    /// The same as before Pillow 13, which then began to change columns before rows where more rows go than columns.
    #[serde(rename = "pillow 12")]
    Pillow12,
}

impl Antialias {
    /// Whether values are Pillow's to the last bit.
    pub(super) fn is_pillows(self) -> bool {
        matches!(self, Self::Pillow | Self::Pillow12)
    }
}

/// What lies outside of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PaddingMode {
    /// A colour.
    #[default]
    #[serde(rename = "constant")]
    Constant,
    /// The pixel at the edge.
    #[serde(rename = "edge")]
    Edge,
    /// The image in a mirror, the pixel at the edge once.
    #[serde(rename = "reflect")]
    Reflect,
    /// The image in a mirror, the pixel at the edge twice.
    #[serde(rename = "symmetric")]
    Symmetric,
}

/// What room [`Operation::Rotate`] has for the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Frame {
    /// As much as it had: its corners are cut off.
    #[default]
    #[serde(rename = "same")]
    Same,
    /// As much as it needs.
    #[serde(rename = "expanded")]
    Expanded,
}

/// What becomes of the values when their data type changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Values {
    /// They stay what they are.
    #[default]
    #[serde(rename = "kept")]
    Kept,
    /// What was white becomes what is white there: 255 in bytes, 1 in floats.
    #[serde(rename = "scaled")]
    Scaled,
    /// Bytes become floats as `ToTensor` has it: divided by 255, which differs from `Scaled` in the last bit.
    #[serde(rename = "divided")]
    Divided,
}

/// What [`Operation::Erase`] writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Eraser {
    /// A value for all channels, or one for each.
    #[serde(rename = "colour")]
    Colour(Vec<f32>),
    /// These values: channels, rows, columns.
    #[serde(rename = "values")]
    Values(Vec<f32>),
}

/// What becomes of values that [`Operation::GaussianNoise`] makes darker than black or lighter than white.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Noise {
    /// They become black or white.
    #[default]
    #[serde(rename = "clipped")]
    Clipped,
    /// Floats stay what they are; of bytes 256 is 0.
    #[serde(rename = "free")]
    Free,
}

/// One step of what is done to an image, with everything drawn that is random about it. Lengths and places are in pixels;
/// colours have one value for all channels, or one for each, in the range of the image's own values.
///
/// No `fill` is black; where pixels are turned it is torchvision's `None`, with which bilinear edges fade less than into 0.
///
/// Each does to an image of bytes or floats what torchvision's function of that name (`torchvision.transforms.v2.functional`)
/// does to a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's functions")]
pub enum Operation {
    /// A part of the image, which may reach past its edges: black lies there.
    Crop { top: i64, left: i64, height: usize, width: usize },
    /// The whole image in another size.
    Resize { height: usize, width: usize, interpolation: Interpolation, antialias: Antialias },
    /// Left for right.
    HorizontalFlip,
    /// Up for down.
    VerticalFlip,
    /// Rows and columns around the image; negative numbers take some away.
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
    /// The one channel of a gray image repeated, as torch broadcasts it.
    RepeatChannels { channels: usize },
    /// The channels in another order: channel c is what channel `order[c]` was.
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
    /// As `perspective`: at (x, y) of the result lies what was at ((a x + b y + c) / (g x + h y + 1),
    /// (d x + e y + f) / (g x + h y + 1)).
    Perspective { coefficients: [f64; 8], interpolation: Interpolation, fill: Vec<f32> },
    /// As `jpeg`: encoded with this quality, 1 to 100, and decoded; bytes alone.
    Jpeg { quality: u8 },
    /// The sum of the image and of what each of the `chains` of operations makes of it, by their `shares`: first that of the
    /// image. The chains leave the size of the image.
    Mix { shares: Vec<f32>, chains: Vec<Vec<Operation>> },
    /// As `gaussian_noise`; the standard normal `deviates` are (channels, rows, columns).
    GaussianNoise { mean: f64, sigma: f64, noise: Noise, deviates: Vec<f32> },
    /// As `clamp_bounding_boxes`; pixels stay.
    ClampBoxes,
    /// As `convert_bounding_box_format`; pixels stay.
    ConvertBoxes { format: BoxFormat },
    /// As `sanitize_bounding_boxes`: boxes with an edge shorter than `min_size`, an area below `min_area`, or a corner outside of
    /// the image are dropped; pixels stay.
    SanitizeBoxes { min_size: f64, min_area: f64 },
    /// As `RandomIoUCrop` marks boxes for a `SanitizeBoxes`: the four numbers of those that are not `kept` become 0; pixels stay.
    BlankBoxes { kept: Vec<bool> },
    /// As `erase`.
    Erase { top: usize, left: usize, height: usize, width: usize, with: Eraser },
    /// As `normalize`: of each channel (value - mean) / std; floats alone.
    Normalize { mean: Vec<f32>, std: Vec<f32> },
    /// The same for an image of Pillow's, in gray or in color, with Pillow's values to the last bit.
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
