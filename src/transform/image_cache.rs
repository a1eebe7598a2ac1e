//! [`ImageCache`]: caches images as they are before any random transform.

use std::fmt;
use std::path::Path;

use super::picture::Picture;
use super::scratch;
use crate::Result;
use crate::memory::KeptValues;

/// Bytes after the pixels: width, height, and channels, and the height and width of the original image, four bytes
/// each.
const TAIL: usize = 20;

/// Images by number, as they are before anything random is applied: decoded, and resized if that comes first. An epoch
/// that finds all images in the cache decodes none.
///
/// The cache keeps the first images that arrive until its bytes are used up, and never evicts: every epoch requests
/// each image once, so all are equally valuable, and an evicted image would be missed as often as a later one. Threads
/// and forked processes share the cache.
pub struct ImageCache(KeptValues);

impl fmt::Debug for ImageCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ImageCache").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl ImageCache {
    /// Returns room for the images numbered below `images`, of `bytes` in total, in memory that is taken as they
    /// arrive.
    ///
    /// # Errors
    /// [`Error::SharedMemory`](crate::Error::SharedMemory) if the operating system refuses.
    pub fn in_memory(images: usize, bytes: usize) -> Result<Self> {
        KeptValues::in_memory(images, bytes).map(Self)
    }

    /// Like [`in_memory`](Self::in_memory), in a nameless file of `folder` that disappears with the last process that
    /// uses it.
    ///
    /// # Errors
    /// As [`in_memory`](Self::in_memory); [`Error::Io`](crate::Error::Io) if no file can be created there.
    pub fn in_folder(folder: &Path, images: usize, bytes: usize) -> Result<Self> {
        KeptValues::in_folder(folder, images, bytes).map(Self)
    }

    /// True if image `number` is in the cache.
    #[must_use]
    pub fn has(&self, number: usize) -> bool {
        self.0.has(number)
    }

    /// Returns the number of bytes used.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns image `number`, and its original height and width.
    pub(super) fn get(&self, number: usize) -> Option<(Picture<u8>, [usize; 2])> {
        let mut pixels = self.0.get(number, scratch::take(0))?;
        let tail = pixels.split_off(pixels.len().checked_sub(TAIL)?);
        let mut lengths = tail.as_chunks::<4>().0.iter().map(|&length| u32::from_ne_bytes(length) as usize);
        let (width, height, channels) = (lengths.next()?, lengths.next()?, lengths.next()?);
        let size = [lengths.next()?, lengths.next()?];
        Some((Picture::new(width, height, channels, pixels), size))
    }

    pub(super) fn keep(&self, number: usize, picture: &Picture<u8>, [height, width]: [usize; 2]) {
        if self.0.has(number) {
            return;
        }
        let mut value = scratch::take(0);
        value.extend_from_slice(&picture.pixels);
        for length in [picture.width, picture.height, picture.channels, height, width] {
            value.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
        }
        self.0.keep(number, &value);
        scratch::give(value);
    }
}
