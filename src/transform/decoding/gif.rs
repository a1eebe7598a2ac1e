//! GIF: fills the area around a first frame that does not cover the image, like Pillow.

use std::io::Cursor;

use super::super::Reason;
use super::super::image::Image;

/// Returns `image` with the color that Pillow uses around the first frame, where the decoder returns transparent black:
/// the frame's transparent color, or the first color of its palette.
pub(super) fn filled_around_frame(encoded: &[u8], image: Image) -> Result<Image, Reason> {
    let refuse = |error: gif::DecodingError| format!("it can't be decoded as GIF ({error})");
    let mut decoder = gif::Decoder::new(Cursor::new(encoded)).map_err(refuse)?;
    let Some(frame) = decoder.next_frame_info().map_err(refuse)?.cloned() else { return Ok(image) };
    let (width, height, channels, dtype) = (image.width(), image.height(), image.channels(), image.dtype());
    let columns = usize::from(frame.left)..usize::from(frame.left) + usize::from(frame.width);
    let rows = usize::from(frame.top)..usize::from(frame.top) + usize::from(frame.height);
    if channels != 4 || (columns.start, rows.start) == (0, 0) && columns.end >= width && rows.end >= height {
        return Ok(image);
    }
    let palette = frame.palette.as_deref().or(decoder.global_palette()).unwrap_or(&[]);
    let number = usize::from(frame.transparent.unwrap_or(0));
    let Some(&[red, green, blue]) = palette.as_chunks::<3>().0.get(number) else { return Ok(image) };
    let alpha = if frame.transparent.is_some() { 0 } else { 255 };
    let mut pixels = image.into_pixels();
    for (place, pixel) in pixels.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        if !(columns.contains(&(place % width)) && rows.contains(&(place / width))) {
            *pixel = [red, green, blue, alpha];
        }
    }
    Ok(Image::new(width, height, channels, dtype, pixels))
}
