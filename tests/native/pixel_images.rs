//! Images in memory: one pass over the pixels, draws that follow each other in order, and combinators that forward
//! them.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::internal::{Array, GeneratorPlace, PixelImages, PixelPipeline, Pixels, Segment};
use sluicegate::{
    BatchWriter, ChannelOrder, Column, Concat, DType, Dataset, DecodeOptions, Error, ImageMode, ImagePipeline,
    ImageTransform, InMemory, PaddingMode, SmallImage, Stack, Subset, TorchGenerator, Values,
};

const SIZE: [usize; 2] = [6, 7];

fn mode() -> impl Strategy<Value = PaddingMode> {
    prop_oneof![
        Just(PaddingMode::Constant),
        Just(PaddingMode::Edge),
        Just(PaddingMode::Reflect),
        Just(PaddingMode::Symmetric)
    ]
}

/// Generates a step that moves pixels of images that are 4 or more pixels high and wide.
fn step() -> impl Strategy<Value = ImageTransform> {
    let side = 0..3_i64;
    let padding = [side.clone(), side.clone(), side.clone(), side];
    prop_oneof![
        Just(ImageTransform::RandomHorizontalFlip { p: 0.5 }),
        Just(ImageTransform::RandomVerticalFlip { p: 0.5 }),
        ([4..9_usize, 4..9_usize]).prop_map(|size| ImageTransform::CenterCrop { size }),
        (padding.clone(), mode(), 0..2_u8).prop_map(|(padding, padding_mode, fill)| ImageTransform::Pad {
            padding,
            fill: vec![f32::from(fill) * 9.0],
            padding_mode,
        }),
        (padding, mode(), proptest::bool::ANY).prop_map(|(padding, padding_mode, is_padded)| {
            let small_image = if is_padded { SmallImage::Padded } else { SmallImage::Refused };
            let padding_mode = if is_padded { PaddingMode::Constant } else { padding_mode };
            ImageTransform::RandomCrop {
                size: [4, 5],
                padding: Some(padding),
                small_image,
                fill: vec![9.0],
                padding_mode,
                draws: Default::default(),
            }
        }),
        Just(ImageTransform::RandomApply {
            transforms: vec![
                ImageTransform::RandomHorizontalFlip { p: 0.5 },
                ImageTransform::RandomVerticalFlip { p: 1.0 }
            ],
            p: 0.5
        }),
    ]
}

/// Generates operations on values, some of them before the last of the steps.
fn pipeline() -> impl Strategy<Value = Vec<ImageTransform>> {
    let values = prop_oneof![
        Just(vec![]),
        Just(vec![ImageTransform::ToDtype { dtype: DType::Float32, values: Values::Divided }]),
        Just(vec![
            ImageTransform::ToImage,
            ImageTransform::ToDtype { dtype: DType::Float32, values: Values::Scaled },
            ImageTransform::Normalize { mean: vec![0.3], std: vec![0.7] },
        ]),
    ];
    (prop::collection::vec(step(), 0..4), values, prop::collection::vec(step(), 0..2))
        .prop_map(|(moves, values, last)| moves.into_iter().chain(values).chain(last).collect())
}

fn interleaved(planes: &[u8]) -> Vec<u8> {
    let plane = SIZE[0] * SIZE[1];
    (0..plane).flat_map(|place| (0..3).map(move |channel| planes[channel * plane + place])).collect()
}

proptest! {
    #[test]
    fn one_pass_matches_step_by_step(
        transforms in pipeline(),
        planes in prop::collection::vec(any::<u8>(), 3 * SIZE[0] * SIZE[1]),
        seed in any::<u64>(),
        is_gray in any::<bool>(),
    ) {
        let plane = SIZE[0] * SIZE[1];
        let (channels, planes) = if is_gray { (1, &planes[..plane]) } else { (3, &planes[..]) };
        let pixels = if is_gray { planes.to_vec() } else { interleaved(planes) };
        let mut file = format!("P{} {} {} 255 ", if is_gray { 5 } else { 6 }, SIZE[1], SIZE[0]).into_bytes();
        file.extend(&pixels);
        let mode = if is_gray { ImageMode::Gray } else { ImageMode::Rgb };
        let steps = ImagePipeline::new(transforms.clone()).with_decode(DecodeOptions { mode, ..DecodeOptions::default() });
        let last = PixelPipeline::new(transforms.clone(), SIZE, channels, ChannelOrder::Last);
        let first = PixelPipeline::new(transforms, SIZE, channels, ChannelOrder::First);
        prop_assert_eq!(last.is_ok(), first.is_ok());
        // If one image is rejected, so would an image of another size be.
        let (Ok(last), Ok(first)) = (last, first) else { return Ok(()) };
        let mut generators = [0; 4].map(|_| TorchGenerator::new(seed));
        let [expected_from, last_from, first_from, advanced] = &mut generators;
        let image = steps.run(&file, Some(expected_from)).unwrap();
        prop_assert_eq!(image.shape(), last.form().shape);
        prop_assert_eq!(image.dtype(), last.form().dtype);
        let expected = image.to_bytes().unwrap();
        let mut written = vec![0; expected.len()];
        last.run(&pixels, Some(last_from), &mut written).unwrap();
        prop_assert_eq!(&written, &expected);
        written.fill(0);
        first.run(planes, Some(first_from), &mut written).unwrap();
        prop_assert_eq!(&written, &expected);
        last.advance(advanced).unwrap();
        let words = generators.map(|mut generator| generator.random_u64());
        prop_assert_eq!(words, [words[0]; 4]);
    }
}

