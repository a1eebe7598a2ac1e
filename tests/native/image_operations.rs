//! Operations on pixels, boxes, key points, and masks: values computed from the formulas by hand.

use sluicegate::internal::{AnyPicture, Boxes, Coordinates, Eraser, KeyPoints, Noise, Operation, Picture};
use sluicegate::{Antialias, BoxFormat, DType, Frame, Interpolation, PaddingMode, Values};

fn bytes(operation: &Operation, width: usize, height: usize, pixels: &[u8]) -> Vec<u8> {
    let channels = pixels.len() / (width * height);
    let picture = AnyPicture::Bytes(Picture::new(width, height, channels, pixels.to_vec()));
    match operation.apply(picture).unwrap() {
        AnyPicture::Bytes(picture) => picture.into_pixels(),
        AnyPicture::Floats(_) => panic!("bytes stay bytes"),
    }
}

fn floats(operation: &Operation, width: usize, height: usize, pixels: &[f32]) -> Vec<f32> {
    let channels = pixels.len() / (width * height);
    let picture = AnyPicture::Floats(Picture::new(width, height, channels, pixels.to_vec()));
    match operation.apply(picture).unwrap() {
        AnyPicture::Floats(picture) => picture.into_pixels(),
        AnyPicture::Bytes(_) => panic!("floats stay floats"),
    }
}

#[test]
fn levels_are_truncated_and_clamped() {
    assert_eq!(bytes(&Operation::Brightness { factor: 1.5 }, 4, 1, &[0, 1, 101, 200]), [0, 1, 151, 255]);
    assert_eq!(bytes(&Operation::Invert, 2, 1, &[0, 250]), [255, 5]);
    assert_eq!(bytes(&Operation::Posterize { bits: 2 }, 4, 1, &[63, 64, 191, 255]), [0, 64, 128, 192]);
    assert_eq!(bytes(&Operation::Solarize { threshold: 100.0 }, 3, 1, &[99, 100, 255]), [99, 155, 0]);
    assert_eq!(bytes(&Operation::Autocontrast, 3, 1, &[10, 35, 60]), [0, 127, 254]);
    assert_eq!(floats(&Operation::Invert, 2, 1, &[0.25, 1.5]), [0.75, -0.5]);
}

#[test]
fn every_pixel_of_every_width_is_processed() {
    let half = Operation::Brightness { factor: 0.5 };
    let none = Operation::Saturation { factor: 0.0 };
    for width in 1..200 {
        let pixels: Vec<u8> = (0..width * 3).map(|value| value as u8).collect();
        assert!(bytes(&half, width, 1, &pixels).iter().zip(&pixels).all(|(half, whole)| *half == whole / 2));
        let gray = bytes(&none, width, 1, &pixels);
        assert!(gray.chunks_exact(3).all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2]), "{width}");
        assert_eq!(gray.chunks_exact(3).map(|pixel| pixel[0]).collect::<Vec<_>>(), {
            bytes(&Operation::Grayscale { channels: 1 }, width, 1, &pixels)
        });
    }
}

#[test]
fn a_third_of_a_turn_of_hue_changes_the_colors_places() {
    let third = Operation::Hue { factor: 1.0 / 3.0 };
    assert_eq!(bytes(&third, 2, 1, &[255, 0, 0, 10, 10, 10]), [0, 255, 0, 10, 10, 10]);
}

