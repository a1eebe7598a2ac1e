//! Operations that look each value up in a table of its channel.

use crate::transform::Picture;
use crate::transform::pixels::lookup::{Table, look_up, table};

/// The value of white.
const WHITE: u8 = 255;

/// Inverts values that are not below `threshold`, which may be any number.
pub(super) fn solarize(picture: &mut Picture<u8>, threshold: f64) {
    let inverted = table(|value| if f64::from(value) >= threshold { WHITE - value } else { value });
    look_up(picture, &[inverted]);
}

/// Stretches each channel from its darkest and its lightest value to black and white.
pub(super) fn autocontrast(picture: &mut Picture<u8>) {
    let tables = match picture.channels {
        1 => extremes::<1>(&picture.pixels).map(stretched).to_vec(),
        _ => extremes::<3>(&picture.pixels).map(stretched).to_vec(),
    };
    look_up(picture, &tables);
}

/// Returns the darkest and the lightest value of each channel.
fn extremes<const CHANNELS: usize>(pixels: &[u8]) -> [[u8; 2]; CHANNELS] {
    let mut extremes = [[WHITE, 0]; CHANNELS];
    for pixel in pixels.as_chunks::<CHANNELS>().0 {
        for (value, [least, most]) in pixel.iter().zip(&mut extremes) {
            (*least, *most) = ((*least).min(*value), (*most).max(*value));
        }
    }
    extremes
}

fn stretched([least, most]: [u8; 2]) -> Table {
    if least >= most {
        return table(|value| value);
    }
    let scale = f64::from(WHITE) / f64::from(most - least);
    let offset = -f64::from(least) * scale;
    table(|value| (f64::from(value) * scale + offset) as u8)
}
