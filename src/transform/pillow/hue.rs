//! [`adjust`]: adjusts hue, in the integers of Pillow's mode "HSV".

use super::colors::{OfColor, map};
use crate::transform::{Picture, Reason};

/// Number of steps of a hue, a saturation, or a value.
const STEPS: f64 = 255.0;

/// Rotates the hues by `factor`, from -0.5 to 0.5 of the circle; gray has no hue.
pub(super) fn adjust(picture: &mut Picture<u8>, factor: f64) -> Result<(), Reason> {
    if !(-0.5..=0.5).contains(&factor) {
        return Err(format!("hue: expected a factor from -0.5 to 0.5, got {factor}"));
    }
    if picture.channels == 3 {
        // A negative rotation is a positive one that wraps around.
        let by = (factor * STEPS) as i32 & 0xff;
        map(&mut picture.pixels, Turn(by));
    }
    Ok(())
}

/// A rotation by this many steps.
struct Turn(i32);

impl OfColor for Turn {
    #[inline(always)]
    fn of(&self, color: [i32; 3]) -> [i32; 3] {
        turn(color, self.0)
    }
}

/// Returns the color with its hue rotated.
#[inline(always)]
fn turn([red, green, blue]: [i32; 3], by: i32) -> [i32; 3] {
    let most = red.max(green).max(blue);
    let range = most - red.min(green).min(blue);
    // Gray has no saturation, whatever its hue.
    let divisor = range.max(1) as f32;
    let saturation = range as f32 / most.max(1) as f32;
    let [to_red, to_green, to_blue] = [red, green, blue].map(|value| (most - value) as f32 / divisor);
    // Red uses 32-bit floats, the others 64-bit floats.
    let of_green = (2.0 + f64::from(to_red) - f64::from(to_blue)) as f32;
    let of_blue = (4.0 + f64::from(to_green) - f64::from(to_red)) as f32;
    let others = if green == most { of_green } else { of_blue };
    let sixths = if red == most { to_blue - to_green } else { others };
    let turns = f64::from(sixths) / 6.0 + 1.0;
    let hue = (turns - if turns >= 1.0 { 1.0 } else { 0.0 }) as f32;
    let hue = (whole(f64::from(hue) * STEPS) + by) & 0xff;
    from_hsv(hue, whole(f64::from(saturation) * STEPS), most)
}

#[inline(always)]
fn from_hsv(hue: i32, saturation: i32, value: i32) -> [i32; 3] {
    let sixths = f64::from(hue) * 6.0 / STEPS;
    let sixth = whole(sixths);
    let part = (sixths - f64::from(sixth)) as f32;
    let share = (f64::from(saturation) / STEPS) as f32;
    let full = f64::from(value);
    let least = rounded(full * (1.0 - f64::from(share)));
    let falling = rounded(full * (1.0 - f64::from(share * part)));
    let rising = rounded(full * (1.0 - f64::from(share) * (1.0 - f64::from(part))));
    // The last step of the circle equals the first one.
    let sixth = if sixth == 6 { 0 } else { sixth };
    let choose = |of: [i32; 6]| {
        let low = if sixth < 1 {
            of[0]
        } else if sixth < 2 {
            of[1]
        } else {
            of[2]
        };
        let high = if sixth < 4 {
            of[3]
        } else if sixth < 5 {
            of[4]
        } else {
            of[5]
        };
        if sixth < 3 { low } else { high }
    };
    [
        choose([value, falling, least, least, rising, value]),
        choose([rising, value, value, falling, least, least]),
        choose([least, least, rising, value, value, falling]),
    ]
}

/// Returns the integer part of a positive number.
#[inline(always)]
fn whole(value: f64) -> i32 {
    value as i32
}

/// Rounds to the nearest integer; ties go up.
#[inline(always)]
fn rounded(value: f64) -> i32 {
    let below = whole(value);
    below + i32::from(value - f64::from(below) >= 0.5)
}
