//! `autocontrast`: in each channel the darkest value becomes black, and the lightest white.

use super::level::Level;
use super::lookup::{Table, look_up, table};
use super::picture::Picture;
use super::{Reason, gray_or_colors};

/// Returns, for each channel, the number to subtract from its values, and the number to divide them by.
fn ranges<T: Level>(picture: &Picture<T>) -> Vec<[f32; 2]> {
    let channels = picture.channels;
    let extremes = match channels {
        1 => vec![extremes::<T, 1>(&picture.pixels)[0]],
        _ => extremes::<T, 3>(&picture.pixels).to_vec(),
    };
    let range = |[least, most]: [f32; 2]| match least == most {
        true => [0.0, 1.0],
        false => [least, (most - least) * (1.0 / f64::from(T::MOST)) as f32],
    };
    extremes.into_iter().map(range).collect()
}

fn extremes<T: Level, const CHANNELS: usize>(pixels: &[T]) -> [[f32; 2]; CHANNELS] {
    let mut extremes = [[f32::INFINITY, f32::NEG_INFINITY]; CHANNELS];
    for pixel in pixels.as_chunks::<CHANNELS>().0 {
        for (value, [least, most]) in pixel.iter().zip(&mut extremes) {
            let value = value.to_float();
            (*least, *most) = (least.min(value), most.max(value));
        }
    }
    extremes
}

pub(in super::super) fn bytes(picture: &mut Picture<u8>) -> Result<(), Reason> {
    gray_or_colors(picture.channels)?;
    let stretched =
        |[least, scale]: [f32; 2]| table(|level| ((f32::from(level) - least) / scale).clamp(0.0, 255.0) as u8);
    let tables: Vec<Table> = ranges(picture).into_iter().map(stretched).collect();
    look_up(picture, &tables);
    Ok(())
}

pub(in super::super) fn floats(picture: &mut Picture<f32>) -> Result<(), Reason> {
    gray_or_colors(picture.channels)?;
    let ranges = ranges(picture);
    for pixel in picture.pixels.chunks_exact_mut(picture.channels) {
        for (value, [least, scale]) in pixel.iter_mut().zip(&ranges) {
            *value = ((*value - least) / scale).clamp(0.0, 1.0);
        }
    }
    Ok(())
}
