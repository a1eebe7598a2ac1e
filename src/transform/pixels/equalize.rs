//! `equalize`: changes the levels of each channel so that all are equally frequent, with Pillow's integer arithmetic.

use super::lookup::{Table, look_up, table};
use super::picture::Picture;

pub(in super::super) fn bytes(picture: &mut Picture<u8>) {
    let channels = picture.channels;
    let mut counts = vec![[0_usize; 256]; channels];
    for pixel in picture.pixels.chunks_exact(channels.max(1)) {
        for (value, counts) in pixel.iter().zip(&mut counts) {
            counts[usize::from(*value)] += 1;
        }
    }
    let tables: Vec<Table> = counts.iter().map(equalized).collect();
    look_up(picture, &tables);
}

/// Returns the table whose level rises by one every `step` pixels; `step` is 1/255 of those below the lightest level.
fn equalized(counts: &[usize; 256]) -> Table {
    let lightest = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    let step = counts[..lightest].iter().sum::<usize>() / 255;
    if step == 0 {
        return table(|level| level);
    }
    let mut darker = 0;
    std::array::from_fn(|level| {
        let equalized = ((darker + step / 2) / step).min(255) as u8;
        darker += counts[level];
        equalized
    })
}
