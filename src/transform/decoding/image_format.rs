//! [`ImageFormat`]: the format of an image file, recognized by its first bytes.

use super::super::Reason;
use super::raster::RasterFormat;

/// The supported formats, recognized by the first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transform) enum ImageFormat {
    Jpeg,
    Raster(RasterFormat),
}

impl ImageFormat {
    pub(in crate::transform) fn of(encoded: &[u8]) -> Result<Self, Reason> {
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
            "the image format {name} is not supported: expected {expected}; convert the files, or decode them with \
             Pillow in a custom dataset"
        ),
        None => {
            let start = &encoded[..encoded.len().min(8)];
            format!("it begins with {}, so it is not {expected}", start.escape_ascii())
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
