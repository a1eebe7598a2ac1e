//! [`decode_image`]: decodes the bytes of a file, in any supported format.

use super::Reason;
use super::exif::{orientation, turn};
use super::image::Image;
use super::image_mode::ImageMode;
use super::jpeg;
use super::palette;
use super::raster::{self, RasterFormat};

/// Default maximum number of pixels of an image: the limit above which Pillow's `Image.open` raises.
const MOST_PIXELS: u64 = 178_956_970;

/// How to decode images.
///
/// # Example
/// ```
/// use sluicegate::{DecodeOptions, ImageMode};
/// let gray = DecodeOptions { mode: ImageMode::Gray, ..DecodeOptions::default() };
/// assert_eq!(gray.max_pixels, 178_956_970);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeOptions {
    /// The channels to decode to.
    pub mode: ImageMode,
    /// How to treat a file that specifies which side is up.
    pub orientation: Orientation,
    /// How to treat a JPEG that is truncated or damaged.
    pub truncated: Truncated,
    /// Maximum number of pixels of an image, because a small file may claim any number.
    pub max_pixels: u64,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            mode: ImageMode::Rgb,
            orientation: Orientation::AsStored,
            truncated: Truncated::Refuse,
            max_pixels: MOST_PIXELS,
        }
    }
}

/// How to treat a file that specifies which side is up, as those of phones do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Orientation {
    /// Ignore it: rows are returned as they are stored, as in Pillow and torchvision.
    #[default]
    AsStored,
    /// Rotate the image according to its EXIF data.
    Exif,
}

/// How to treat a JPEG that is truncated or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncated {
    /// Return an error.
    #[default]
    Refuse,
    /// Return the part that exists; the rest is what the decoder makes of missing data: gray, as with Pillow's
    /// `LOAD_TRUNCATED_IMAGES`.
    Fill,
}

/// The supported formats, recognized by the first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Jpeg,
    Raster(RasterFormat),
}

impl Format {
    pub(super) fn of(encoded: &[u8]) -> Result<Self, Reason> {
        match encoded {
            [] => Err("it has no bytes".into()),
            [0xff, 0xd8, ..] => Ok(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Ok(Self::Raster(RasterFormat::Png)),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Self::Raster(RasterFormat::WebP)),
            [b'B', b'M', ..] => Ok(Self::Raster(RasterFormat::Bmp)),
            [b'G', b'I', b'F', b'8', ..] => Ok(Self::Raster(RasterFormat::Gif)),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Ok(Self::Raster(RasterFormat::Tiff)),
            [b'P', b'1'..=b'6', white, ..] if white.is_ascii_whitespace() => Ok(Self::Raster(RasterFormat::Pnm)),
            _ => Err(refused(encoded)),
        }
    }
}

/// Returns why a file of unknown format is rejected, naming the format if it can be recognized.
fn refused(encoded: &[u8]) -> Reason {
    let expected = "a JPEG, PNG, WebP, BMP, GIF, TIFF or PNM image";
    match unsupported(encoded) {
        Some(name) => format!(
            "it is an image in the format {name}, which is not decoded: expected {expected}; convert the files, or open them \
             with Pillow in a dataset of your own"
        ),
        None => {
            let start = &encoded[..encoded.len().min(8)];
            format!("it begins with {}, and is not {expected}", start.escape_ascii())
        }
    }
}

/// Returns the name of an unsupported image format, recognized by the first bytes of the file.
fn unsupported(encoded: &[u8]) -> Option<&'static str> {
    // An `ftyp` box of ISO base media: its size, its brand, a version, and other compatible brands.
    if let [a, b, c, d, b'f', b't', b'y', b'p', brands @ ..] = encoded {
        let size = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let brands = brands.get(..size.saturating_sub(8)).unwrap_or(brands).as_chunks::<4>().0;
        let has = |names: &[&[u8; 4]]| brands.iter().take(64).any(|brand| names.contains(&brand));
        return match () {
            () if has(&[b"avif", b"avis"]) => Some("AVIF"),
            () if has(&[b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"]) => Some("HEIC"),
            () => None,
        };
    }
    match encoded {
        [0xff, 0x0a, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', b'\r', b'\n', 0x87, b'\n', ..] => Some("JPEG XL"),
        [0xff, 0x4f, 0xff, 0x51, ..] | [0, 0, 0, 12, b'j', b'P', b' ', b' ', b'\r', b'\n', 0x87, b'\n', ..] => {
            Some("JPEG 2000")
        }
        [b'8', b'B', b'P', b'S', ..] => Some("Photoshop (PSD)"),
        [b'<', b'?', b'x', b'm', b'l', ..] | [b'<', b's', b'v', b'g', ..] => Some("SVG or other XML"),
        [0x76, 0x2f, 0x31, 0x01, ..] => Some("OpenEXR"),
        _ => None,
    }
}

/// Decodes the bytes of a file: JPEG, PNG, WebP, BMP, GIF (first image), TIFF (first page), or PNM, recognized by the
/// first bytes. JPEG is decoded to the values of Pillow and torchvision, bit for bit. Several threads may decode at the
/// same time.
///
/// # Errors
/// A text that says why they are not an image, or one that may not be decoded; a caller that knows the file turns it
/// into an error.
///
/// # Example
/// ```
/// use sluicegate::{DecodeOptions, decode_image};
/// let bitmap = [
///     &b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0"[..], // 58 bytes, of which the image begins at the 54th
///     &b"\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..],
///     &b"\x03\x02\x01\0"[..],
/// ];
/// let image = decode_image(&bitmap.concat(), &DecodeOptions::default()).unwrap();
/// assert_eq!((image.shape(), image.pixels()), ([1, 1, 3], &[1, 2, 3][..]));
/// assert!(decode_image(b"text", &DecodeOptions::default()).is_err());
/// ```
pub fn decode_image(encoded: &[u8], options: &DecodeOptions) -> Result<Image, Reason> {
    let format = Format::of(encoded)?;
    let numbers = match (format, options.mode) {
        (Format::Raster(RasterFormat::Png), ImageMode::Palette) => palette::numbers(encoded, options)?,
        _ => None,
    };
    let image = match (numbers, format) {
        (Some(numbers), _) => numbers,
        (None, Format::Jpeg) => jpeg::decode(encoded, options)?,
        (None, Format::Raster(format)) => raster::decode(encoded, format, options)?,
    };
    let image = options.mode.convert(image)?;
    Ok(match options.orientation {
        Orientation::AsStored => image,
        Orientation::Exif => turn(image, orientation(encoded, format)),
    })
}

/// Returns the stored width and height of an image in pixels, without decoding it.
///
/// # Errors
/// As [`decode_image`].
pub fn image_size(encoded: &[u8]) -> Result<(usize, usize), Reason> {
    match Format::of(encoded)? {
        Format::Jpeg => jpeg::size(encoded),
        Format::Raster(format) => raster::size(encoded, format),
    }
}

/// Fails if an image of that size must not be decoded.
pub(super) fn check_size(width: usize, height: usize, options: &DecodeOptions) -> Result<(), Reason> {
    let pixels = width as u64 * height as u64;
    match pixels {
        0 => Err(format!("it says that it has {width} x {height} pixels")),
        _ if pixels > options.max_pixels => Err(format!(
            "it says that it has {width} x {height} pixels, {pixels}, and max_pixels is {}: raise that if the image is one \
             that you trust",
            options.max_pixels
        )),
        _ => Ok(()),
    }
}