#[test]
fn a_blur_of_one_light_pixel_is_its_kernel() {
    let mut pixels = [0.0; 81];
    pixels[40] = 1.0;
    let blurred = floats(&Operation::GaussianBlur { kernel_size: [3, 5], sigma: [1.0, 2.0] }, 9, 9, &pixels);
    assert!((blurred.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    assert!(blurred[40] > blurred[31] && blurred[31] > blurred[22] && (blurred[31] - blurred[49]).abs() < 1e-7);
    assert_eq!((blurred[38], blurred[42]), (0.0, 0.0));
}

#[test]
fn places_are_counted_from_the_upper_left() {
    let pixels = [1, 2, 3, 4, 5, 6];
    let crop = Operation::Crop { top: -1, left: 1, height: 2, width: 3 };
    assert_eq!(bytes(&crop, 3, 2, &pixels), [0, 0, 0, 2, 3, 0]);
    assert_eq!(bytes(&Operation::HorizontalFlip, 3, 2, &pixels), [3, 2, 1, 6, 5, 4]);
    assert_eq!(bytes(&Operation::VerticalFlip, 3, 2, &pixels), [4, 5, 6, 1, 2, 3]);
    let pad = |mode, fill| Operation::Pad { left: 2, top: 0, right: 1, bottom: -1, fill, mode };
    assert_eq!(bytes(&pad(PaddingMode::Constant, vec![9.9]), 3, 2, &pixels), [9, 9, 1, 2, 3, 9]);
    assert_eq!(bytes(&pad(PaddingMode::Edge, vec![]), 3, 2, &pixels), [1, 1, 1, 2, 3, 3]);
    assert_eq!(bytes(&pad(PaddingMode::Reflect, vec![]), 3, 2, &pixels), [3, 2, 1, 2, 3, 2]);
    assert_eq!(bytes(&pad(PaddingMode::Symmetric, vec![]), 3, 2, &pixels), [2, 1, 1, 2, 3, 3]);
    let erase = Operation::Erase { top: 1, left: 1, height: 9, width: 9, with: Eraser::Color(vec![7.0]) };
    assert_eq!(bytes(&erase, 3, 2, &pixels), [1, 2, 3, 4, 7, 7]);
    let quarter = |frame| Operation::Rotate {
        angle: 90.0,
        interpolation: Interpolation::Nearest,
        frame,
        center: None,
        fill: vec![],
    };
    assert_eq!(bytes(&quarter(Frame::Expanded), 3, 2, &pixels), [3, 6, 2, 5, 1, 4]);
    assert_eq!(quarter(Frame::Same).size_after(2, 3), (2, 3));
    assert_eq!(quarter(Frame::Expanded).size_after(2, 3), (3, 2));
}

#[test]
fn a_distant_position_is_clipped() {
    for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
        let away = Operation::Affine {
            angle: 0.0,
            translate: [1e30, -1e30],
            scale: 1e-30,
            shear: [0.0, 0.0],
            interpolation,
            center: None,
            fill: vec![3.0],
        };
        assert_eq!(bytes(&away, 2, 2, &[9; 4]), [3; 4]);
    }
}

#[test]
fn dtypes_convert_like_in_torch() {
    let to = |dtype, values| Operation::ToDtype { dtype, values };
    let picture = AnyPicture::Bytes(Picture::new(3, 1, 1, vec![0, 51, 255]));
    let scaled = to(DType::Float32, Values::Scaled).apply(picture).unwrap();
    let AnyPicture::Floats(floats) = &scaled else { panic!("floats") };
    assert_eq!(floats.pixels(), [0.0, 51.0 * (1.0 / 255.0_f64) as f32, 1.0]);
    let AnyPicture::Bytes(bytes) = to(DType::UInt8, Values::Scaled).apply(scaled).unwrap() else { panic!("bytes") };
    assert_eq!(bytes.pixels(), [0, 51, 255]);
}

#[test]
fn a_mask_has_no_values_of_its_own() {
    let mask = || Picture::new(2, 2, 1, vec![1_000_000_i64, 2, 3, 4]);
    let pad = Operation::Pad { left: 1, top: 0, right: 0, bottom: 0, fill: vec![7.0], mode: PaddingMode::Constant };
    assert_eq!(pad.apply_to_mask(mask()).unwrap().pixels(), [7, 1_000_000, 2, 7, 3, 4]);
    assert_eq!(Operation::Invert.apply_to_mask(mask()).unwrap(), mask());
}

#[test]
fn boxes_move_with_their_content() {
    let numbers = vec![[1.0, 2.0, 4.0, 8.0]];
    let mut boxes = Boxes { numbers, height: 10, width: 20, coordinates: Coordinates::Whole, ..Boxes::default() };
    for operation in [
        Operation::HorizontalFlip,
        Operation::Crop { top: 3, left: 0, height: 7, width: 18 },
        Operation::Pad { left: 1, top: 1, right: 0, bottom: 0, fill: vec![], mode: PaddingMode::Constant },
        Operation::Equalize,
    ] {
        operation.apply_to_boxes(&mut boxes).unwrap();
    }
    assert_eq!((&boxes.numbers[..], boxes.height, boxes.width), (&[[17.0, 1.0, 19.0, 6.0]][..], 8, 19));
}

#[test]
fn boxes_are_dropped_and_converted() {
    let numbers = vec![[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 0.5, 9.0], [15.0, 2.0, 9.0, 3.0], [4.0, 4.0, 2.0, 3.0]];
    let format = BoxFormat::CornerAndSize;
    let mut boxes = Boxes { numbers, format, height: 10, width: 20, ..Boxes::default() };
    for operation in [
        Operation::SanitizeBoxes { min_size: 1.0, min_area: 1.0 },
        Operation::ConvertBoxes { format: BoxFormat::CenterAndSize },
        Operation::SanitizeBoxes { min_size: 1.0, min_area: 7.0 },
        Operation::ClampBoxes,
    ] {
        operation.apply_to_boxes(&mut boxes).unwrap();
    }
    assert_eq!((&boxes.rows, &boxes.numbers), (&Some(vec![0]), &vec![[5.0, 5.0, 10.0, 10.0]]));
    assert_eq!(boxes.format, BoxFormat::CenterAndSize);

    let blank = |kept: &[bool]| Operation::BlankBoxes { kept: kept.to_vec() };
    assert!(
        blank(&[true, false]).apply_to_boxes(&mut boxes).unwrap_err().contains("drawn for 2 boxes, but there are 1")
    );
    blank(&[true]).apply_to_boxes(&mut boxes).unwrap();
    assert_eq!(boxes.numbers, [[5.0, 5.0, 10.0, 10.0]]);
    blank(&[false]).apply_to_boxes(&mut boxes).unwrap();
    assert_eq!(boxes.numbers, [[0.0; 4]]);
    assert_eq!(bytes(&blank(&[false]), 2, 1, &[3, 4]), [3, 4]);
}

#[test]
fn key_points_are_in_the_middle_of_pixels() {
    let places = vec![[0.0, 9.0], [19.0, 4.0]];
    let mut points = KeyPoints { places, height: 10, width: 20, coordinates: Coordinates::Whole };
    for operation in [
        Operation::HorizontalFlip,
        Operation::VerticalFlip,
        Operation::Crop { top: 3, left: 1, height: 7, width: 18 },
        Operation::Pad { left: 2, top: 1, right: 0, bottom: 0, fill: vec![], mode: PaddingMode::Constant },
        Operation::Equalize,
        Operation::Resize { height: 4, width: 30, interpolation: Interpolation::Nearest, antialias: Antialias::Off },
    ] {
        operation.apply_to_key_points(&mut points).unwrap();
    }
    assert_eq!((&points.places[..], points.height, points.width), (&[[30.0, -1.0], [1.0, 1.0]][..], 4, 30));
    let mirror = Operation::Pad { left: 2, top: 0, right: 0, bottom: 0, fill: vec![], mode: PaddingMode::Reflect };
    assert!(mirror.apply_to_key_points(&mut points).unwrap_err().contains("padded"));
    let turn = Operation::Rotate {
        angle: 90.0,
        interpolation: Interpolation::Nearest,
        frame: Frame::Same,
        center: None,
        fill: vec![],
    };
    assert!(turn.apply_to_key_points(&mut points).unwrap_err().contains("rotated"));
}

#[test]
fn a_perspective_moves_pixels_boxes_and_masks_the_same() {
    // Position (x, y) shows what was at (x + 1, y + 2).
    let coefficients = [1.0, 0.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0];
    let shift = Operation::Perspective { coefficients, interpolation: Interpolation::Nearest, fill: vec![9.0] };
    let pixels: Vec<u8> = (0..12).collect();
    assert_eq!(bytes(&shift, 4, 3, &pixels), [9, 10, 11, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
    let mask = Picture::new(4, 3, 1, (0..12_i64).map(|value| value * 1_000_000_007).collect());
    assert_eq!(shift.apply_to_mask(mask).unwrap().pixels()[..4], [9_000_000_063, 10_000_000_070, 11_000_000_077, 9]);
    let mut boxes = Boxes { numbers: vec![[2.0, 2.0, 3.0, 3.0]], height: 3, width: 4, ..Boxes::default() };
    shift.apply_to_boxes(&mut boxes).unwrap();
    assert_eq!(boxes.numbers, [[1.0, 0.0, 2.0, 1.0]]);
    let in_a_line =
        Operation::Perspective { coefficients: [0.0; 8], interpolation: Interpolation::Nearest, fill: vec![] };
    assert!(in_a_line.apply_to_boxes(&mut boxes).unwrap_err().contains("line"));
}

#[test]
fn noise_is_added_and_limited() {
    let noise = |noise, deviates: &[f32]| Operation::GaussianNoise {
        mean: 0.0,
        sigma: 1.0,
        noise,
        deviates: deviates.to_vec(),
    };
    // Two channels of two pixels; half of white is 127 in bytes.
    let deviates = [0.5, -1.0, 0.0, 1.0];
    let image = |limits| bytes(&noise(limits, &deviates), 2, 1, &[10, 20, 30, 40]);
    assert_eq!(image(Noise::Clipped), [137, 20, 0, 255]);
    assert_eq!(image(Noise::Free), [137, 20, 31, 39]);
    assert_eq!(floats(&noise(Noise::Clipped, &deviates[..2]), 2, 1, &[0.25, 0.5]), [0.75, 0.0]);
    assert_eq!(floats(&noise(Noise::Free, &deviates[..2]), 2, 1, &[0.25, 0.5]), [0.75, -0.5]);
    let picture = AnyPicture::Bytes(Picture::new(2, 1, 1, vec![1, 2]));
    assert!(noise(Noise::Free, &deviates).apply(picture).unwrap_err().contains("4 deviations for 2 values"));
}
