//! [`Canvas`]: an image to which operations are applied lazily.

use super::Reason;
use super::convolution::{ByteResize, Part, refuse_floats};
use super::cut::{Cut, Flips};
use super::decoding::encoded::Encoded;
use super::decoding::jpeg::EIGHTHS;
use super::finished::Finished;
use super::levels::Levels;
use super::operation::{Antialias, Interpolation, Operation};
use super::picture::{AnyPicture, Picture};
use super::resize;
use super::scratch;
use crate::memory::Region;

/// Determines if a JPEG that is made smaller may be decoded to fewer pixels than it has.
///
/// Blocks of 8 pixels are then decoded to 4, 2, or 1, the smallest size that still covers the requested one: this is
/// less work, and values differ by less than two gray levels on average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JpegScale {
    /// Decode to fewer pixels.
    #[default]
    Least,
    /// Decode all pixels: the values are those of the whole image.
    Full,
}

/// An image to which operations are applied lazily. Crops, flips, and operations on single values are deferred: pixels
/// outside a crop are never decoded, and the rest is done while the result is written.
pub(super) struct Canvas<'a> {
    source: Source<'a>,
    /// The selected part of the source, to which crops and flips are relative.
    part: Region,
    flips: Flips,
    /// Deferred operations on byte values, of which there are only 256.
    levels: Vec<Operation>,
    scale: JpegScale,
}

enum Source<'a> {
    Encoded(Encoded<'a>),
    Picture(AnyPicture),
}

impl<'a> Canvas<'a> {
    pub(super) fn of_encoded(encoded: Encoded<'a>, scale: JpegScale) -> Self {
        let part = Region { left: 0, top: 0, width: encoded.width, height: encoded.height };
        Self { source: Source::Encoded(encoded), part, flips: Flips::default(), levels: Vec::new(), scale }
    }

    pub(super) fn of_picture(picture: AnyPicture) -> Self {
        let part = picture.region();
        let source = Source::Picture(picture);
        Self { source, part, flips: Flips::default(), levels: Vec::new(), scale: JpegScale::Full }
    }

