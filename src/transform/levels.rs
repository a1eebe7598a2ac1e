//! [`Levels`]: the result for each byte value.

use super::Reason;
use super::operation::Operation;
use super::picture::{AnyPicture, Picture};
use crate::DType;

/// Number of byte values.
const VALUES: usize = 256;

impl Operation {
    /// True if the result for a value depends only on the value and its channel.
    pub(super) fn is_of_levels(&self) -> bool {
        matches!(
            self.unwrapped(),
            Self::Brightness { .. }
                | Self::Invert
                | Self::Normalize { .. }
                | Self::Posterize { .. }
                | Self::Solarize { .. }
                | Self::ToDtype { .. }
        )
    }
}

/// The result for each byte value, channel by channel: operations on single values are evaluated 256 times instead of
/// for each pixel, with exactly the same results.
pub(super) enum Levels {
    /// Values stay the same.
    Kept,
    /// By channel, byte values.
    Bytes(Vec<[u8; VALUES]>),
    /// By channel, float values.
    Floats(Vec<[f32; VALUES]>),
}

impl Levels {
    /// Returns the results of `operations` for images of `channels` channels.
    pub(super) fn of(operations: &[Operation], channels: usize) -> Result<Self, Reason> {
        if operations.is_empty() {
            return Ok(Self::Kept);
        }
        let ramp = (0..=u8::MAX).flat_map(|value| std::iter::repeat_n(value, channels)).collect();
        let ramp = AnyPicture::Bytes(Picture::new(VALUES, 1, channels, ramp));
        let ramp = operations.iter().try_fold(ramp, |ramp, operation| operation.apply(ramp))?;
        Ok(match ramp {
            AnyPicture::Bytes(ramp) => Self::Bytes(by_channel(&ramp)),
            AnyPicture::Floats(ramp) => Self::Floats(by_channel(&ramp)),
        })
    }

    /// Returns the data type of the results.
    pub(super) fn dtype(&self) -> DType {
        match self {
            Self::Kept | Self::Bytes(_) => DType::UInt8,
            Self::Floats(_) => DType::Float32,
        }
    }

    /// Applies the levels to a whole picture.
    pub(super) fn of_picture(&self, mut picture: Picture<u8>) -> AnyPicture {
        let channels = picture.channels;
        match self {
            Self::Kept => AnyPicture::Bytes(picture),
            Self::Bytes(tables) => {
                for pixel in picture.pixels.chunks_exact_mut(channels) {
                    pixel.iter_mut().zip(tables).for_each(|(value, table)| *value = table[usize::from(*value)]);
                }
                AnyPicture::Bytes(picture)
            }
            Self::Floats(tables) => {
                let values = picture
                    .pixels
                    .chunks_exact(channels)
                    .flat_map(|pixel| pixel.iter().zip(tables).map(|(&value, table)| table[usize::from(value)]));
                let values = values.collect();
                AnyPicture::Floats(Picture::new(picture.width, picture.height, channels, values))
            }
        }
    }
}

fn by_channel<T: super::level::Level>(ramp: &Picture<T>) -> Vec<[T; VALUES]> {
    let value = |channel, value| ramp.pixels[value * ramp.channels + channel];
    (0..ramp.channels).map(|channel| std::array::from_fn(|at| value(channel, at))).collect()
}
