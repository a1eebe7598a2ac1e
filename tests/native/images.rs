//! Images that are decoded and transformed on the way into their batch.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::internal::JpegScale;
use sluicegate::{
    Antialias, BoxFormat, ChannelOrder, DType, DataLoader, Dataset, DecodeOptions, DecodedField, DecodedImages, Error,
    Field, Folder, FolderClasses, FolderOptions, Image, ImageMode, ImagePipeline, ImageTransform, InMemory,
    Interpolation, Stack, TorchGenerator, Truncated, Values,
};
use tempfile::TempDir;

/// 77 x 47 pixels of waves and noise, with colors at half the resolution.
const WAVES: &[u8] = include_bytes!("images/waves.jpg");

fn training(size: usize) -> Vec<ImageTransform> {
    vec![
        ImageTransform::RandomResizedCrop {
            size: [size; 2],
            scale: [0.08, 1.0],
            ratio: [0.75, 4.0 / 3.0],
            interpolation: Interpolation::Bilinear,
            antialias: Antialias::On,
            log_ratio: None,
        },
        ImageTransform::RandomHorizontalFlip { p: 0.5 },
        ImageTransform::ToDtype { dtype: DType::Float32, values: Values::Scaled },
        ImageTransform::Normalize { mean: vec![0.5; 3], std: vec![0.25; 3] },
    ]
}

/// Returns a folder of images of 3 x 2 pixels, each of a single color.
fn folder(images: u8) -> (TempDir, Arc<Folder>) {
    let root = tempfile::tempdir().unwrap();
    for number in 0..images {
        let class = root.path().join(["a", "b"][usize::from(number) % 2]);
        fs::create_dir_all(&class).unwrap();
        let pixels = vec![number * 10; 6];
        fs::write(class.join(format!("{number}.pgm")), [&b"P5 3 2 255 "[..], &pixels].concat()).unwrap();
    }
    let options = FolderOptions { classes: FolderClasses::FirstFolder, ..FolderOptions::default() };
    let files = Arc::new(Folder::open(root.path(), &options).unwrap());
    (root, files)
}

fn decoded(files: &Arc<Folder>, transforms: Vec<ImageTransform>) -> Arc<DecodedImages> {
    let fields = [DecodedField::Image(0, ImagePipeline::new(transforms)), DecodedField::Kept(2)];
    Arc::new(DecodedImages::new(Arc::clone(files) as Arc<dyn Dataset>, fields).unwrap())
}

#[test]
fn samples_have_one_form_and_what_was_kept() {
    let (_root, files) = folder(4);
    let images = decoded(&files, vec![ImageTransform::CenterCrop { size: [2, 1] }]);
    assert_eq!(
        images.schema().fields(),
        [Field::new("bytes", DType::UInt8, [3, 2, 1]), Field::new("class", DType::Int64, [])]
    );
    for threads in [0, 2] {
        let loader = DataLoader::builder(images.clone()).batch_size(4).threads(threads).build().unwrap();
        let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
        assert_eq!(batch.to_vec::<i64>(1).unwrap(), [0, 0, 1, 1]);
        let gray: Vec<u8> = [0, 20, 10, 30].into_iter().flat_map(|gray| [gray; 6]).collect();
        assert_eq!(batch.to_vec::<u8>(0).unwrap(), gray);
    }
}

#[test]
fn draws_follow_from_seed_epoch_and_index_alone() {
    let (_root, files) = folder(9);
    let flips = vec![
        ImageTransform::CenterCrop { size: [2, 3] },
        ImageTransform::RandomErasing {
            p: 0.8,
            scale: [0.2, 0.5],
            ratio: [0.5, 2.0],
            value: sluicegate::ErasingValue::Random,
            log_ratio: None,
        },
    ];
    let images = decoded(&files, flips);
    let batches = |threads: usize, seed: u64, epoch: u64| -> Vec<Vec<u8>> {
        let loader = DataLoader::builder(images.clone()).batch_size(2).threads(threads).shuffle(seed).build().unwrap();
        loader.epoch(epoch).unwrap().map(|batch| batch.unwrap().to_vec::<u8>(0).unwrap()).collect()
    };
    assert_eq!(batches(0, 7, 0), batches(3, 7, 0));
    assert_ne!(batches(0, 7, 0), batches(0, 7, 1));
    let unseeded = DataLoader::builder(images.clone()).batch_size(2).build();
    assert!(matches!(unseeded, Err(Error::InvalidArgument { argument: "seed", .. })));
}

