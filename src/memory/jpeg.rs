//! [`JpegDecoder`]: a safe interface to libjpeg-turbo, a C library.
//!
//! The crate `turbojpeg` has a safe interface, but not for the call that makes random crops fast: decoding only a
//! region.

use std::ffi::{CStr, c_int};

use turbojpeg_sys as turbo;

/// Maximum number of scans in a progressive image; those from cameras and tools have about ten.
const MOST_SCANS: c_int = 500;

/// The contents of a JPEG header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JpegHeader {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// The stored color space.
    pub colors: JpegColors,
    /// Width in pixels of the smallest unit that can be decoded: a region must begin at a multiple of it. 0 if regions
    /// cannot be decoded.
    pub unit_width: usize,
}

/// The color space in which a JPEG is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JpegColors {
    /// One channel, gray.
    Gray,
    /// Three channels, in any stored color space.
    Rgb,
    /// Four channels, as used for printing.
    Cmyk,
}

/// A part of an image: the first column and row, and the number of each.
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

/// A problem that the decoder reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JpegFault {
    /// Nothing could be decoded.
    Fatal(String),
    /// The image was decoded, but parts of it may differ from what was stored.
    Damaged(String),
}

/// A libjpeg-turbo decoder for one image; it keeps tables that would leak into the next image. Any thread may use it,
/// one at a time.
pub struct JpegDecoder {
    handle: turbo::tjhandle,
}

// SAFETY: the library keeps everything that belongs to a handle in the handle's own memory, and nothing in statics or
// thread locals (except the message of handles that could not be created); `&mut self` in the methods lets only one
// thread at a time use it.
unsafe impl Send for JpegDecoder {}

impl JpegDecoder {
    /// Returns a decoder that has not yet allocated memory for an image.
    ///
    /// # Errors
    /// [`JpegFault::Fatal`] if memory for the decoder cannot be allocated.
    pub fn new() -> Result<Self, JpegFault> {
        // SAFETY: the call takes a number, and returns a new handle or null.
        let handle = unsafe { turbo::tj3Init(turbo::TJINIT_TJINIT_DECOMPRESS as c_int) };
        if handle.is_null() {
            return Err(JpegFault::Fatal("there is no memory for a decoder".into()));
        }
        let mut decoder = Self { handle };
        // Each scan of a progressive image costs as much as the whole image, and a file of a few kilobytes may have any
        // number.
        decoder.settle(|handle| {
            // SAFETY: the call changes a field of the handle.
            unsafe { turbo::tj3Set(handle, turbo::TJPARAM_TJPARAM_SCANLIMIT as c_int, MOST_SCANS) }
        })?;
        Ok(decoder)
    }

    /// Reads the header of `jpeg`. The same image must be decoded next; warnings about its header are reported then.
    ///
    /// # Errors
    /// [`JpegFault::Fatal`] if the header cannot be understood.
    pub fn header(&mut self, jpeg: &[u8]) -> Result<JpegHeader, JpegFault> {
        self.settle(|handle| {
            // SAFETY: an empty region is what a new handle has; the call changes a field of the handle.
            unsafe { turbo::tj3SetCroppingRegion(handle, turbo::tjregion { x: 0, y: 0, w: 0, h: 0 }) }
        })?;
        let read = self.settle(|handle| {
            // SAFETY: the library reads `jpeg.len()` bytes from its address during the call, and keeps neither the
            // address nor the bytes.
            unsafe { turbo::tj3DecompressHeader(handle, jpeg.as_ptr(), jpeg.len() as _) }
        });
        if let Err(fault @ JpegFault::Fatal(_)) = read {
            return Err(fault);
        }
        let size = |parameter| usize::try_from(self.value(parameter)).unwrap_or(0);
        let colors = match self.value(turbo::TJPARAM_TJPARAM_COLORSPACE) as turbo::TJCS {
            turbo::TJCS_TJCS_GRAY => JpegColors::Gray,
            turbo::TJCS_TJCS_CMYK | turbo::TJCS_TJCS_YCCK => JpegColors::Cmyk,
            _ => JpegColors::Rgb,
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
            return Err(JpegFault::Fatal("it has decoding tables, but no image".into()));
        }
        match self.value(turbo::TJPARAM_TJPARAM_PRECISION) {
            8 => Ok(JpegHeader { width, height, colors, unit_width }),
            bits => Err(JpegFault::Fatal(format!("its samples have {bits} bits, but only 8 are supported"))),
        }
    }

