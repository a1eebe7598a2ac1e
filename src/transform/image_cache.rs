//! [`ImageCache`]: images as they are before anything of them is drawn.

use std::fmt;
use std::path::Path;

use super::picture::Picture;
use super::scratch;
use crate::Result;
use crate::memory::KeptValues;

/// Behind the pixels are width, height and channels, and the height and the width of the whole image, four bytes each.
const TAIL: usize = 20;

/// Images by number, as they are before anything of them is drawn: decoded, and resized where that comes first. An epoch that
/// finds them there decodes none.
///
/// It keeps the first that come until its bytes are taken, and drops none: every epoch asks for each image once, so none is worth
/// more than another, and one that was dropped for a later one would be missed as often. Threads share it, and so do processes
/// that are forked.
pub struct ImageCache(KeptValues);

impl fmt::Debug for ImageCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ImageCache").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl ImageCache {
    /// Room for the images of the numbers below `images`, of `bytes` together, in memory that is taken as they come.
    ///
    /// # Errors
    /// [`Error::SharedMemory`](crate::Error::SharedMemory) when the operating system refuses.
    pub fn in_memory(images: usize, bytes: usize) -> Result<Self> {
        KeptValues::in_memory(images, bytes).map(Self)
    }

    /// The same in a file of `folder`, which has no name and goes away with the last process that has it.
    ///
    /// # Errors
    /// As [`in_memory`](Self::in_memory); [`Error::Io`](crate::Error::Io) when no file can be made there.
    pub fn in_folder(folder: &Path, images: usize, bytes: usize) -> Result<Self> {
        KeptValues::in_folder(folder, images, bytes).map(Self)
    }

    /// Whether image `number` is there.
    #[must_use]
    pub fn has(&self, number: usize) -> bool {
        self.0.has(number)
    }

    /// So many bytes are taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Image `number`, and the height and the width that it had before anything was done to it.
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
