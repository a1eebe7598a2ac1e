//! Operations on Pillow images: values computed by hand with its integer arithmetic.

use sluicegate::internal::{AnyPicture, Boxes, ImageShape, Operation, Picture, Torchvision, fixed_size};
use sluicegate::{DType, Frame, ImageTransform, Interpolation, TorchGenerator};

fn of_pillow(operation: Operation) -> Operation {
    Operation::OfPillow { version: Torchvision::V2, operation: Box::new(operation) }
}

fn bytes(operation: Operation, width: usize, height: usize, pixels: &[u8]) -> Vec<u8> {
    let channels = pixels.len() / (width * height);
    let picture = AnyPicture::Bytes(Picture::new(width, height, channels, pixels.to_vec()));
    match of_pillow(operation).apply(picture).unwrap() {
        AnyPicture::Bytes(picture) => picture.into_pixels(),
        AnyPicture::Floats(_) => panic!("bytes stay bytes"),
    }
}

fn turned(angle: f64, frame: Frame) -> Operation {
    Operation::Rotate { angle, interpolation: Interpolation::Nearest, frame, center: None, fill: vec![7.0] }
}

#[test]
fn blends_truncate_fractions() {
    assert_eq!(bytes(Operation::Brightness { factor: 0.5 }, 4, 1, &[0, 1, 101, 255]), [0, 0, 50, 127]);
    assert_eq!(bytes(Operation::Brightness { factor: 1.5 }, 2, 1, &[101, 200]), [151, 255]);
    // The mean gray is rounded.
    assert_eq!(bytes(Operation::Contrast { factor: 0.0 }, 2, 1, &[10, 13]), [12, 12]);
    let primaries = [255, 0, 0, 0, 255, 0, 0, 0, 255];
    assert_eq!(bytes(Operation::Grayscale { channels: 1 }, 3, 1, &primaries), [76, 150, 29]);
    assert_eq!(bytes(Operation::Saturation { factor: 0.0 }, 3, 1, &primaries), [76, 76, 76, 150, 150, 150, 29, 29, 29]);
    let spot = [0, 0, 0, 0, 13, 0, 0, 0, 0];
    assert_eq!(bytes(Operation::Sharpness { factor: 0.0 }, 3, 3, &spot), [0, 0, 0, 0, 5, 0, 0, 0, 0]);
    assert_eq!(bytes(Operation::Sharpness { factor: 0.0 }, 9, 1, &spot), spot);
}

#[test]
fn tables_have_pillows_values() {
    assert_eq!(bytes(Operation::Autocontrast, 3, 1, &[10, 35, 60]), [0, 127, 255]);
    assert_eq!(bytes(Operation::Solarize { threshold: 300.0 }, 2, 1, &[0, 255]), [0, 255]);
    assert_eq!(bytes(Operation::Solarize { threshold: 127.000_000_01 }, 2, 1, &[127, 128]), [127, 127]);
}

#[test]
fn a_third_of_a_turn_of_hue_changes_the_places_of_colors() {
    let third = Operation::Hue { factor: 1.0 / 3.0 };
    assert_eq!(bytes(third, 2, 1, &[255, 0, 0, 10, 10, 10]), [0, 255, 0, 10, 10, 10]);
}

#[test]
fn quarter_turns_are_lossless() {
    assert_eq!(bytes(turned(90.0, Frame::Expanded), 3, 1, &[1, 2, 3]), [3, 2, 1]);
    assert_eq!(bytes(turned(180.0, Frame::Same), 3, 1, &[1, 2, 3]), [3, 2, 1]);
    assert_eq!(bytes(turned(90.0, Frame::Same), 3, 1, &[1, 2, 3]), [7, 2, 7]);
}

#[test]
fn the_frame_of_a_turned_image_has_pillows_size() {
    assert_eq!(of_pillow(turned(45.0, Frame::Expanded)).size_after(10, 10), (16, 16));
    assert_eq!(of_pillow(turned(90.0, Frame::Expanded)).size_after(10, 20), (20, 10));
    assert_eq!(of_pillow(Operation::Autocontrast).size_after(10, 20), (10, 20));
}

#[test]
fn boxes_stay_with_colors_and_do_not_turn() {
    let mut boxes = Boxes { numbers: vec![[1.0, 2.0, 3.0, 4.0]], height: 9, width: 9, ..Boxes::default() };
    of_pillow(Operation::Autocontrast).apply_to_boxes(&mut boxes).unwrap();
    assert_eq!(boxes.numbers, [[1.0, 2.0, 3.0, 4.0]]);
    assert!(of_pillow(turned(5.0, Frame::Same)).apply_to_boxes(&mut boxes).unwrap_err().contains("a Pillow image"));
}

fn drawn(version: Torchvision, transform: ImageTransform, seed: u64) -> Result<Vec<Operation>, String> {
    let mut shape = ImageShape { height: 40, width: 50, channels: 3, dtype: DType::UInt8 };
    let mut operations = Vec::new();
    let whole = ImageTransform::OfPillow { version, transforms: vec![transform] };
    whole.draw(&mut shape, &mut TorchGenerator::new(seed), &mut operations)?;
    Ok(operations)
}

#[test]
fn drawn_operations_match_pillow() {
    let gray = ImageTransform::RandomGrayscale { p: 1.0 };
    assert_eq!(drawn(Torchvision::V2, gray, 0).unwrap(), [of_pillow(Operation::Grayscale { channels: 3 })],);
    let flip = ImageTransform::RandomHorizontalFlip { p: 1.0 };
    assert_eq!(drawn(Torchvision::V1, flip, 0).unwrap(), [Operation::HorizontalFlip]);
    let blur = ImageTransform::GaussianBlur { kernel_size: [3, 3], sigma: [1.0, 1.0] };
    assert!(drawn(Torchvision::V2, blur, 0).unwrap_err().contains("GaussianBlur"));
}

#[test]
fn both_versions_draw_policies_in_their_own_way() {
    let policy = || ImageTransform::TrivialAugmentWide {
        num_magnitude_bins: 31,
        interpolation: Interpolation::Nearest,
        fill: vec![],
    };
    let differ = (0..50).filter(|&seed| {
        let [first, second] = [Torchvision::V1, Torchvision::V2].map(|version| {
            drawn(version, policy(), seed)
                .unwrap()
                .into_iter()
                .map(|operation| match operation {
                    Operation::OfPillow { operation, .. } => *operation,
                    other => other,
                })
                .collect::<Vec<_>>()
        });
        first != second
    });
    // The sign is drawn as an integer, or as a float.
    assert!((5..45).contains(&differ.count()));
}

#[test]
fn a_choice_has_one_size_if_all_parts_have_it() {
    let crop = |length| ImageTransform::CenterCrop { size: [length, 9] };
    let choice = |transforms: Vec<ImageTransform>| ImageTransform::RandomChoice { p: vec![0.5; 2], transforms };
    assert_eq!(fixed_size(&[choice(vec![crop(5), crop(5)])]), Some([5, 9]));
    assert_eq!(fixed_size(&[choice(vec![crop(5), crop(6)])]), None);
    let gray = ImageTransform::Grayscale { num_output_channels: 1 };
    assert_eq!(choice(vec![gray.clone(), gray.clone()]).output(3, DType::UInt8), Ok((1, DType::UInt8)));
    assert!(choice(vec![gray, crop(5)]).output(3, DType::UInt8).unwrap_err().contains("RandomChoice"));
    assert!(drawn(Torchvision::V2, choice(vec![crop(5)]), 0).unwrap_err().contains("probabilities"));
}
