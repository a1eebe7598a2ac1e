//! `CenterCrop`, `RandomCrop` and `Pad`.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Operation, PaddingMode};
use super::super::transform_arguments::{CropDraws, SmallImage};
use crate::TorchGenerator;

/// Returns the crop of the middle of the image, black where the image is smaller; None if it already has the size.
pub(in super::super) fn center(shape: &ImageShape, [height, width]: [usize; 2]) -> Option<Operation> {
    let (top, left) = (middle(shape.height, height), middle(shape.width, width));
    let is_whole = (shape.height, shape.width) == (height, width);
    (!is_whole).then_some(Operation::Crop { top, left, height, width })
}

/// Returns where `length` begins in the middle of `whole`: half a pixel is rounded to the even number when cropping,
/// and inward when padding, as in torchvision.
fn middle(whole: usize, length: usize) -> i64 {
    match whole.checked_sub(length) {
        Some(spare) => (spare as f64 / 2.0).round_ties_even() as i64,
        None => -(((length - whole) / 2) as i64),
    }
}

pub(in super::super) fn pad([left, top, right, bottom]: [i64; 4], fill: &[f32], mode: PaddingMode) -> Operation {
    Operation::Pad { left, top, right, bottom, fill: fill.to_vec(), mode }
}

pub(in super::super) fn random(
    shape: &ImageShape,
    ([height, width], draws): ([usize; 2], CropDraws),
    (padding, small_image): (Option<[i64; 4]>, SmallImage),
    (fill, mode): (&[f32], PaddingMode),
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) -> Result<(), Reason> {
    let [mut left, mut top, mut right, mut bottom] = padding.unwrap_or_default();
    let spare = |own: usize, around: i64, wanted: usize| (own as i64).saturating_add(around) - wanted as i64;
    let mut spare_rows = spare(shape.height, top.saturating_add(bottom), height);
    let mut spare_columns = spare(shape.width, left.saturating_add(right), width);
    if small_image == SmallImage::Padded {
        if spare_rows < 0 {
            (top, bottom, spare_rows) = (top - spare_rows, bottom - spare_rows, -spare_rows);
        }
        if spare_columns < 0 {
            (left, right, spare_columns) = (left - spare_columns, right - spare_columns, -spare_columns);
        }
    }
    if spare_rows < 0 || spare_columns < 0 {
        let is_padded = if padding.is_some() { "padded " } else { "" };
        let (rows, columns) = (spare_rows + height as i64, spare_columns + width as i64);
        return Err(format!(
            "a crop of {height} x {width} pixels is larger than the {is_padded}image of {rows} x {columns}: pad it, or \
             use `pad_if_needed`"
        ));
    }
    if [left, top, right, bottom] != [0; 4] {
        into.push(pad([left, top, right, bottom], fill, mode));
    }
    // If there is no choice, nothing is drawn.
    let draws_both = draws == CropDraws::Both && (spare_rows > 0 || spare_columns > 0);
    let mut draw =
        |spare: i64| if spare > 0 || draws_both { generator.random_below(spare as u64 + 1) as i64 } else { 0 };
    let (crop_top, crop_left) = (draw(spare_rows), draw(spare_columns));
    if spare_rows > 0 || spare_columns > 0 {
        into.push(Operation::Crop { top: crop_top, left: crop_left, height, width });
    }
    Ok(())
}
