//! `posterize`: reduces the number of levels.

use super::Reason;
use super::picture::Picture;
use super::values::{OfValue, map};
use crate::memory::MultiplyAdd;

fn check(bits: u32) -> Result<(), Reason> {
    if bits <= 8 { Ok(()) } else { Err(format!("the number of bits must be from 0 to 8, got {bits}")) }
}

/// Keeps the upper bits.
pub(in super::super) fn bytes(picture: &mut Picture<u8>, bits: u32) -> Result<(), Reason> {
    check(bits)?;
    let mask = (0xff00_u16 >> bits) as u8;
    picture.pixels.iter_mut().for_each(|value| *value &= mask);
    Ok(())
}

struct Below {
    levels: f32,
}

impl OfValue for Below {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, value: f32) -> f32 {
        (value * self.levels).floor().clamp(0.0, self.levels - 1.0) * (1.0 / self.levels)
    }
}

/// Rounds down to a level.
pub(in super::super) fn floats(picture: &mut Picture<f32>, bits: u32) -> Result<(), Reason> {
    check(bits)?;
    map(&mut picture.pixels, Below { levels: (1_u32 << bits) as f32 });
    Ok(())
}
