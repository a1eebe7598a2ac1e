//! `pad`.

use super::Reason;
use super::picture::Picture;
use crate::transform::PaddingMode;

/// The margins around the picture in pixels: left, top, right, bottom. Negative numbers remove some of it.
pub(in super::super) type Margins = [i64; 4];

/// Returns the height and the width of the result for an image of that size.
pub(in super::super) fn padded_size(
    height: usize,
    width: usize,
    [left, top, right, bottom]: Margins,
) -> Result<[usize; 2], Reason> {
    let length = |length: usize, before: i64, after: i64| {
        let length = i64::try_from(length).ok()?.checked_add(before)?.checked_add(after)?;
        usize::try_from(length).ok()
    };
    match (length(height, top, bottom), length(width, left, right)) {
        (Some(height), Some(width)) => Ok([height, width]),
        _ => Err(format!(
            "an image of {width} x {height} pixels can't be padded by {left} (left), {top} (top), {right} (right) and \
             {bottom} (bottom)"
        )),
    }
}

/// Returns the source position for each position of a padded row (or column); None means `fill`.
pub(in super::super) fn sources(
    length: usize,
    before: i64,
    after: i64,
    mode: PaddingMode,
) -> Result<Vec<Option<usize>>, Reason> {
    let length = length as i64;
    // Symmetric padding crops the image by negative margins before it reflects the rest.
    let (first, last) = match mode {
        PaddingMode::Symmetric => ((-before).max(0), length - 1 + after.min(0)),
        _ => (0, length - 1),
    };
    let most = match mode {
        PaddingMode::Constant => i64::MAX,
        PaddingMode::Edge => {
            if length > 0 {
                i64::MAX
            } else {
                0
            }
        }
        PaddingMode::Reflect => length - 1,
        PaddingMode::Symmetric => last - first + 1,
    };
    if before.max(after) > most.max(0) {
        return Err(format!("mirroring can't add {} rows or columns: at most {most} are available", before.max(after)));
    }
    let source = |place: i64| match mode {
        PaddingMode::Constant => (0..length).contains(&place).then_some(place),
        PaddingMode::Edge => Some(place.clamp(0, length - 1)),
        PaddingMode::Reflect if place < 0 => Some(-place),
        PaddingMode::Reflect if place >= length => Some(2 * (length - 1) - place),
        PaddingMode::Symmetric if place < first => Some(2 * first - 1 - place),
        PaddingMode::Symmetric if place > last => Some(2 * last + 1 - place),
        PaddingMode::Reflect | PaddingMode::Symmetric => Some(place),
    };
    Ok((-before..length + after).map(|place| source(place).and_then(|place| usize::try_from(place).ok())).collect())
}

/// Returns the picture with `margins` around it; `fill` is the color of a pixel if the mode uses one.
pub(in super::super) fn pad<T: Copy>(
    picture: &Picture<T>,
    margins: Margins,
    fill: &[T],
    mode: PaddingMode,
) -> Result<Picture<T>, Reason> {
    let [height, width] = padded_size(picture.height, picture.width, margins)?;
    let mut pixels = picture.room(height, width)?;
    let [left, top, right, bottom] = margins;
    let columns = sources(picture.width, left, right, mode)?;
    // The columns that are copied as a contiguous run.
    let start = columns.iter().position(|&source| source == Some(left.min(0).unsigned_abs() as usize)).unwrap_or(0);
    let inner = columns[start..].windows(2).take_while(|pair| pair[0].map(|place| place + 1) == pair[1]).count();
    let inner = if columns.get(start).copied().flatten().is_some() { inner + 1 } else { 0 };
    for row in sources(picture.height, top, bottom, mode)? {
        let Some(row) = row else {
            (0..width).for_each(|_| pixels.extend_from_slice(fill));
            continue;
        };
        let row = &picture.pixels[row * picture.row()..][..picture.row()];
        let pixel = |source: &Option<usize>| match *source {
            Some(place) => &row[place * picture.channels..][..picture.channels],
            None => fill,
        };
        columns[..start].iter().for_each(|source| pixels.extend_from_slice(pixel(source)));
        if let Some(Some(first)) = columns.get(start) {
            pixels.extend_from_slice(&row[first * picture.channels..][..inner * picture.channels]);
        }
        columns[start + inner..].iter().for_each(|source| pixels.extend_from_slice(pixel(source)));
    }
    Ok(Picture::new(width, height, picture.channels, pixels))
}