    /// Returns the size of `length` pixels when each block of 8 is decoded to `eighths` pixels.
    #[must_use]
    pub fn scaled(length: usize, eighths: usize) -> usize {
        (length * eighths).div_ceil(8)
    }

    /// Decodes `region` of the image whose header is `header` to `into`. Each block of 8 pixels becomes `eighths` (1 to
    /// 8) pixels. `into` holds consecutive rows of pixels with one byte per channel: one channel for gray (also from a
    /// color image), three for RGB, four for CMYK.
    ///
    /// The region is in scaled pixels, begins at a multiple of the scaled `unit_width`, and is inside the image.
    ///
    /// # Errors
    /// The library's message; [`JpegFault::Damaged`] if the rows were written nevertheless.
    ///
    /// # Panics
    /// If `header` was not read from `jpeg`, the region does not fit the image, or `into` does not fit the region: the
    /// library would write past its end.
    pub fn decode(
        mut self,
        jpeg: &[u8],
        header: &JpegHeader,
        eighths: usize,
        region: Region,
        colors: JpegColors,
        into: &mut [u8],
    ) -> Result<(), JpegFault> {
        let (format, channels) = match colors {
            JpegColors::Gray => (turbo::TJPF_TJPF_GRAY, 1),
            JpegColors::Rgb => (turbo::TJPF_TJPF_RGB, 3),
            JpegColors::Cmyk => (turbo::TJPF_TJPF_CMYK, 4),
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
            // SAFETY: the library reads `jpeg.len()` bytes from its address and writes as many rows of `pitch` bytes as
            // the region has, or, if none was set, the scaled image: the assertions above ensure that `into` is large
            // enough, because `header` was read from these very bytes.
            unsafe {
                turbo::tj3Decompress8(handle, jpeg.as_ptr(), jpeg.len() as _, into.as_mut_ptr(), pitch, format as c_int)
            }
        })
    }

    fn value(&self, parameter: turbo::TJPARAM) -> c_int {
        // SAFETY: the call reads a field of the handle.
        unsafe { turbo::tj3Get(self.handle, parameter as c_int) }
    }

    /// Makes a call to the library, and returns the error that it reports, if any.
    fn settle(&mut self, call: impl FnOnce(turbo::tjhandle) -> c_int) -> Result<(), JpegFault> {
        if call(self.handle) == 0 {
            return Ok(());
        }
        // SAFETY: the message is stored in the handle, ends with a zero, and is copied before the next call.
        let message = unsafe { CStr::from_ptr(turbo::tj3GetErrorStr(self.handle)) }.to_string_lossy().into_owned();
        // SAFETY: the call reads a field of the handle.
        match unsafe { turbo::tj3GetErrorCode(self.handle) } as turbo::TJERR {
            turbo::TJERR_TJERR_WARNING => Err(JpegFault::Damaged(message)),
            _ => Err(JpegFault::Fatal(message)),
        }
    }
}

impl Drop for JpegDecoder {
    fn drop(&mut self) {
        // SAFETY: the handle belongs to this object, and is not used again.
        unsafe { turbo::tj3Destroy(self.handle) }
    }
}

/// Reduces a fraction to lowest terms, which is how the library compares fractions.
fn reduced(mut scale: turbo::tjscalingfactor) -> turbo::tjscalingfactor {
    while scale.num % 2 == 0 && scale.denom % 2 == 0 {
        scale = turbo::tjscalingfactor { num: scale.num / 2, denom: scale.denom / 2 };
    }
    scale
}
