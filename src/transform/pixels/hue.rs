//! `adjust_hue`: rotates the hue of colors in hue, saturation, and value (A. R. Smith, "Color Gamut Transform Pairs",
//! 1978).

use std::marker::PhantomData;

use super::level::Level;
use super::picture::Picture;
use super::planes::{OfColors, Planes, map};
use super::{Reason, gray_or_colors};
use crate::memory::MultiplyAdd;

struct Hue<T> {
    factor: f32,
    level: PhantomData<T>,
}

impl<T: Level> OfColors for Hue<T> {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, [red, green, blue]: &mut Planes) {
        for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
            let turned = turn([*r * T::TO_UNIT, *g * T::TO_UNIT, *b * T::TO_UNIT], self.factor);
            [*r, *g, *b] = turned.map(|value| value * T::FROM_UNIT);
        }
    }
}

/// Returns the color with its hue rotated. Each step rounds like torchvision's, and there are no branches.
#[inline(always)]
fn turn([r, g, b]: [f32; 3], factor: f32) -> [f32; 3] {
    let most = r.max(g).max(b);
    let range = most - r.min(g).min(b);
    let is_gray = range == 0.0;
    let saturation = range / if is_gray { 1.0 } else { most };
    let (is_red, is_green) = (most == r, most == g);
    // Of two distances from the maximum, the first is added and the second subtracted, starting at the maximum's third
    // of the circle.
    let (added, taken, third) = match (is_red, is_green) {
        (true, _) => (most - b, most - g, 0.0),
        (_, true) => (most - r, most - b, 2.0),
        _ => (most - g, most - r, 4.0),
    };
    let range = if is_gray { 1.0 } else { range };
    let hue = (added / range + third) - taken / range;
    let hue = hue * (1.0 / 6.0) + 1.0;
    let hue = (hue - hue.trunc()) + factor;
    let hue = hue - hue.trunc();
    let hue = if hue < 0.0 { hue + 1.0 } else { hue };

    let sixths = hue * 6.0;
    let sector = sixths.floor();
    let part = sixths - sector;
    let pale = 1.0 - saturation;
    let shade = saturation * part;
    let falling = ((1.0 - shade) * most).clamp(0.0, 1.0);
    let rising = ((shade + pale) * most).clamp(0.0, 1.0);
    let least = (pale * most).clamp(0.0, 1.0);
    // 6 if the sum was rounded up to a full turn.
    let sector = if sector >= 6.0 { 0.0 } else { sector };
    let choose = |of: [f32; 6]| {
        let low = if sector < 1.0 {
            of[0]
        } else if sector < 2.0 {
            of[1]
        } else {
            of[2]
        };
        let high = if sector < 4.0 {
            of[3]
        } else if sector < 5.0 {
            of[4]
        } else {
            of[5]
        };
        if sector < 3.0 { low } else { high }
    };
    [
        choose([most, falling, least, least, rising, most]),
        choose([rising, most, most, falling, least, least]),
        choose([least, least, rising, most, most, falling]),
    ]
}

pub(in super::super) fn adjust<T: Level>(picture: &mut Picture<T>, factor: f64) -> Result<(), Reason> {
    if !(-0.5..=0.5).contains(&factor) {
        return Err(format!("the hue factor must be in [-0.5, 0.5], got {factor}"));
    }
    gray_or_colors(picture.channels)?;
    if picture.channels == 3 {
        map(&mut picture.pixels, Hue::<T> { factor: factor as f32, level: PhantomData });
    }
    Ok(())
}
