//! `solarize`: inverts values that are not below a threshold.

use super::Reason;
use super::level::Level;
use super::picture::Picture;
use super::values::{OfValue, map};
use crate::memory::MultiplyAdd;

struct Solarize {
    threshold: f32,
    most: f32,
}

impl OfValue for Solarize {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, value: f32) -> f32 {
        if value >= self.threshold { self.most - value } else { value }
    }
}

pub(in super::super) fn solarize<T: Level>(picture: &mut Picture<T>, threshold: f64) -> Result<(), Reason> {
    if threshold > T::MOST.into() {
        return Err(format!("the threshold must be at most {}, which is white, got {threshold}", T::MOST));
    }
    map(&mut picture.pixels, Solarize { threshold: threshold as f32, most: T::MOST });
    Ok(())
}
