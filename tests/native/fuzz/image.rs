//! Images of all formats.

use sluicegate::internal::image_size;
use sluicegate::{
    Antialias, DType, DecodeOptions, Image, ImageMode, ImagePipeline, ImageTransform, Interpolation, Orientation,
    TorchGenerator, Truncated, Values,
};

use super::input::Input;

/// Input: decode options, and the file.
pub(super) fn image(input: &[u8]) {
    let mut input = Input::new(input);
    let options = DecodeOptions {
        mode: input.choice(&[
            ImageMode::Rgb,
            ImageMode::Gray,
            ImageMode::Rgba,
            ImageMode::Unchanged,
            ImageMode::Palette,
        ]),
        orientation: input.choice(&[Orientation::AsStored, Orientation::Exif]),
        truncated: input.choice(&[Truncated::Refuse, Truncated::Fill]),
        max_pixels: 1 << 20,
    };
    let file = input.rest();
    let transformed = transformed(file, options);
    // The damage may be in a part of the file that was not requested.
    let Ok(image) = Image::decode(file, &options) else { return };
    assert!(transformed.is_ok() || image.dtype() != DType::UInt8, "{transformed:?}");
    let [height, width, channels] = image.shape();
    assert!(options.mode.channels().is_none_or(|expected| expected == channels), "{channels} channels");
    let (stored_width, stored_height) = image_size(file).expect("what was decoded has a size");
    let is_turned = options.orientation == Orientation::Exif && (width, height) == (stored_height, stored_width);
    assert!(is_turned || (width, height) == (stored_width, stored_height), "{width} x {height}");
    assert_eq!(Image::decode(file, &options).as_ref(), Ok(&image), "the same file has the same pixels");
    assert!(width * height <= 1 << 20);
}

/// Returns a part of the image, resized.
fn transformed(file: &[u8], options: DecodeOptions) -> Result<(), String> {
    let crop = ImageTransform::RandomResizedCrop {
        size: [5, 7],
        scale: [0.08, 1.0],
        ratio: [0.75, 4.0 / 3.0],
        interpolation: Interpolation::Bilinear,
        antialias: Antialias::On,
        log_ratio: None,
    };
    let floats = ImageTransform::ToDtype { dtype: DType::Float32, values: Values::Scaled };
    let pipeline = ImagePipeline::new(vec![crop, floats]).with_decode(options);
    let image = pipeline.run(file, Some(&mut TorchGenerator::new(file.len() as u64)))?;
    let [channels, height, width] = image.shape();
    assert_eq!((height, width), (5, 7));
    assert_eq!(image.to_bytes()?.len(), channels * 5 * 7 * size_of::<f32>());
    Ok(())
}
