//! [`JpegDecoder`]: libjpeg-turbo, which is C, behind calls that can't be made wrongly.
//!
//! The crate `turbojpeg` has a safe face, but none for the one call that a random crop lives by: to decode a region alone.

use std::ffi::{CStr, c_int};

use turbojpeg_sys as turbo;

/// So many scans may a progressive image have; those that cameras and tools make have about ten.
const MOST_SCANS: c_int = 500;

/// What the header of a JPEG says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JpegHeader {
    /// The width, in pixels.
    pub width: usize,
    /// The height, in pixels.
    pub height: usize,
    /// The colours that it is stored in.
    pub colours: JpegColours,
    /// The width of what is decoded as a whole, in pixels: a region begins at a multiple of it. 0 where no region can be
    /// decoded.
    pub unit_width: usize,
}

/// The colours that a JPEG is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JpegColours {
    /// One channel.
    Grey,
    /// Three, however they are stored.
    Rgb,
    /// Four, as printers have them.
    Cmyk,
}

/// A part of an image: the first column and row, and how many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first column.
    pub left: usize,
    /// The first row.
    pub top: usize,
    /// The number of columns.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
}

/// What the decoder had to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JpegFault {
    /// There is no image.
    Fatal(String),
    /// There is one, but not all of it is what was stored.
    Damaged(String),
}

/// A decoder of libjpeg-turbo, for one image: it keeps tables of it that another one would be decoded with. Any thread may
/// use it, one at a time.
pub struct JpegDecoder {
    handle: turbo::tjhandle,
}

// SAFETY: the library keeps what belongs to a handle behind it and nothing of it in statics or thread locals (but for the
// message of handles that could not be made); `&mut self` of the methods lets one thread at a time use it.
unsafe impl Send for JpegDecoder {}

impl JpegDecoder {
    /// A decoder, which has no memory for an image yet.
    ///
    /// # Errors
    /// [`JpegFault::Fatal`] when there is no memory for it.
    pub fn new() -> Result<Self, JpegFault> {
        // SAFETY: the call takes a number, and gives a handle of its own or null.
        let handle = unsafe { turbo::tj3Init(turbo::TJINIT_TJINIT_DECOMPRESS as c_int) };
        if handle.is_null() {
            return Err(JpegFault::Fatal("there is no memory for a decoder".into()));
        }
        let mut decoder = Self { handle };
        // Each scan of a progressive image costs as much as the whole one: a file of some kilobytes may have any number.
        decoder.settle(|handle| {
            // SAFETY: the call changes a field of the handle.
            unsafe { turbo::tj3Set(handle, turbo::TJPARAM_TJPARAM_SCANLIMIT as c_int, MOST_SCANS) }
        })?;
        Ok(decoder)
    }

    /// Reads the header of `jpeg`. What is decoded next is the same image, and whatever is odd about the header is told then.
    ///
    /// # Errors
    /// [`JpegFault::Fatal`]: it has none that could be understood.
    pub fn header(&mut self, jpeg: &[u8]) -> Result<JpegHeader, JpegFault> {
        self.settle(|handle| {
            // SAFETY: a region of nothing is what a new handle has; the call changes a field of the handle.
            unsafe { turbo::tj3SetCroppingRegion(handle, turbo::tjregion { x: 0, y: 0, w: 0, h: 0 }) }
        })?;
        let read = self.settle(|handle| {
            // SAFETY: the library reads `jpeg.len()` bytes from its address during the call, and keeps neither.
            unsafe { turbo::tj3DecompressHeader(handle, jpeg.as_ptr(), jpeg.len() as _) }
        });
        if let Err(fault @ JpegFault::Fatal(_)) = read {
            return Err(fault);
        }
        let size = |parameter| usize::try_from(self.value(parameter)).unwrap_or(0);
        let colours = match self.value(turbo::TJPARAM_TJPARAM_COLORSPACE) as turbo::TJCS {
            turbo::TJCS_TJCS_GRAY => JpegColours::Grey,
            turbo::TJCS_TJCS_CMYK | turbo::TJCS_TJCS_YCCK => JpegColours::Cmyk,
            _ => JpegColours::Rgb,
        };
        let is_whole = self.value(turbo::TJPARAM_TJPARAM_LOSSLESS) != 0;
        let unit_width = match self.value(turbo::TJPARAM_TJPARAM_SUBSAMP) as turbo::TJSAMP {
            _ if is_whole => 0,
            turbo::TJSAMP_TJSAMP_444 | turbo::TJSAMP_TJSAMP_GRAY | turbo::TJSAMP_TJSAMP_440 => 8,
            turbo::TJSAMP_TJSAMP_441 => 8,
            turbo::TJSAMP_TJSAMP_422 | turbo::TJSAMP_TJSAMP_420 => 16,
            turbo::TJSAMP_TJSAMP_411 => 32,
            _ => 0,
        };
        let (width, height) = (size(turbo::TJPARAM_TJPARAM_JPEGWIDTH), size(turbo::TJPARAM_TJPARAM_JPEGHEIGHT));
        if width == 0 || height == 0 {
            return Err(JpegFault::Fatal("it has tables for an image, and no image".into()));
        }
        match self.value(turbo::TJPARAM_TJPARAM_PRECISION) {
            8 => Ok(JpegHeader { width, height, colours, unit_width }),
            bits => Err(JpegFault::Fatal(format!("its samples have {bits} bits, and 8 can be decoded"))),
        }
    }

