//! Transforms draw what torchvision 0.29.2 draws with torch 2.15's generator of the same seed, and report their
//! results.

use sluicegate::internal::{Boxes, Coordinates, ImageShape, Operation, fixed_size};
use sluicegate::{
    Antialias, AugmentPolicy, BoxFormat, CropDraws, DType, ErasingValue, Frame, ImagePipeline, ImageTransform,
    Interpolation, PaddingMode, ResizeTo, SmallImage, TorchGenerator, Values,
};

const PHOTOGRAPH: ImageShape = ImageShape { height: 400, width: 500, channels: 3, dtype: DType::UInt8 };

fn drawn(transform: &ImageTransform, seed: u64) -> (Vec<Operation>, ImageShape) {
    let (mut shape, mut operations) = (PHOTOGRAPH, Vec::new());
    transform.draw(&mut shape, &mut TorchGenerator::new(seed), &mut operations).unwrap();
    (operations, shape)
}

fn resized_crop(size: [usize; 2]) -> ImageTransform {
    ImageTransform::RandomResizedCrop {
        size,
        scale: [0.08, 1.0],
        ratio: [3.0 / 4.0, 4.0 / 3.0],
        interpolation: Interpolation::Bilinear,
        antialias: Antialias::On,
        log_ratio: None,
    }
}

fn random_crop(size: [usize; 2], padding: Option<[i64; 4]>, small_image: SmallImage) -> ImageTransform {
    ImageTransform::RandomCrop {
        size,
        padding,
        small_image,
        fill: vec![0.0],
        padding_mode: PaddingMode::Constant,
        draws: CropDraws::Needed,
    }
}

#[test]
fn floats_are_torchs() {
    let mut generator = TorchGenerator::new(0);
    // A whole block: each half comes from sines and cosines of other quadrants.
    let torchs = [
        -1.12584, -1.15236, -0.25058, -0.43388, 0.84871, 0.69201, -0.31601, -2.11522, 0.32227, -1.26333, 0.34998,
        0.30813, 0.11984, 1.23766, 1.11678, -0.24728,
    ];
    for (value, torchs) in generator.clone().normal_f32(16).iter().zip(torchs) {
        assert!((value - torchs).abs() < 1e-5, "{value} for {torchs}");
    }
    let _ = generator.normal_f32(20);
    // After a block whose end was redrawn; the second of a pair is kept for the third.
    assert_eq!(generator.normal_f32(3), [-0.891_995_3, -1.509_107_7, 0.370_393_54]);
    assert_eq!(generator.rand_f32(), 0.138_716_88);
}

#[test]
fn crops_are_torchvisions() {
    let (operations, shape) = drawn(&resized_crop([224, 192]), 0);
    assert_eq!(operations[0], Operation::Crop { top: 91, left: 72, height: 303, width: 354 });
    assert!(matches!(operations[1], Operation::Resize { height: 224, width: 192, .. }));
    assert_eq!((shape.height, shape.width), (224, 192));

    let (operations, shape) = drawn(&random_crop([300, 300], Some([4; 4]), SmallImage::Refused), 1);
    assert_eq!(operations[1], Operation::Crop { top: 106, left: 69, height: 300, width: 300 });
    assert_eq!((shape.height, shape.width), (300, 300));
}

#[test]
fn colors_and_policies_are_torchvisions() {
    let range = Some([0.6, 1.4]);
    let hue = Some([-0.1, 0.1]);
    let (operations, _) =
        drawn(&ImageTransform::ColorJitter { brightness: range, contrast: range, saturation: range, hue }, 0);
    let expected = [
        Operation::Brightness { factor: 0.705_624_401_569_366_5 },
        Operation::Contrast { factor: 0.845_938_265_323_638_9 },
        Operation::Hue { factor: -0.001_981_317_996_978_759_8 },
        Operation::Saturation { factor: 1.107_262_969_017_028_8 },
    ];
    assert_eq!(operations, expected);

    let interpolation = Interpolation::Nearest;
    let rand =
        ImageTransform::RandAugment { num_ops: 2, magnitude: 9, num_magnitude_bins: 31, interpolation, fill: vec![] };
    assert_eq!(drawn(&rand, 3).0, [Operation::Autocontrast, Operation::Posterize { bits: 7 }]);
    let auto = ImageTransform::AutoAugment { policy: AugmentPolicy::ImageNet, interpolation, fill: vec![] };
    let angle = -26.666_666_030_883_79;
    let turned = Operation::Rotate { angle, interpolation, frame: Frame::Same, center: None, fill: vec![] };
    assert_eq!(drawn(&auto, 4).0, [turned]);
}

