//! `gaussian_noise`, with given deviates.

use super::Reason;
use super::picture::Picture;
use crate::transform::Noise;

/// Returns the function from a value's deviate to its noise, rounded like torch; `white` is the value of white.
fn noise(mean: f64, sigma: f64, white: f64) -> impl Fn(f32) -> f32 {
    let (mean, sigma) = ((mean * white) as f32, (sigma * white) as f32);
    move |deviate| deviate * sigma + mean
}

/// Replaces each value with the result of `add` for it and its deviate.
fn each<T: Copy>(picture: &mut Picture<T>, deviates: &[f32], add: impl Fn(T, f32) -> T) -> Result<(), Reason> {
    let (channels, values) = (picture.channels, picture.pixels.len());
    if deviates.len() != values {
        return Err(format!("there are {} deviations for {values} values of an image", deviates.len()));
    }
    // Deviates are stored channel by channel, and values pixel by pixel.
    for (channel, deviates) in deviates.chunks_exact((values / channels.max(1)).max(1)).enumerate() {
        for (value, deviate) in picture.pixels.iter_mut().skip(channel).step_by(channels).zip(deviates) {
            *value = add(*value, *deviate);
        }
    }
    Ok(())
}

pub(in super::super) fn bytes(
    picture: &mut Picture<u8>,
    [mean, sigma]: [f64; 2],
    limits: Noise,
    deviates: &[f32],
) -> Result<(), Reason> {
    let noise = noise(mean, sigma, 255.0);
    // torch adds 16-bit integers.
    let sum = |value: u8, deviate: f32| i16::from(value).wrapping_add(noise(deviate) as i32 as i16);
    each(picture, deviates, |value, deviate| match limits {
        Noise::Clipped => sum(value, deviate).clamp(0, 255) as u8,
        Noise::Free => sum(value, deviate) as u8,
    })
}

pub(in super::super) fn floats(
    picture: &mut Picture<f32>,
    [mean, sigma]: [f64; 2],
    limits: Noise,
    deviates: &[f32],
) -> Result<(), Reason> {
    let noise = noise(mean, sigma, 1.0);
    each(picture, deviates, |value, deviate| match limits {
        Noise::Clipped => (value + noise(deviate)).clamp(0.0, 1.0),
        Noise::Free => value + noise(deviate),
    })
}
