//! What each operation does to pixels, a file each. The values are those of torchvision's functions on tensors, to the last
//! bit where they are bytes and torch's order of sums is known: the roundings follow its source (0.29, `transforms.v2.functional`).

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

/// Refuses what is neither grey nor colours, as torchvision does.
fn grey_or_colours(channels: usize) -> Result<(), Reason> {
    match channels {
        1 | 3 => Ok(()),
        _ => Err(format!("images of 1 or 3 channels are permitted, but this one has {channels}")),
    }
}

/// Refuses colours of another number of channels than the image has; one value is for all.
pub(super) fn colour_fits(colour: &[f32], channels: usize) -> Result<(), Reason> {
    match colour.len() {
        0 | 1 => Ok(()),
        values if values == channels => Ok(()),
        values => Err(format!("the colour has {values} values, and the image {channels} channels")),
    }
}

/// The color of each channel: its own, or the one that is for all; zero where there is none.
pub(super) fn by_channel(color: &[f32], channels: usize) -> impl Iterator<Item = f32> {
    (0..channels).map(|channel| color.get(channel).or(color.first()).copied().unwrap_or_default())
}

fn not_negative(name: &str, factor: f64) -> Result<(), Reason> {
    if factor >= 0.0 { Ok(()) } else { Err(format!("the {name} factor is {factor}, and must not be negative")) }
}
