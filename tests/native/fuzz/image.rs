//! Images, whatever their format.

use sluicegate::{DecodeOptions, ImageMode, Orientation, Truncated, decode_image, image_size};

use super::input::Input;

/// How it is decoded, and the file.
pub(super) fn image(input: &[u8]) {
    let mut input = Input::new(input);
    let options = DecodeOptions {
        mode: input.choice(&[ImageMode::Rgb, ImageMode::Grey, ImageMode::Rgba, ImageMode::Unchanged]),
        orientation: input.choice(&[Orientation::AsStored, Orientation::Exif]),
        truncated: input.choice(&[Truncated::Refuse, Truncated::Fill]),
        max_pixels: 1 << 20,
    };
    let file = input.rest();
    let Ok(image) = decode_image(file, &options) else { return };
    let [height, width, channels] = image.shape();
    assert!(options.mode.channels().is_none_or(|expected| expected == channels), "{channels} channels");
    let (stored_width, stored_height) = image_size(file).expect("what was decoded has a size");
    let is_turned = options.orientation == Orientation::Exif && (width, height) == (stored_height, stored_width);
    assert!(is_turned || (width, height) == (stored_width, stored_height), "{width} x {height}");
    assert_eq!(decode_image(file, &options).as_ref(), Ok(&image), "the same file has the same pixels");
    assert!(width * height <= 1 << 20);
}