#[test]
fn a_probability_of_none_or_all_draws_all_the_same() {
    for (p, len) in [(0.0, 0), (1.0, 1)] {
        let flip = ImageTransform::RandomHorizontalFlip { p };
        let (mut shape, mut operations, mut generator) = (PHOTOGRAPH, Vec::new(), TorchGenerator::new(7));
        flip.draw(&mut shape, &mut generator, &mut operations).unwrap();
        assert_eq!(operations.len(), len);
        let mut other = TorchGenerator::new(7);
        other.skip(1);
        assert_eq!(generator.random_u32(), other.random_u32());
    }
}

#[test]
fn sizes_are_known_before_anything_is_drawn() {
    let shorter = |length| ImageTransform::Resize {
        size: ResizeTo::Shorter { length, max_size: None },
        interpolation: Interpolation::Bilinear,
        antialias: Antialias::On,
    };
    let crop = ImageTransform::CenterCrop { size: [224, 224] };
    assert_eq!(fixed_size(&[shorter(256)]), None);
    assert_eq!(fixed_size(&[shorter(256), crop.clone()]), Some([224, 224]));
    assert_eq!(fixed_size(&[crop.clone(), shorter(100)]), Some([100, 100]));
    let maybe = ImageTransform::RandomApply { transforms: vec![crop.clone()], p: 0.5 };
    assert_eq!(fixed_size(std::slice::from_ref(&maybe)), None);
    assert_eq!(fixed_size(&[crop, maybe]), Some([224, 224]));
    assert_eq!(drawn(&shorter(200), 0).1, ImageShape { height: 200, width: 250, ..PHOTOGRAPH });
}

#[test]
fn impossible_draws_report_a_reason() {
    let refused = |transform: &ImageTransform, words: &str| {
        let mut generator = TorchGenerator::new(0);
        let reason = transform.draw(&mut PHOTOGRAPH.clone(), &mut generator, &mut Vec::new()).unwrap_err();
        assert!(reason.contains(words), "{reason}");
    };
    refused(&random_crop([500, 500], None, SmallImage::Refused), "larger");
    refused(
        &ImageTransform::RandomRotation {
            degrees: [3.0, 1.0],
            interpolation: Interpolation::Nearest,
            frame: Frame::Same,
            center: None,
            fill: vec![],
        },
        "finite range",
    );
    let value = ErasingValue::Color(vec![1.0, 2.0]);
    refused(
        &ImageTransform::RandomErasing { p: 1.0, scale: [0.1, 0.2], ratio: [1.0, 1.0], value, log_ratio: None },
        "channels",
    );
    let floats = ImageTransform::ToDtype { dtype: DType::Float32, values: Values::Scaled };
    let gray = ImageTransform::Grayscale { num_output_channels: 1 };
    assert!(ImageTransform::RandomApply { transforms: vec![gray], p: 0.5 }.output(3, DType::UInt8).is_err());
    assert_eq!(floats.output(3, DType::UInt8), Ok((3, DType::Float32)));
}

#[test]
fn a_samples_generator_is_the_one_that_python_has() {
    // From `sluicegate.rng.generator_state.generator_of_key`.
    let mut generator = TorchGenerator::of_key(123_456_789);
    let first = [7_509_913_307_730_899_958, 8_442_807_754_640_097_020, 3_434_945_812_465_212_247];
    assert_eq!([(); 3].map(|()| generator.random_int64()), first);
    let mut generator = TorchGenerator::of_key(123_456_789);
    generator.skip(700); // Past the words that it began with.
    assert_eq!(generator.random_int64(), 5_458_487_866_989_402_005);
}

#[test]
fn a_crop_of_torchvisions_first_version_draws_in_both_directions() {
    let draws_of = |draws, size| {
        let ImageTransform::RandomCrop { small_image, fill, padding, padding_mode, .. } =
            random_crop(size, None, SmallImage::Refused)
        else {
            unreachable!()
        };
        let crop = ImageTransform::RandomCrop { size, padding, small_image, fill, padding_mode, draws };
        let mut generator = TorchGenerator::new(5);
        crop.draw(&mut { PHOTOGRAPH }, &mut generator, &mut Vec::new()).unwrap();
        let mut other = TorchGenerator::new(5);
        let next = generator.random_u32();
        (0..4).find(|_| other.random_u32() == next).unwrap()
    };
    assert_eq!([[200, 300], [400, 300], [400, 500]].map(|size| draws_of(CropDraws::Needed, size)), [2, 1, 0]);
    assert_eq!([[200, 300], [400, 300], [400, 500]].map(|size| draws_of(CropDraws::Both, size)), [2, 2, 0]);
}