#[test]
fn varying_image_shapes_are_refused() {
    let refused = |transforms| PixelPipeline::new(transforms, [6, 7], 3, ChannelOrder::Last).unwrap_err();
    let crop = ImageTransform::CenterCrop { size: [3, 3] };
    let sometimes = ImageTransform::RandomApply { transforms: vec![crop], p: 0.5 };
    assert!(refused(vec![sometimes]).contains("differ in shape"));
    let pad = ImageTransform::Pad { padding: [9; 4], fill: vec![0.0], padding_mode: PaddingMode::Reflect };
    assert!(refused(vec![ImageTransform::RandomApply { transforms: vec![pad], p: 0.0 }]).contains("mirror"));
    let normalize = ImageTransform::Normalize { mean: vec![0.0], std: vec![1.0] };
    assert!(refused(vec![normalize]).contains("floats"));
}

fn augmented(samples: usize) -> PixelImages {
    let pixels = Arc::new(Segment::from_vec((0..samples * 12).map(|value| value as u8).collect()));
    of_pixels(Pixels::InMemory(Array::contiguous(pixels, 0, 1, &[samples, 3, 4]).unwrap())).unwrap()
}

/// Returns the images of these pixels, 3 high and 4 wide.
fn of_pixels(pixels: Pixels) -> sluicegate::Result<PixelImages> {
    let samples = match &pixels {
        Pixels::InMemory(array) => array.len(),
        Pixels::Stored(dataset) => dataset.len(),
    };
    let transforms = vec![
        ImageTransform::RandomHorizontalFlip { p: 0.5 },
        ImageTransform::RandomCrop {
            size: [2, 2],
            padding: None,
            small_image: SmallImage::Refused,
            fill: vec![],
            padding_mode: PaddingMode::Constant,
            draws: Default::default(),
        },
    ];
    let pipeline = PixelPipeline::new(transforms, [3, 4], 1, ChannelOrder::Last).unwrap();
    let labels = InMemory::from_vec("label", (0..samples as i64).collect(), []).unwrap();
    PixelImages::new("image", pixels, pipeline, labels)
}

/// Returns the samples at `indices`, each drawn from where the previous one left the generator, and its final position.
fn drawn(dataset: &dyn Dataset, indices: &[usize], columns: &[Column]) -> (Vec<u8>, u64) {
    let drawing = dataset.as_drawing().expect("it draws in order");
    let mut generator = TorchGenerator::new(3);
    let mut places: Vec<GeneratorPlace> = Vec::new();
    for &index in indices {
        places.push(generator.place(places.last()));
        drawing.advance(index, &mut generator).unwrap();
    }
    let mut bytes = vec![0; 12 * indices.len() + 64];
    let mut into = BatchWriter::new(&mut bytes, columns, indices.len()).with_places(&places);
    match dataset.as_read_many() {
        Some(many) => many.read_many(indices, &mut into).unwrap(),
        None => {
            indices.iter().enumerate().for_each(|(row, &index)| dataset.read(index, &mut into.sample(row)).unwrap())
        }
    }
    (bytes, generator.random_u64())
}

