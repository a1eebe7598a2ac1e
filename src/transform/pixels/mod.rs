//! The operations on pixels, one file each. The values are those of torchvision's functions on tensors, bit for bit
//! where they are bytes and torch's order of summation is known: rounding follows its source (0.29,
//! `transforms.v2.functional`).

pub(super) mod affine_matrix;
pub(super) mod autocontrast;
pub(super) mod brightness;
pub(super) mod contrast;
pub(super) mod convert;
pub(super) mod crop;
pub(super) mod equalize;
pub(super) mod erase;
pub(super) mod flip;
pub(super) mod gaussian_blur;
pub(super) mod gaussian_noise;
pub(super) mod grayscale;
pub(super) mod grid;
pub(super) mod hue;
pub(super) mod invert;
pub(super) mod jpeg;
pub(super) mod lookup;
pub(super) mod mix;
pub(super) mod normalize;
pub(super) mod pad;
pub(super) mod permute_channels;
mod planes;
pub(super) mod posterize;
pub(super) mod quarter_turn;
pub(super) mod repeat_channels;
pub(super) mod resample;
pub(super) mod saturation;
pub(super) mod sharpness;
pub(super) mod solarize;
mod values;
pub(super) mod warp;

use super::{Reason, level, picture};

/// Rejects images that are neither gray nor in color, like torchvision.
fn gray_or_colors(channels: usize) -> Result<(), Reason> {
    match channels {
        1 | 3 => Ok(()),
        _ => Err(format!("only images of 1 or 3 channels are supported, got {channels}")),
    }
}

/// Rejects a color whose number of channels differs from the image's; a single value applies to all channels.
pub(super) fn color_fits(color: &[f32], channels: usize) -> Result<(), Reason> {
    match color.len() {
        0 | 1 => Ok(()),
        values if values == channels => Ok(()),
        values => Err(format!("the color has {values} values, but the image has {channels} channels")),
    }
}

/// Returns the color of each channel: its own value, or the single value for all channels; zero if there is none.
pub(super) fn by_channel(color: &[f32], channels: usize) -> impl Iterator<Item = f32> {
    (0..channels).map(|channel| color.get(channel).or(color.first()).copied().unwrap_or_default())
}

fn not_negative(name: &str, factor: f64) -> Result<(), Reason> {
    if factor >= 0.0 { Ok(()) } else { Err(format!("the {name} factor must not be negative, got {factor}")) }
}