    /// Applies `operations` in order. If a crop follows an exact resize, only the cropped part is computed.
    pub(super) fn apply_all(&mut self, operations: Vec<Operation>) -> Result<(), Reason> {
        let mut operations = operations.into_iter().peekable();
        while let Some(operation) = operations.next() {
            match operation {
                Operation::Resize { height, width, interpolation, antialias } if antialias.is_exact() => {
                    let whole = Region { left: 0, top: 0, width, height };
                    let window = operations.peek().and_then(|next| cut_from(whole, next));
                    if window.is_some() {
                        operations.next();
                    }
                    let filter = (interpolation, antialias);
                    self.resize_exactly([width, height], filter, window.unwrap_or(whole))?;
                }
                other => self.apply(other)?,
            }
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, operation: Operation) -> Result<(), Reason> {
        match operation {
            Operation::Crop { top, left, height, width } => {
                if let Some(region) = self.inside(top, left, height, width) {
                    self.part = region;
                    return Ok(());
                }
            }
            Operation::HorizontalFlip => {
                self.flips.horizontal ^= true;
                return Ok(());
            }
            Operation::VerticalFlip => {
                self.flips.vertical ^= true;
                return Ok(());
            }
            Operation::Resize { height, width, interpolation, antialias } if antialias.is_exact() => {
                let whole = Region { left: 0, top: 0, width, height };
                return self.resize_exactly([width, height], (interpolation, antialias), whole);
            }
            Operation::Resize { height, width, interpolation, antialias } => {
                return self.resize([width, height], interpolation, antialias);
            }
            _ if operation.is_of_boxes() => return Ok(()),
            _ if operation.is_of_levels() && !matches!(self.source, Source::Picture(AnyPicture::Floats(_))) => {
                self.levels.push(operation);
                return Ok(());
            }
            _ => {}
        }
        let picture = operation.apply(self.picture()?)?;
        self.put(picture);
        Ok(())
    }

    /// Returns the region of the source that a crop selects, or None if it extends past the edges.
    fn inside(&self, top: i64, left: i64, height: usize, width: usize) -> Option<Region> {
        let (top, left) = (usize::try_from(top).ok()?, usize::try_from(left).ok()?);
        let right = self.part.width.checked_sub(left.checked_add(width)?)?;
        let bottom = self.part.height.checked_sub(top.checked_add(height)?)?;
        let left = self.part.left + if self.flips.horizontal { right } else { left };
        let top = self.part.top + if self.flips.vertical { bottom } else { top };
        (width > 0 && height > 0).then_some(Region { left, top, width, height })
    }

    fn resize(&mut self, size: [usize; 2], interpolation: Interpolation, antialias: Antialias) -> Result<(), Reason> {
        let is_asymmetric = matches!(interpolation, Interpolation::Nearest | Interpolation::NearestExact);
        if !self.levels.is_empty() || (is_asymmetric && self.flips != Flips::default()) {
            let picture = self.picture()?;
            self.put(picture);
        }
        if [self.part.width, self.part.height] == size {
            return Ok(());
        }
        let is_smooth = !is_asymmetric && antialias == Antialias::On;
        let (picture, part) = match &self.source {
            Source::Encoded(encoded) => {
                let eighths = match self.scale {
                    JpegScale::Least if is_smooth => encoded.eighths(self.part, size),
                    _ => EIGHTHS,
                };
                let (picture, part) = decode_scaled(encoded, self.part, eighths)?;
                (&AnyPicture::Bytes(picture), part)
            }
            Source::Picture(picture) => (picture, Part::Whole(self.part)),
        };
        let resized = match picture {
            AnyPicture::Bytes(picture) => {
                AnyPicture::Bytes(resize::resize(picture, part, size, interpolation, antialias)?)
            }
            AnyPicture::Floats(picture) => {
                AnyPicture::Floats(resize::resize(picture, part, size, interpolation, antialias)?)
            }
        };
        self.put_flipped(resized);
        Ok(())
    }

    /// Resizes to `size` (width, height), and keeps `window` of the result.
    fn resize_exactly(
        &mut self,
        size: [usize; 2],
        filter: (Interpolation, Antialias),
        window: Region,
    ) -> Result<(), Reason> {
        // Integer sums depend on the direction and on the values, so deferred operations are applied first.
        if !self.levels.is_empty() || self.flips != Flips::default() {
            let picture = self.picture()?;
            self.put(picture);
        }
        let Region { left, top, width, height } = self.part;
        if [width, height] == size {
            self.part = Region { left: left + window.left, top: top + window.top, ..window };
            return Ok(());
        }
        let filters = ByteResize::exact([width, height], size, filter, window)?;
        let wanted = filters.source();
        let wanted = Region { left: left + wanted.left, top: top + wanted.top, ..wanted };
        let resized = match &self.source {
            Source::Encoded(encoded) => {
                let (picture, found) = encoded.decode(wanted)?;
                let resized = filters.of(&picture, found);
                scratch::give(picture.pixels);
                resized
            }
            Source::Picture(AnyPicture::Bytes(picture)) => filters.of(picture, wanted),
            Source::Picture(AnyPicture::Floats(_)) => return Err(refuse_floats()),
        };
        self.put_flipped(AnyPicture::Bytes(resized));
        Ok(())
    }

    /// Applies everything that was deferred.
    pub(super) fn picture(&mut self) -> Result<AnyPicture, Reason> {
        self.decode()?;
        let Source::Picture(picture) = &mut self.source else { return Err("it has not been decoded".into()) };
        let is_whole = self.part == picture.region() && self.flips == Flips::default();
        let taken = std::mem::replace(picture, AnyPicture::empty());
        let (part, flips) = (self.part, self.flips);
        let cut = match taken {
            whole if is_whole => whole,
            AnyPicture::Bytes(picture) => AnyPicture::Bytes(Cut { picture: &picture, part, flips }.to_picture()),
            AnyPicture::Floats(picture) => AnyPicture::Floats(Cut { picture: &picture, part, flips }.to_picture()),
        };
        match cut {
            AnyPicture::Bytes(picture) => Ok(Levels::of(&self.levels, picture.channels)?.of_picture(picture)),
            floats => Ok(floats),
        }
    }

    fn decode(&mut self) -> Result<(), Reason> {
        if let Source::Encoded(encoded) = &self.source {
            let (picture, part) = encoded.decode(self.part)?;
            self.source = Source::Picture(AnyPicture::Bytes(picture));
            self.part = part;
        }
        Ok(())
    }

    /// Stores a picture without deferred operations.
    fn put(&mut self, picture: AnyPicture) {
        self.flips = Flips::default();
        self.levels.clear();
        self.put_flipped(picture);
    }

    /// Stores a picture that is flipped when it is written.
    fn put_flipped(&mut self, picture: AnyPicture) {
        self.part = picture.region();
        if let Source::Picture(AnyPicture::Bytes(before)) =
            std::mem::replace(&mut self.source, Source::Picture(picture))
        {
            scratch::give(before.pixels);
        }
    }

    /// Decodes what is still encoded, so that the shape is known.
    pub(super) fn finish(&mut self) -> Result<Finished, Reason> {
        self.decode()?;
        let Source::Picture(picture) = &mut self.source else { return Err("it has not been decoded".into()) };
        let picture = std::mem::replace(picture, AnyPicture::empty());
        let levels = Levels::of(&self.levels, picture.channels())?;
        Ok(Finished { picture, part: self.part, flips: self.flips, levels })
    }
}

/// Returns the part of region `whole` that a crop keeps, or None if it extends past the edges or `operation` is not a
/// crop.
fn cut_from(whole: Region, operation: &Operation) -> Option<Region> {
    let &Operation::Crop { top, left, height, width } = operation else { return None };
    let (top, left) = (usize::try_from(top).ok()?, usize::try_from(left).ok()?);
    let is_inside = left.checked_add(width)? <= whole.width && top.checked_add(height)? <= whole.height;
    (is_inside && width > 0 && height > 0).then_some(Region { left, top, width, height })
}

/// Decodes the pixels of the scaled image that cover `part` of the full one, and returns the position of `part` in
/// them.
fn decode_scaled(encoded: &Encoded<'_>, part: Region, eighths: usize) -> Result<(Picture<u8>, Part), Reason> {
    if eighths == EIGHTHS {
        let (picture, part) = encoded.decode(part)?;
        return Ok((picture, Part::Whole(part)));
    }
    let [width, height] = [encoded.width, encoded.height].map(|length| (length * eighths).div_ceil(EIGHTHS));
    let (left, top) = (part.left * eighths / EIGHTHS, part.top * eighths / EIGHTHS);
    let right = ((part.left + part.width) * eighths).div_ceil(EIGHTHS).min(width);
    let bottom = ((part.top + part.height) * eighths).div_ceil(EIGHTHS).min(height);
    let region = Region { left, top, width: right - left, height: bottom - top };
    let (picture, found) = encoded.decode_scaled(region, eighths)?;
    let share = eighths as f64 / EIGHTHS as f64;
    let [x, y] = [(part.left, left, found.left), (part.top, top, found.top)]
        .map(|(full, scaled, found)| full as f64 * share - scaled as f64 + found as f64);
    let across = (part.width as f64 * share).min(picture.width as f64 - x);
    let down = (part.height as f64 * share).min(picture.height as f64 - y);
    Ok((picture, Part::Fraction { left: x, top: y, width: across, height: down }))
}