    /// The size of `length` pixels when each block of 8 is decoded to `eighths` of them.
    #[must_use]
    pub fn scaled(length: usize, eighths: usize) -> usize {
        (length * eighths).div_ceil(8)
    }

    /// Decodes `region` of the image that `header` was read of, each block of 8 pixels to `eighths` (1 to 8) of them, to
    /// `into`: rows of pixels, one behind the other, of a byte for each channel: one for grey (also of an image in colours),
    /// three for RGB, four for CMYK.
    ///
    /// The region counts scaled pixels, begins at a multiple of the scaled `unit_width`, and lies in the image.
    ///
    /// # Errors
    /// What the library said; [`JpegFault::Damaged`] when the rows are there nevertheless.
    ///
    /// # Panics
    /// When `jpeg` is not what `header` was read of, or the region does not fit to the image, or `into` to the region: it
    /// would be written past its end.
    pub fn decode(
        mut self,
        jpeg: &[u8],
        header: &JpegHeader,
        eighths: usize,
        region: Region,
        colours: JpegColours,
        into: &mut [u8],
    ) -> Result<(), JpegFault> {
        let (format, channels) = match colours {
            JpegColours::Grey => (turbo::TJPF_TJPF_GRAY, 1),
            JpegColours::Rgb => (turbo::TJPF_TJPF_RGB, 3),
            JpegColours::Cmyk => (turbo::TJPF_TJPF_CMYK, 4),
        };
        assert_eq!(self.header(jpeg)?, *header, "the header of this image");
        let (width, height) = (Self::scaled(header.width, eighths), Self::scaled(header.height, eighths));
        assert!(region.width > 0 && region.height > 0, "a region has a pixel");
        assert!(region.left + region.width <= width && region.top + region.height <= height, "a region of the image");
        assert_eq!(into.len(), region.width * region.height * channels, "room for the region");
        let number = |length: usize| c_int::try_from(length).unwrap_or(c_int::MAX);
        let scale = turbo::tjscalingfactor { num: number(eighths), denom: 8 };
        self.settle(|handle| {
            // SAFETY: the call changes a field of the handle.
            unsafe { turbo::tj3SetScalingFactor(handle, reduced(scale)) }
        })?;
        if (region.width, region.height) != (width, height) {
            let region = turbo::tjregion {
                x: number(region.left),
                y: number(region.top),
                w: number(region.width),
                h: number(region.height),
            };
            self.settle(|handle| {
                // SAFETY: as above. The library refuses a region that it can't decode.
                unsafe { turbo::tj3SetCroppingRegion(handle, region) }
            })?;
        }
        self.settle(|handle| {
            let pitch = number(region.width * channels);
            // SAFETY: the library reads `jpeg.len()` bytes from its address and writes as many rows of `pitch` bytes as the
            // region has, or, where none was set, the scaled image: `into` has them, by the assertions above, the header
            // being that of these very bytes.
            unsafe {
                turbo::tj3Decompress8(handle, jpeg.as_ptr(), jpeg.len() as _, into.as_mut_ptr(), pitch, format as c_int)
            }
        })
    }

    fn value(&self, parameter: turbo::TJPARAM) -> c_int {
        // SAFETY: the call reads a field of the handle.
        unsafe { turbo::tj3Get(self.handle, parameter as c_int) }
    }

    /// Makes a call, and says what the library says of it.
    fn settle(&mut self, call: impl FnOnce(turbo::tjhandle) -> c_int) -> Result<(), JpegFault> {
        if call(self.handle) == 0 {
            return Ok(());
        }
        // SAFETY: the text lies in the handle, ends with a zero, and is copied before the next call.
        let said = unsafe { CStr::from_ptr(turbo::tj3GetErrorStr(self.handle)) }.to_string_lossy().into_owned();
        // SAFETY: the call reads a field of the handle.
        match unsafe { turbo::tj3GetErrorCode(self.handle) } as turbo::TJERR {
            turbo::TJERR_TJERR_WARNING => Err(JpegFault::Damaged(said)),
            _ => Err(JpegFault::Fatal(said)),
        }
    }
}

impl Drop for JpegDecoder {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's, and is used no more.
        unsafe { turbo::tj3Destroy(self.handle) }
    }
}

/// The library compares fractions in lowest terms.
fn reduced(mut scale: turbo::tjscalingfactor) -> turbo::tjscalingfactor {
    while scale.num % 2 == 0 && scale.denom % 2 == 0 {
        scale = turbo::tjscalingfactor { num: scale.num / 2, denom: scale.denom / 2 };
    }
    scale
}