#[test]
fn pixels_of_a_dataset_are_those_in_memory() {
    let fixed = |offset, bytes_per_sample| Column::Fixed { offset, bytes_per_sample };
    let columns = [fixed(0, 4), fixed(64, 8)];
    let stored = |shape: &[usize]| {
        let pixels: Vec<u8> = (0..96).collect();
        Pixels::Stored(Arc::new(InMemory::from_vec("pixels", pixels, shape).unwrap()))
    };
    let images = of_pixels(stored(&[3, 4])).unwrap();
    assert_eq!(drawn(&images, &[5, 2, 2, 7], &columns), drawn(&augmented(8), &[5, 2, 2, 7], &columns));
    let refused = |pixels| of_pixels(pixels).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused(stored(&[3, 8])).contains("a row has 24 bytes, an image 12"));
    let two = [("a", 3), ("b", 4)].map(|(name, len)| {
        (name.to_owned(), Arc::new(InMemory::from_vec(name, vec![0_u8; 2 * len], [len]).unwrap()) as Arc<dyn Dataset>)
    });
    assert!(refused(Pixels::Stored(Arc::new(Stack::new(two.into()).unwrap()))).contains("one field of a fixed size"));
}

#[test]
fn combinators_forward_draws() {
    let fixed = |offset, bytes_per_sample| Column::Fixed { offset, bytes_per_sample };
    let columns = [fixed(0, 4), fixed(64, 8)];
    let alone = augmented(8);
    let expected = drawn(&alone, &[5, 2, 2, 7], &columns);
    let subset = Subset::new(Arc::new(augmented(8)), vec![7, 5, 2]).unwrap();
    assert_eq!(drawn(&subset, &[1, 2, 2, 0], &columns), expected);
    let concat = Concat::new(vec![Arc::new(augmented(3)), Arc::new(augmented(8))]).unwrap();
    assert_eq!(drawn(&concat, &[8, 5, 5, 10], &columns), expected);
    let numbers = Arc::new(InMemory::from_vec("number", vec![0_u8; 8], []).unwrap());
    let stack = Stack::new(vec![("a".into(), Arc::new(augmented(8))), ("b".into(), numbers.clone())]).unwrap();
    let (bytes, after) = drawn(&stack, &[5, 2, 2, 7], &[columns[0], columns[1], fixed(60, 1)]);
    assert_eq!((&bytes[..16], after), (&expected.0[..16], expected.1));
    let twice = Stack::new(vec![("a".into(), Arc::new(augmented(8))), ("b".into(), Arc::new(augmented(8)))]).unwrap();
    let columns_of_both = [columns[0], columns[1], fixed(16, 4), fixed(32, 8)];
    let (bytes, after) = drawn(&twice, &[5, 2, 2, 7], &columns_of_both);
    // The second part draws after the first, sample by sample.
    let (in_turn, after_all) = drawn(&alone, &[5, 5, 2, 2, 2, 2, 7, 7], &columns);
    for (row, pair) in in_turn[..32].chunks(8).enumerate() {
        assert_eq!([&bytes[4 * row..][..4], &bytes[16 + 4 * row..][..4]].concat(), pair);
    }
    assert_eq!(after, after_all);
    assert!(Concat::new(vec![numbers.clone()]).unwrap().as_drawing().is_none());
    let boxed: Box<dyn Dataset> = Box::new(augmented(1));
    assert!(boxed.as_drawing().is_some());
    assert!(alone.as_drawing().unwrap().advance(0, &mut TorchGenerator::new(0)).is_ok());
    assert!(subset.as_drawing().unwrap().advance(3, &mut TorchGenerator::new(0)).is_err());
}

#[test]
fn random_transforms_without_a_generator_are_an_error() {
    let (dataset, mut bytes) = (augmented(2), [0; 12]);
    let columns = [Column::Fixed { offset: 0, bytes_per_sample: 4 }, Column::Fixed { offset: 4, bytes_per_sample: 8 }];
    let mut into = BatchWriter::new(&mut bytes, &columns, 1);
    let error = dataset.read(0, &mut into.sample(0)).unwrap_err();
    assert!(error.to_string().contains("seed"), "{error}");
    let mut into = into.with_keys(&[7]);
    dataset.read(1, &mut into.sample(0)).unwrap();
    assert!(matches!(dataset.read(2, &mut into.sample(0)), Err(Error::IndexOutOfRange { index: 2, len: 2 })));
}

#[test]
fn places_share_the_words_of_the_generator_until_it_refills_them() {
    let mut generator = TorchGenerator::new(1);
    let mut before: Option<GeneratorPlace> = None;
    for draw in 0..1300 {
        let place = generator.place(before.as_ref());
        assert_eq!(TorchGenerator::at(&place).random_u32(), generator.random_u32(), "draw {draw}");
        before = Some(place);
    }
    let mut generator = TorchGenerator::new(1);
    let _ = generator.normal_f32(1);
    let place = generator.place(None);
    assert_eq!(TorchGenerator::at(&place).normal_f32(1), generator.normal_f32(1), "the second of a pair");
}