#[test]
fn a_random_order_reports_its_output() {
    let crop = random_crop([32, 32], None, SmallImage::Refused);
    let flip = ImageTransform::RandomHorizontalFlip { p: 1.0 };
    let any = ImageTransform::RandomOrder { transforms: vec![crop.clone(), flip.clone()] };
    let orders: std::collections::HashSet<bool> =
        (0..20).map(|seed| drawn(&any, seed).0[0] == Operation::HorizontalFlip).collect();
    assert_eq!(orders.len(), 2);
    assert_eq!(fixed_size(std::slice::from_ref(&any)), Some([32, 32]));
    let resize = ImageTransform::Resize {
        size: ResizeTo::Shorter { length: 40, max_size: None },
        interpolation: Interpolation::Bilinear,
        antialias: Antialias::On,
    };
    assert_eq!(fixed_size(&[ImageTransform::RandomOrder { transforms: vec![resize, crop] }]), None);
    let to_floats = ImageTransform::ToDtype { dtype: DType::Float32, values: Values::Scaled };
    let refused = ImageTransform::RandomOrder { transforms: vec![to_floats, flip] }.output(3, DType::UInt8);
    assert!(refused.unwrap_err().contains("before or after"));
}

#[test]
fn three_means_make_three_channels_of_a_gray_image() {
    let normalize = ImageTransform::Normalize { mean: vec![0.1, 0.2, 0.3], std: vec![0.5] };
    assert_eq!(normalize.output(1, DType::Float32), Ok((3, DType::Float32)));
    assert_eq!(ImageTransform::Rgb.output(1, DType::UInt8), Ok((3, DType::UInt8)));
    let mut gray = ImageShape { channels: 1, ..PHOTOGRAPH };
    let mut operations = Vec::new();
    normalize.draw(&mut gray, &mut TorchGenerator::new(0), &mut operations).unwrap();
    assert_eq!(operations[0], Operation::RepeatChannels { channels: 3 });
    assert_eq!(gray.channels, 3);
}

const BILINEAR: (Interpolation, Antialias) = (Interpolation::Bilinear, Antialias::On);

fn size_of(transform: &ImageTransform, seed: u64) -> (usize, usize) {
    let (operations, shape) = drawn(transform, seed);
    assert!(
        matches!(operations[..], [Operation::Resize { height, width, .. }] if (height, width) == (shape.height, shape.width))
    );
    assert_eq!(fixed_size(std::slice::from_ref(transform)), None);
    (shape.height, shape.width)
}

#[test]
fn drawn_sizes_are_torchvisions() {
    let (interpolation, antialias) = BILINEAR;
    let random = |min_size, max_size| ImageTransform::RandomResize { min_size, max_size, interpolation, antialias };
    assert_eq!(size_of(&random(100, 300), 0), (144, 180));
    let shortest = ImageTransform::RandomShortestSize {
        min_size: vec![64, 128, 256],
        max_size: Some(300),
        interpolation,
        antialias,
    };
    assert_eq!(size_of(&shortest, 2), (64, 80));
    let jitter =
        ImageTransform::ScaleJitter { target_size: [320, 240], scale_range: [0.1, 2.0], interpolation, antialias };
    assert_eq!(size_of(&jitter, 1), (369, 461));

    let (mut shape, mut operations) = (PHOTOGRAPH, Vec::new());
    let none = random(9, 9);
    let reason = none.draw(&mut shape, &mut TorchGenerator::new(0), &mut operations).unwrap_err();
    assert!(reason.contains("max_size"), "{reason}");
}

#[test]
fn perspectives_and_qualities_are_torchvisions() {
    let perspective = |p| {
        let interpolation = Interpolation::Nearest;
        ImageTransform::RandomPerspective { distortion_scale: 0.5, p, interpolation, fill: vec![] }
    };
    assert_eq!(drawn(&perspective(0.0), 0).0, []);
    let (operations, _) = drawn(&perspective(1.0), 0);
    let [Operation::Perspective { coefficients, .. }] = &operations[..] else { panic!("a perspective") };
    let torchs = [
        1.130_092_740_058_899,
        -0.104_087_486_863_136_29,
        -49.396_945_953_369_14,
        -0.195_190_772_414_207_46,
        1.054_506_182_670_593_3,
        -5.979_502_677_917_480_5,
        0.000_106_532_512_290_868_91,
        -0.000_685_664_068_441_838,
    ];
    assert_eq!(*coefficients, torchs);

    let quality = ImageTransform::Jpeg { quality: [10, 90] };
    assert_eq!(drawn(&quality, 0).0, [Operation::Jpeg { quality: 90 }]);
    assert_eq!(quality.output(3, DType::UInt8), Ok((3, DType::UInt8)));
    assert!(quality.output(3, DType::Float32).unwrap_err().contains("uint8"));
    assert!(quality.output(4, DType::UInt8).unwrap_err().contains("channels"));
}

