//! The palette indices of the pixels of a PNG.

use std::io::Cursor;
use std::panic::catch_unwind;

use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};

use super::super::Reason;
use super::super::image::Image;
use super::decode_options::{DecodeOptions, check_size};
use crate::DType;

/// Maximum memory in bytes that the decoder may take in addition to the image.
const SPARE: usize = 64 << 20;

/// Returns the palette indices of the pixels, or None if the image has no palette.
pub(in crate::transform) fn numbers(encoded: &[u8], options: &DecodeOptions) -> Result<Option<Image>, Reason> {
    // As for other parsers: a panic means a damaged image.
    let decoded = catch_unwind(|| numbers_unguarded(encoded, options));
    decoded.unwrap_or_else(|_| Err("it can't be decoded as PNG (the decoder panicked)".into()))
}

fn numbers_unguarded(encoded: &[u8], options: &DecodeOptions) -> Result<Option<Image>, Reason> {
    let refuse = |error: DecodingError| format!("it can't be decoded as PNG ({error})");
    let mut decoder = Decoder::new_with_limits(Cursor::new(encoded), Limits { bytes: SPARE });
    decoder.set_transformations(Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(refuse)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let (ColorType::Indexed, depth) = reader.output_color_type() else { return Ok(None) };
    check_size(width, height, options)?;
    let stored = reader.output_buffer_size().ok_or("it has more pixels than can be addressed")?;
    let mut rows = vec![0; stored];
    reader.next_frame(&mut rows).map_err(refuse)?;
    let bits = match depth {
        BitDepth::One => 1,
        BitDepth::Two => 2,
        BitDepth::Four => 4,
        BitDepth::Eight | BitDepth::Sixteen => return Ok(Some(Image::new(width, height, 1, DType::UInt8, rows))),
    };
    let row = (width * bits).div_ceil(8);
    let unpacked = rows.chunks_exact(row.max(1)).flat_map(|row| unpack(row, bits).take(width)).collect();
    Ok(Some(Image::new(width, height, 1, DType::UInt8, unpacked)))
}

/// Unpacks numbers of `bits` bits, the first of each byte in its upper bits (PNG, third edition, section 7.2).
fn unpack(row: &[u8], bits: usize) -> impl Iterator<Item = u8> {
    let places = (0..8 / bits).rev().map(move |place| place * bits);
    let mask = (1_u8 << bits) - 1;
    row.iter().flat_map(move |&byte| places.clone().map(move |shift| (byte >> shift) & mask))
}
