//! [`Cut`]: a part of a picture, flipped, without a copy.

use super::level::Level;
use super::picture::Picture;
use crate::memory::Region;

/// True for each direction that is mirrored: left-right, and top-bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flips {
    pub(super) horizontal: bool,
    pub(super) vertical: bool,
}

/// A part of a picture, flipped, without a copy.
pub(super) struct Cut<'a, T> {
    pub(super) picture: &'a Picture<T>,
    pub(super) part: Region,
    pub(super) flips: Flips,
}

impl<T: Level> Cut<'_, T> {
    /// Returns the rows from top to bottom. A horizontal flip is left to the caller.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[T]> {
        let (channels, Region { left, top, width, height }) = (self.picture.channels, self.part);
        let pitch = self.picture.width * channels;
        (0..height).map(move |row| {
            let row = top + if self.flips.vertical { height - 1 - row } else { row };
            &self.picture.pixels[row * pitch + left * channels..][..width * channels]
        })
    }

    pub(super) fn to_picture(&self) -> Picture<T> {
        let channels = self.picture.channels;
        let mut pixels = Vec::with_capacity(self.part.width * self.part.height * channels);
        for row in self.rows() {
            if self.flips.horizontal {
                row.rchunks_exact(channels).for_each(|pixel| pixels.extend_from_slice(pixel));
            } else {
                pixels.extend_from_slice(row);
            }
        }
        Picture::new(self.part.width, self.part.height, channels, pixels)
    }
}