#[test]
fn noise_is_torchs_normal_deviates() {
    let noise = |sigma| ImageTransform::GaussianNoise { mean: 0.0, sigma, clip: true };
    let (operations, _) = drawn(&noise(0.1), 0);
    let [Operation::GaussianNoise { deviates, .. }] = &operations[..] else { panic!("noise") };
    assert_eq!(deviates.len(), 3 * 400 * 500);
    assert_eq!(*deviates, TorchGenerator::new(0).normal_f32(deviates.len()));
    let (mut shape, mut operations) = (PHOTOGRAPH, Vec::new());
    let reason = noise(-1.0).draw(&mut shape, &mut TorchGenerator::new(0), &mut operations).unwrap_err();
    assert!(reason.contains("sigma"), "{reason}");
}

#[test]
fn chains_are_mixed_with_torchs_weights() {
    let mix = |severity, alpha| ImageTransform::AugMix {
        severity,
        mixture_width: 3,
        chain_depth: 2,
        alpha,
        all_ops: true,
        interpolation: Interpolation::Nearest,
        fill: vec![],
    };
    let (operations, _) = drawn(&mix(3, 1.0), 0);
    let [Operation::Mix { shares, chains }] = &operations[..] else { panic!("a mixture") };
    assert_eq!(*shares, [0.863_761_6, 0.039_001_558, 0.017_798_863, 0.079_437_986]);
    assert!(chains.iter().all(|chain| chain.len() == 2));
    for wrong in [mix(0, 1.0), mix(3, 0.0)] {
        let (mut shape, mut operations) = (PHOTOGRAPH, Vec::new());
        assert!(wrong.draw(&mut shape, &mut TorchGenerator::new(0), &mut operations).is_err());
    }
}

#[test]
fn a_crop_is_drawn_by_boxes() {
    let transform = |[min_scale, max_scale]: [f64; 2], options: &[f64]| ImageTransform::RandomIoUCrop {
        min_scale,
        max_scale,
        min_aspect_ratio: 0.5,
        max_aspect_ratio: 2.0,
        sampler_options: options.to_vec(),
        trials: 40,
    };
    let options = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0];
    let crop = transform([0.3, 1.0], &options);
    let mut image = b"P5 500 400 255 ".to_vec();
    image.resize(image.len() + 500 * 400, 0);
    let boxes = || {
        let numbers = vec![[100.0, 50.0, 200.0, 300.0], [300.0, 100.0, 60.0, 90.0], [0.0, 0.0, 40.0, 40.0]];
        Some(Boxes { numbers, format: BoxFormat::CornerAndSize, coordinates: Coordinates::Whole, ..Boxes::default() })
    };
    let run = |crop: &ImageTransform, boxes, generator: &mut TorchGenerator| {
        let pipeline = ImagePipeline::new(vec![crop.clone()]);
        let made = pipeline.run_number_with_boxes(0, || &image, boxes, Some(generator));
        made.map(|image| image.moves().operations().to_vec())
    };
    let mut generator = TorchGenerator::new(5);
    let drawn = run(&crop, boxes(), &mut generator).unwrap();
    let kept = vec![false, true, false];
    let part = Operation::Crop { top: 7, left: 228, height: 166, width: 190 };
    assert_eq!(drawn, [part, Operation::BlankBoxes { kept }]);
    assert_eq!(generator.rand_f32(), 0.994_184_73);

    assert_eq!(fixed_size(&[ImageTransform::CenterCrop { size: [9, 9] }, crop.clone()]), None);
    let mut refused = |crop: &ImageTransform, boxes| run(crop, boxes, &mut generator).unwrap_err();
    assert!(refused(&crop, None).contains("none were given"));
    assert!(refused(&transform([0.3, 1.0], &[0.5]), boxes()).contains("sampler_options"));
    assert!(refused(&transform([0.3, 1e30], &options), boxes()).contains("max_scale"));
    assert!(refused(&transform([0.0, 0.0], &options), boxes()).contains("min_scale"));
}