#[test]
fn images_without_a_fixed_shape_or_bytes_are_refused() {
    let (_root, files) = folder(1);
    let files = files as Arc<dyn Dataset>;
    let of_any_size = DecodedField::Image(0, ImagePipeline::new(Vec::new()));
    let of_numbers = DecodedField::Image(2, ImagePipeline::new(vec![ImageTransform::CenterCrop { size: [1, 1] }]));
    for (field, words) in [
        (of_any_size, "no fixed size"),
        (of_numbers, "is not a field of encoded files"),
        (DecodedField::Kept(3), "no field 3"),
    ] {
        let refused = DecodedImages::new(Arc::clone(&files), [field]).err().unwrap().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn a_damaged_image_is_named() {
    let (root, files) = folder(3);
    fs::write(root.path().join("a/2.pgm"), b"P5 3 2 255 \0").unwrap();
    let images = decoded(&files, vec![ImageTransform::CenterCrop { size: [2, 2] }]);
    let loader = DataLoader::builder(images).batch_size(1).build().unwrap();
    let messages: Vec<String> =
        loader.epoch(0).unwrap().filter_map(|batch| batch.err().map(|error| error.to_string())).collect();
    assert_eq!(messages.len(), 1);
    assert!(messages[0].contains("sample 1, field `bytes`") && messages[0].contains("a/2.pgm"), "{}", messages[0]);
}

#[test]
fn channels_come_last_where_they_are_asked_for() {
    let transforms = || vec![ImageTransform::RandomHorizontalFlip { p: 1.0 }];
    let run = |pipeline: ImagePipeline| {
        let image = pipeline.run(WAVES, Some(&mut TorchGenerator::new(0))).unwrap();
        (image.shape(), image.to_bytes().unwrap())
    };
    let (shape, first) = run(ImagePipeline::new(transforms()));
    let (last_shape, last) = run(ImagePipeline::new(transforms()).with_order(ChannelOrder::Last));
    assert_eq!((shape, last_shape), ([3, 47, 77], [47, 77, 3]));
    for (pixel, values) in last.chunks_exact(3).enumerate() {
        assert_eq!(values, [0, 1, 2].map(|channel| first[channel * 47 * 77 + pixel]));
    }
}

proptest! {
    /// A crop is decoded separately, with the values of the whole image.
    #[test]
    fn crops_have_the_values_of_the_whole_image(height in 1_usize..47, width in 1_usize..77, seed: u64) {
        let crop = ImageTransform::RandomCrop {
            size: [height, width],
            padding: None,
            small_image: sluicegate::SmallImage::Refused,
            fill: vec![],
            padding_mode: sluicegate::PaddingMode::Constant,
            draws: sluicegate::CropDraws::Needed,
        };
        let mut generator = TorchGenerator::new(seed);
        let top = if height < 47 { generator.random_below((47 - height + 1) as u64) as usize } else { 0 };
        let left = if width < 77 { generator.random_below((77 - width + 1) as u64) as usize } else { 0 };
        let pipeline = ImagePipeline::new(vec![crop]).with_order(ChannelOrder::Last);
        let part = pipeline.run(WAVES, Some(&mut TorchGenerator::new(seed))).unwrap().to_bytes().unwrap();
        let whole = Image::decode(WAVES, &DecodeOptions::default()).unwrap();
        for row in 0..height {
            let start = ((top + row) * 77 + left) * 3;
            prop_assert_eq!(&part[row * width * 3..][..width * 3], &whole.pixels()[start..start + width * 3]);
        }
    }

    /// Whatever is done to the file, the result is an error, or an image of the declared form.
    #[test]
    fn damage_is_an_error_or_an_image(flips in prop::collection::vec((0_usize..WAVES.len(), 0_u8..8), 1..6),
                                      cut in 0_usize..WAVES.len(), is_cut: bool, is_filled: bool, seed: u64) {
        let mut bytes = WAVES.to_vec();
        for (place, bit) in flips {
            bytes[place] ^= 1 << bit;
        }
        if is_cut {
            bytes.truncate(cut);
        }
        let truncated = if is_filled { Truncated::Fill } else { Truncated::Refuse };
        let options = DecodeOptions { truncated, max_pixels: 1 << 20, ..DecodeOptions::default() };
        for scale in [JpegScale::Full, JpegScale::Least] {
            let pipeline = ImagePipeline::new(training(9)).with_decode(options).with_scale(scale);
            if let Ok(image) = pipeline.run(&bytes, Some(&mut TorchGenerator::new(seed))) {
                prop_assert_eq!(image.shape(), [3, 9, 9]);
                prop_assert_eq!(image.to_bytes().unwrap().len(), 3 * 9 * 9 * 4);
            }
        }
    }

    /// A truncated file is damaged, whichever part of it was drawn.
    #[test]
    fn a_truncated_file_is_never_accepted(cut in 2_usize..WAVES.len(), seed: u64) {
        let pipeline = ImagePipeline::new(training(5));
        prop_assert!(pipeline.run(&WAVES[..cut], Some(&mut TorchGenerator::new(seed))).is_err());
    }
}

#[test]
fn boxes_and_masks_move_with_their_image() {
    let pixel = |value: u8| [&b"P5 3 2 255 "[..], &[value, 1, 2, 3, 4, 5]].concat();
    let files: Vec<u8> = [pixel(7), pixel(9)].concat();
    let column = |name: &str| Arc::new(InMemory::from_vec(name, files.clone(), [17]).unwrap()) as Arc<dyn Dataset>;
    let boxes = vec![0.0_f32, 0.0, 1.0, 2.0, 1.0, 0.0, 3.0, 1.0];
    let boxes: Arc<dyn Dataset> = Arc::new(InMemory::from_vec("boxes", boxes, [1, 4]).unwrap());
    let files: Arc<dyn Dataset> = Arc::new(
        Stack::new(vec![("image".into(), column("image")), ("mask".into(), column("mask")), ("boxes".into(), boxes)])
            .unwrap(),
    );
    let flipped = vec![ImageTransform::RandomHorizontalFlip { p: 1.0 }, ImageTransform::CenterCrop { size: [2, 3] }];
    let gray = DecodeOptions { mode: ImageMode::Palette, ..DecodeOptions::default() };
    let image = |transforms| ImagePipeline::new(transforms).with_decode(gray);
    let fields = [
        DecodedField::Image(0, image(flipped)),
        DecodedField::Mask(1, image(vec![]), 0),
        DecodedField::Boxes(2, BoxFormat::Corners, 0),
    ];
    let images: Arc<dyn Dataset> = Arc::new(DecodedImages::new(files, fields).unwrap());
    for threads in [0, 2] {
        let loader = DataLoader::builder(Arc::clone(&images)).batch_size(2).seed(3).threads(threads).build().unwrap();
        let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
        let mirrored = [2, 1, 7, 5, 4, 3, 2, 1, 9, 5, 4, 3];
        assert_eq!(batch.bytes(0), mirrored);
        assert_eq!(batch.bytes(1), mirrored);
        let moved: Vec<u8> =
            [2.0_f32, 0.0, 3.0, 2.0, 0.0, 0.0, 2.0, 1.0].into_iter().flat_map(f32::to_ne_bytes).collect();
        assert_eq!(batch.bytes(2), moved);
    }
}

#[test]
fn a_sample_needs_a_label_for_each_box() {
    let files = InMemory::from_vec("image", b"P5 1 1 255 \x07".repeat(2), [12]).unwrap();
    let boxes = InMemory::from_vec("boxes", vec![0.0_f32; 16], [2, 4]).unwrap();
    let column =
        |rows| Arc::new(InMemory::from_vec("labels", vec![0_i64; 2 * rows], [rows]).unwrap()) as Arc<dyn Dataset>;
    let (files, boxes): (Arc<dyn Dataset>, Arc<dyn Dataset>) = (Arc::new(files), Arc::new(boxes));
    let images = |rows, pairs: [(usize, usize); 1]| {
        let columns = [("image", Arc::clone(&files)), ("boxes", Arc::clone(&boxes)), ("labels", column(rows))];
        let dataset = Stack::new(columns.map(|(name, column)| (name.to_owned(), column)).to_vec()).unwrap();
        let crop = ImagePipeline::new(vec![ImageTransform::CenterCrop { size: [1, 1] }]);
        let fields =
            [DecodedField::Image(0, crop), DecodedField::Boxes(1, BoxFormat::Corners, 0), DecodedField::Kept(2)];
        DecodedImages::new(Arc::new(dataset), fields).unwrap().with_rows(pairs)
    };
    let read = |rows| {
        let loader = DataLoader::builder(Arc::new(images(rows, [(1, 2)]).unwrap())).batch_size(2).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(read(2), Ok(()));
    let refused = read(3).unwrap_err();
    assert!(refused.contains("there are 2 boxes in `boxes.boxes` and 3 rows in `labels.labels`"), "{refused}");
    let refused = images(2, [(1, 3)]).err().unwrap().to_string();
    assert!(refused.contains("expected fields with rows"), "{refused}");
}

#[test]
fn boxes_and_masks_without_an_image_are_refused() {
    let files = InMemory::from_vec("image", vec![0_u8; 4], [4]).unwrap();
    let files: Arc<dyn Dataset> = Arc::new(files);
    let mask = DecodedField::Mask(0, ImagePipeline::new(vec![]), 0);
    let refused = DecodedImages::new(Arc::clone(&files), [mask]).err().unwrap().to_string();
    assert!(refused.contains("`image` is attached to field 0, which is not an image"), "{refused}");
    let crop = ImagePipeline::new(vec![ImageTransform::CenterCrop { size: [1, 1] }]);
    let fields = [DecodedField::Image(0, crop.clone()), DecodedField::Mask(0, crop, 0)];
    let refused = DecodedImages::new(files, fields).err().unwrap().to_string();
    assert!(refused.contains("no transforms of their own"), "{refused}");
}
