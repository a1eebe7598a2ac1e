//! Quarter turns, like `torch.rot90`.

use super::picture::Picture;

/// Turns a quarter counterclockwise.
pub(in super::super) fn left<T: Copy>(picture: &Picture<T>) -> Picture<T> {
    turned(picture, |row, column| (column, picture.width - 1 - row))
}

/// Turns a quarter clockwise.
pub(in super::super) fn right<T: Copy>(picture: &Picture<T>) -> Picture<T> {
    turned(picture, |row, column| (picture.height - 1 - column, row))
}

/// Returns the turned picture; `place` returns the source row and column for a row and column of the new picture.
fn turned<T: Copy>(picture: &Picture<T>, place: impl Fn(usize, usize) -> (usize, usize)) -> Picture<T> {
    let (width, height, channels) = (picture.height, picture.width, picture.channels);
    let mut pixels = Vec::with_capacity(picture.pixels.len());
    for row in 0..height {
        for column in 0..width {
            let (from_row, from_column) = place(row, column);
            let first = (from_row * picture.width + from_column) * channels;
            pixels.extend_from_slice(&picture.pixels[first..first + channels]);
        }
    }
    Picture::new(width, height, channels, pixels)
}
