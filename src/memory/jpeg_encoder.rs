//! [`encode_jpeg`]: a safe interface to libjpeg-turbo's encoder.

use std::ffi::{CStr, c_int};

use turbojpeg_sys as turbo;

use super::jpeg::{JpegColors, JpegFault};

/// Maximum width and height in the format.
const LONGEST: usize = 65_500;

/// A libjpeg-turbo compressor for one image.
struct Encoder {
    handle: turbo::tjhandle,
}

impl Encoder {
    fn set(&mut self, parameter: turbo::TJPARAM, value: c_int) -> Result<(), JpegFault> {
        // SAFETY: the call changes a field of the handle.
        let code = unsafe { turbo::tj3Set(self.handle, parameter as c_int, value) };
        self.settle(code)
    }

    fn settle(&mut self, code: c_int) -> Result<(), JpegFault> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the message is stored in the handle, ends with a zero, and is copied before the next call.
        let message = unsafe { CStr::from_ptr(turbo::tj3GetErrorStr(self.handle)) };
        Err(JpegFault::Fatal(message.to_string_lossy().into_owned()))
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: the handle belongs to this object, and is not used again.
        unsafe { turbo::tj3Destroy(self.handle) }
    }
}

/// Returns a baseline JPEG of `pixels`: consecutive rows of an image of (width, height) `size`, gray or RGB. `quality`
/// is from 1 to 100; the other settings are libjpeg's defaults (4:2:0 chroma subsampling, accurate integer DCT).
///
/// # Errors
/// [`JpegFault::Fatal`] with the library's message, if the pixels are CMYK, or if a side is 0 or longer than the format
/// allows (65,500).
///
/// # Panics
/// If the length of `pixels` does not match an image of that size.
///
/// # Example
/// ```
/// use sluicegate::internal::{JpegColors, JpegDecoder, encode_jpeg};
/// let encoded = encode_jpeg(&[100; 16 * 8], [16, 8], JpegColors::Gray, 90).unwrap();
/// let header = JpegDecoder::new().unwrap().header(&encoded).unwrap();
/// assert_eq!((header.width, header.height, header.colors), (16, 8, JpegColors::Gray));
/// ```
pub fn encode_jpeg(
    pixels: &[u8],
    [width, height]: [usize; 2],
    colors: JpegColors,
    quality: u8,
) -> Result<Vec<u8>, JpegFault> {
    let (format, channels, sampling) = match colors {
        JpegColors::Gray => (turbo::TJPF_TJPF_GRAY, 1, turbo::TJSAMP_TJSAMP_GRAY),
        JpegColors::Rgb => (turbo::TJPF_TJPF_RGB, 3, turbo::TJSAMP_TJSAMP_420),
        JpegColors::Cmyk => return Err(JpegFault::Fatal("pixels in CMYK are not encoded".into())),
    };
    assert_eq!(pixels.len(), width * height * channels, "the bytes of an image");
    if [width, height].iter().any(|&length| length == 0 || length > LONGEST) {
        return Err(JpegFault::Fatal(format!(
            "an image of {width} x {height} pixels can't be a JPEG, only 1 to {LONGEST} in each direction"
        )));
    }
    let number = |length: usize| c_int::try_from(length).unwrap_or(c_int::MAX);
    // SAFETY: the call takes a number, and returns a new handle or null.
    let handle = unsafe { turbo::tj3Init(turbo::TJINIT_TJINIT_COMPRESS as c_int) };
    if handle.is_null() {
        return Err(JpegFault::Fatal("there is no memory for an encoder".into()));
    }
    let mut encoder = Encoder { handle };
    encoder.set(turbo::TJPARAM_TJPARAM_QUALITY, quality.into())?;
    encoder.set(turbo::TJPARAM_TJPARAM_SUBSAMP, sampling as c_int)?;
    encoder.set(turbo::TJPARAM_TJPARAM_NOREALLOC, 1)?;
    // SAFETY: the call takes and returns numbers.
    let room = unsafe { turbo::tj3JPEGBufSize(number(width), number(height), sampling as c_int) };
    let mut encoded = vec![0; room as usize];
    let (mut into, mut size) = (encoded.as_mut_ptr(), room);
    // SAFETY: the library reads `height` rows of `width * channels` bytes, which `pixels` has by the assertion above,
    // and rejects an image without pixels. With NOREALLOC it writes at most `size` bytes to `into` and never replaces
    // that buffer; it keeps neither address.
    let code = unsafe {
        turbo::tj3Compress8(
            encoder.handle,
            pixels.as_ptr(),
            number(width),
            number(width * channels),
            number(height),
            format as c_int,
            &raw mut into,
            &raw mut size,
        )
    };
    encoder.settle(code)?;
    encoded.truncate(size as usize);
    Ok(encoded)
}
