//! [`Finished`]: an image to which everything except the last step, writing, was applied.

use half::{bf16, f16};

use super::cut::{Cut, Flips};
use super::level::Level;
use super::levels::Levels;
use super::picture::AnyPicture;
use super::{Reason, scratch};
use crate::DType;
use crate::memory::Region;

/// The order of an image's channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelOrder {
    /// One channel after another: (channels, height, width), as in torch.
    #[default]
    First,
    /// The channels of each pixel together: (height, width, channels), which torch calls channels-last.
    Last,
}

impl ChannelOrder {
    /// Returns the shape of an image in this order.
    pub(super) fn shape(self, channels: usize, [height, width]: [usize; 2]) -> [usize; 3] {
        match self {
            Self::First => [channels, height, width],
            Self::Last => [height, width, channels],
        }
    }
}

/// An image to which everything except the last step was applied. Writing selects the part of the picture, flips it,
/// replaces each value, and arranges the channels, in one pass.
pub(super) struct Finished {
    pub(super) picture: AnyPicture,
    pub(super) part: Region,
    pub(super) flips: Flips,
    pub(super) levels: Levels,
}

impl Finished {
    /// Returns channels, height, width.
    pub(super) fn shape(&self) -> [usize; 3] {
        [self.picture.channels(), self.part.height, self.part.width]
    }

    /// Returns the data type of the values after the operations.
    pub(super) fn dtype(&self) -> DType {
        match self.picture {
            AnyPicture::Bytes(_) => self.levels.dtype(),
            AnyPicture::Floats(_) => DType::Float32,
        }
    }

    /// Writes the values as `dtype`: floats as any float type, bytes as bytes.
    pub(super) fn write(self, dtype: DType, order: ChannelOrder, into: &mut [u8]) -> Result<(), Reason> {
        let found = self.dtype();
        match (found, dtype) {
            (DType::UInt8, DType::UInt8) => self.write_as::<1>(order, into, |value| [value as u8]),
            (DType::Float32, DType::Float32) => self.write_as(order, into, f32::to_ne_bytes),
            (DType::Float32, DType::Float64) => self.write_as(order, into, |value| f64::from(value).to_ne_bytes()),
            (DType::Float32, DType::Float16) => self.write_as(order, into, |value| f16::from_f32(value).to_ne_bytes()),
            (DType::Float32, DType::BFloat16) => {
                self.write_as(order, into, |value| bf16::from_f32(value).to_ne_bytes())
            }
            _ => Err(format!("its values are {found}, but {dtype} is expected")),
        }
    }

    /// Writes each value in `BYTES` bytes.
    fn write_as<const BYTES: usize>(
        self,
        order: ChannelOrder,
        into: &mut [u8],
        encode: impl Fn(f32) -> [u8; BYTES],
    ) -> Result<(), Reason> {
        let (part, flips, shape) = (self.part, self.flips, self.shape());
        let found = shape.iter().product::<usize>() * BYTES;
        if found != into.len() {
            return Err(format!(
                "it has the shape {shape:?} (channels, height, width), {found} bytes, but {} are expected",
                into.len()
            ));
        }
        let into = into.as_chunks_mut().0;
        match self.picture {
            AnyPicture::Floats(picture) => {
                write(&Cut { picture: &picture, part, flips }, order, into, |_, value| encode(value));
            }
            AnyPicture::Bytes(picture) => {
                let cut = Cut { picture: &picture, part, flips };
                let table =
                    |values: &dyn Fn(usize) -> f32| -> [_; 256] { std::array::from_fn(|at| encode(values(at))) };
                let tables: Vec<_> = match &self.levels {
                    Levels::Kept => vec![table(&|at| at as f32); picture.channels],
                    Levels::Bytes(tables) => tables.iter().map(|of| table(&|at| of[at].into())).collect(),
                    Levels::Floats(tables) => tables.iter().map(|of| table(&|at| of[at])).collect(),
                };
                write(&cut, order, into, |channel, value| tables[channel][usize::from(value)]);
                scratch::give(picture.pixels);
            }
        }
        Ok(())
    }
}

fn write<T: Level, const BYTES: usize>(
    cut: &Cut<'_, T>,
    order: ChannelOrder,
    into: &mut [[u8; BYTES]],
    value: impl Fn(usize, T) -> [u8; BYTES],
) {
    match cut.picture.channels {
        1 => write_channels::<T, BYTES, 1>(cut, order, into, value),
        2 => write_channels::<T, BYTES, 2>(cut, order, into, value),
        3 => write_channels::<T, BYTES, 3>(cut, order, into, value),
        _ => write_channels::<T, BYTES, 4>(cut, order, into, value),
    }
}

/// Both lengths are compile-time constants, so that no value costs a branch.
fn write_channels<T: Level, const BYTES: usize, const CHANNELS: usize>(
    cut: &Cut<'_, T>,
    order: ChannelOrder,
    into: &mut [[u8; BYTES]],
    value: impl Fn(usize, T) -> [u8; BYTES],
) {
    let (width, plane) = (cut.part.width.max(1), cut.part.width * cut.part.height);
    if order == ChannelOrder::Last {
        for (row, into) in cut.rows().zip(into.chunks_exact_mut(width * CHANNELS)) {
            let pixels = row.as_chunks::<CHANNELS>().0;
            let room = into.as_chunks_mut::<CHANNELS>().0.iter_mut();
            let put = |(into, pixel): (&mut [[u8; BYTES]; CHANNELS], &[T; CHANNELS])| {
                *into = std::array::from_fn(|channel| value(channel, pixel[channel]));
            };
            match cut.flips.horizontal {
                true => room.zip(pixels.iter().rev()).for_each(put),
                false => room.zip(pixels).for_each(put),
            }
        }
        return;
    }
    for (channel, into) in into.chunks_exact_mut(plane.max(1)).enumerate() {
        for (row, into) in cut.rows().zip(into.chunks_exact_mut(width)) {
            let pixels = row.as_chunks::<CHANNELS>().0;
            let put = |(into, pixel): (&mut [u8; BYTES], &[T; CHANNELS])| *into = value(channel, pixel[channel]);
            match cut.flips.horizontal {
                true => into.iter_mut().zip(pixels.iter().rev()).for_each(put),
                false => into.iter_mut().zip(pixels).for_each(put),
            }
        }
    }
}
