//! [`PlainPng`]: PNG files that Pillow is known to read like this crate.

use std::io::Cursor;
use std::panic::catch_unwind;

use png::{BitDepth, ColorType, DecodeOptions, Decoder, Transformations};

use super::super::image::Image;
use super::image_mode::ImageMode;
use super::plain_jpeg::MOST_PIXELS;
use crate::DType;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Size of the signature and the first chunk.
const HEADER: usize = 33;
/// Pillow may reject more text, so files with more are left to it.
const MOST_TEXT: usize = 1 << 16;
/// Larger files may have more text chunks than Pillow accepts.
const LARGEST: usize = 1 << 25;
const IN_COLOR: usize = 3;
/// Text under these keywords replaces what Pillow has read from other chunks under the same names.
const KEYWORDS_OF_PILLOW: [&[u8]; 10] = [
    b"aspect",
    b"bbox",
    b"chromaticity",
    b"default_image",
    b"dpi",
    b"gamma",
    b"icc_profile",
    b"interlace",
    b"srgb",
    b"transparency",
];

/// An 8-bit PNG file whose header Pillow and this crate understand identically: gray, in color, or with a palette; not
/// interlaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainPng {
    pub(in crate::transform) width: usize,
    pub(in crate::transform) height: usize,
    kind: u8,
}

/// The values of a file: colors, gray values, or indices of the palette's colors.
struct Stored {
    values: Vec<u8>,
    palette: Option<Vec<u8>>,
}

const GRAY: u8 = 0;
const RGB: u8 = 2;
const PALETTE: u8 = 3;

/// True if Pillow takes the text in a chunk for a property of the image.
fn is_read_by_pillow(text: &[u8]) -> bool {
    let keyword = text.split(|&byte| byte == 0).next().unwrap_or_default();
    KEYWORDS_OF_PILLOW.contains(&keyword)
}

impl PlainPng {
    /// Returns the contents of the header, or None for other files.
    pub(in crate::transform) fn of(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER)?.strip_prefix(SIGNATURE)?.strip_prefix(b"\0\0\0\x0dIHDR")?;
        let (sides, rest) = header.as_chunks::<4>().0.split_at(2);
        let [width, height] = [sides[0], sides[1]].map(|side| u32::from_be_bytes(side) as usize);
        let ([8, kind @ (GRAY | RGB | PALETTE), 0, 0], [0, ..]) = (rest[0], rest[1]) else { return None };
        let is_small = width > 0 && height > 0 && width <= MOST_PIXELS && height <= MOST_PIXELS / width;
        is_small.then_some(Self { width, height, kind })
    }

    /// True if Pillow opens it directly as a color image.
    pub(in crate::transform) fn is_in_color(&self) -> bool {
        self.kind == RGB
    }

    /// True if Pillow opens it as a gray image.
    pub(crate) fn is_gray(&self) -> bool {
        self.kind == GRAY
    }

    /// True if Pillow opens it as an image of the indices of a palette's colors.
    pub(crate) fn has_palette(&self) -> bool {
        self.kind == PALETTE
    }

    /// Decodes the image, in color if `mode` is RGB, and otherwise as it is stored; returns None if Pillow might
    /// interpret the file differently, or reject it.
    pub(in crate::transform) fn decode(&self, bytes: &[u8], mode: ImageMode) -> Option<Image> {
        if bytes.len() > LARGEST || !self.has_plain_chunks(bytes) {
            return None;
        }
        // As for other parsers: a panic means a damaged image.
        let stored = catch_unwind(|| self.decode_unguarded(bytes)).ok().flatten()?;
        if mode == ImageMode::Rgb { self.in_color(stored) } else { Some(self.image(stored.values)) }
    }

    /// Verifies all checksums: if they are correct, so are the values.
    fn decode_unguarded(&self, bytes: &[u8]) -> Option<Stored> {
        let mut options = DecodeOptions::default();
        options.set_ignore_adler32(false);
        options.set_skip_ancillary_crc_failures(false);
        options.set_ignore_text_chunk(true);
        let mut decoder = Decoder::new_with_options(Cursor::new(bytes), options);
        decoder.set_transformations(Transformations::IDENTITY);
        let mut reader = decoder.read_info().ok()?;
        let expected = [(GRAY, ColorType::Grayscale), (RGB, ColorType::Rgb), (PALETTE, ColorType::Indexed)];
        let (color, depth) = reader.output_color_type();
        if depth != BitDepth::Eight || !expected.contains(&(self.kind, color)) {
            return None;
        }
        let values = if self.kind == RGB { IN_COLOR } else { 1 };
        let mut pixels =
            vec![0; reader.output_buffer_size().filter(|&size| size == self.width * self.height * values)?];
        reader.next_frame(&mut pixels).ok()?;
        reader.finish().ok()?;
        Some(Stored { values: pixels, palette: reader.info().palette.as_deref().map(<[u8]>::to_vec) })
    }

    fn in_color(&self, stored: Stored) -> Option<Image> {
        let Stored { values, palette } = stored;
        Some(self.image(match self.kind {
            RGB => values,
            GRAY => values.iter().flat_map(|&value| [value; IN_COLOR]).collect(),
            _ => {
                let palette = palette?;
                let colors = palette.as_chunks::<IN_COLOR>().0;
                // An index that is not in the palette is left to Pillow.
                let of_pixel = |&number: &u8| colors.get(usize::from(number)).copied();
                values.iter().map(of_pixel).collect::<Option<Vec<_>>>()?.into_flattened()
            }
        }))
    }

    fn image(&self, values: Vec<u8>) -> Image {
        Image::new(self.width, self.height, values.len() / (self.width * self.height), DType::UInt8, values)
    }

    /// True if all chunks are either skipped by Pillow or understood identically by this crate: no transparency, no
    /// color profile, no second image.
    ///
    /// Source: `PngImagePlugin.py` of Pillow.
    fn has_plain_chunks(&self, bytes: &[u8]) -> bool {
        let (mut rest, mut has_palette, mut has_data) = (&bytes[HEADER..], false, false);
        loop {
            let Some((&[a, b, c, d], after)) = rest.split_first_chunk() else { return false };
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            let Some((kind, after)) = after.split_first_chunk::<4>() else { return false };
            let (Some(data), Some(next)) = (after.get(..length), after.get(length.saturating_add(4)..)) else {
                return false;
            };
            let is_plain = match kind {
                // The stream must declare the largest window: decoders differ in how they enforce a smaller one.
                b"IDAT" if !has_data => {
                    has_data = true;
                    (self.kind == PALETTE) == has_palette
                        && matches!(data, [0x78, flags, ..] if flags & 0x20 == 0 && (0x7800 + u32::from(*flags)) % 31 == 0)
                }
                b"IDAT" => true,
                b"IEND" => return has_data && length == 0,
                _ if has_data => false,
                b"PLTE" => {
                    let is_first = !std::mem::replace(&mut has_palette, true);
                    is_first
                        && self.kind == PALETTE
                        && length > 0
                        && length.is_multiple_of(IN_COLOR)
                        && length <= 256 * IN_COLOR
                }
                b"pHYs" => length == 9,
                b"gAMA" => length == 4,
                b"sRGB" => length == 1,
                b"cHRM" => length == 32,
                b"tIME" => length == 7,
                b"tEXt" => length <= MOST_TEXT && !is_read_by_pillow(data),
                _ => false,
            };
            if !is_plain {
                return false;
            }
            rest = next;
        }
    }
}
