//! `crop`.

use super::Reason;
use super::picture::Picture;

/// Returns a part of the picture, which may extend past its edges, where it is zero.
pub(in super::super) fn crop<T: Copy + Default>(
    picture: Picture<T>,
    [top, left]: [i64; 2],
    height: usize,
    width: usize,
) -> Result<Picture<T>, Reason> {
    if [top, left] == [0, 0] && (height, width) == (picture.height, picture.width) {
        return Ok(picture);
    }
    let mut pixels = picture.room(height, width)?;
    let zeros = |count: usize| std::iter::repeat_n(T::default(), count * picture.channels);
    let columns = overlap(left, width, picture.width);
    for row in 0..height {
        let Some(row) = place(top, row).filter(|&row| row < picture.height) else {
            pixels.extend(zeros(width));
            continue;
        };
        pixels.extend(zeros(columns.before));
        let first = (row * picture.width + columns.start) * picture.channels;
        pixels.extend_from_slice(&picture.pixels[first..first + columns.count * picture.channels]);
        pixels.extend(zeros(width - columns.before - columns.count));
    }
    Ok(Picture::new(width, height, picture.channels, pixels))
}

/// The overlap of some columns with the picture: `before` of them are left of it, and then follow `count` columns of
/// the picture, from `start` on.
struct Overlap {
    before: usize,
    start: usize,
    count: usize,
}

fn overlap(left: i64, width: usize, of: usize) -> Overlap {
    let before = usize::try_from(left.saturating_neg()).unwrap_or(0).min(width);
    let start = usize::try_from(left).unwrap_or(0).min(of);
    Overlap { before, start, count: (width - before).min(of - start) }
}

fn place(first: i64, offset: usize) -> Option<usize> {
    usize::try_from(first.checked_add(i64::try_from(offset).ok()?)?).ok()
}
