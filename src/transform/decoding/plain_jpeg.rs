//! [`PlainJpeg`]: JPEG files that Pillow is known to read like this crate.

/// Pillow may warn about more pixels, so files with more are left to it.
pub(in crate::transform) const MOST_PIXELS: usize = 1 << 26;

/// Why a file is not known to be a [`PlainJpeg`].
pub(in crate::transform) enum NotPlain {
    /// The headers do not end within these bytes.
    TooShort,
    /// The file is of another type, or Pillow may interpret it differently.
    Other,
}

/// A JPEG file whose headers Pillow and libjpeg understand identically: gray or in three colors, 8 bits, and nothing
/// between the headers. Pillow parses the headers itself, and rejects some that libjpeg accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainJpeg {
    pub(in crate::transform) width: usize,
    pub(in crate::transform) height: usize,
    /// True if it is in color, false if gray.
    pub(in crate::transform) is_in_color: bool,
    /// True if all of the image is in one scan.
    is_one_scan: bool,
    /// The offset of the first scan's data.
    scan: usize,
}

impl PlainJpeg {
    /// Parses the beginning of a file.
    ///
    /// Source: `JpegImagePlugin.py` of Pillow.
    pub(in crate::transform) fn of(bytes: &[u8]) -> Result<Self, NotPlain> {
        let Some(start) = bytes.get(..2) else { return Err(NotPlain::TooShort) };
        if start != [0xff, 0xd8] {
            return Err(NotPlain::Other);
        }
        let mut at = 2;
        let mut frame = None;
        loop {
            let [prefix, marker, high, low] = match bytes.get(at..at + 4) {
                Some(&[prefix, marker, high, low]) => [prefix, marker, high, low],
                _ => return Err(NotPlain::TooShort),
            };
            let length = usize::from(u16::from_be_bytes([high, low]));
            if prefix != 0xff || length < 2 {
                return Err(NotPlain::Other);
            }
            let Some(segment) = bytes.get(at + 4..at + 2 + length) else { return Err(NotPlain::TooShort) };
            at += 2 + length;
            match (marker, segment) {
                (0xc0..=0xc2, [8, h1, h0, w1, w0, colors @ (1 | 3), rest @ ..])
                    if frame.is_none() && rest.len() == 3 * usize::from(*colors) =>
                {
                    let [height, width] = [[*h1, *h0], [*w1, *w0]].map(|pair| usize::from(u16::from_be_bytes(pair)));
                    if width == 0 || height == 0 || width * height > MOST_PIXELS {
                        return Err(NotPlain::Other);
                    }
                    frame = Some((width, height, *colors, marker));
                }
                (0xda, [components, ..]) => {
                    let Some((width, height, colors, kind)) = frame else { return Err(NotPlain::Other) };
                    let is_one_scan = kind != 0xc2 && *components == colors;
                    let is_in_color = colors == 3;
                    return Ok(Self { width, height, is_in_color, is_one_scan, scan: at });
                }
                (0xe0, _) if segment.starts_with(b"JFIF") && segment.len() < 7 => return Err(NotPlain::Other),
                (0xe2, _) if segment.starts_with(b"MPF\0") => return Err(NotPlain::Other),
                (0xe2, _) if segment.starts_with(b"ICC_PROFILE\0") && segment.len() < 14 => {
                    return Err(NotPlain::Other);
                }
                (0xed, _) if segment.starts_with(b"Photoshop 3.0\0") && !is_taken(segment) => {
                    return Err(NotPlain::Other);
                }
                (0xee, _) if segment.starts_with(b"Adobe") && segment.len() < 7 => return Err(NotPlain::Other),
                // Tables, restart interval, application data, comments.
                (0xc4 | 0xdb | 0xdd | 0xe0..=0xef | 0xfe, _) => {}
                _ => return Err(NotPlain::Other),
            }
        }
    }

    /// True if a part of the image may be decoded separately: nothing outside the part can make Pillow reject the file,
    /// because the image is a single scan, which contains only codes up to the end of the image.
    pub(in crate::transform) fn is_divisible(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes.get(self.scan..).unwrap_or_default();
        while self.is_one_scan
            && let Some(at) = memchr::memchr(0xff, rest)
        {
            match rest.get(at + 1) {
                Some(0 | 0xd0..=0xd7) => rest = &rest[at + 2..],
                Some(0xd9) => return true,
                _ => return false,
            }
        }
        false
    }
}

/// True if Pillow accepts a block of Photoshop resources: it rejects one that ends after a resource's number.
fn is_taken(block: &[u8]) -> bool {
    let mut at = 14;
    while block.get(at..at + 4) == Some(b"8BIM") {
        at += 6;
        if block.len() < at {
            return true;
        }
        let Some(name) = block.get(at) else { return false };
        at += 1 + usize::from(*name);
        at += at & 1;
        let Some(&[a, b, c, d]) = block.get(at..at + 4) else { return true };
        at += 4 + u32::from_be_bytes([a, b, c, d]) as usize;
        at += at & 1;
    }
    true
}
