//! Converts sixteen uniform deviates to sixteen normal ones, bit for bit like torch.
//!
//! Source: Box and Muller, "A note on the generation of random normal deviates", Ann. Math. Stat. 29 (1958).

use std::env;
use std::f64::consts::PI;
use std::sync::OnceLock;

/// Number of deviates that torch makes at a time.
pub(crate) const BLOCK: usize = 16;

/// True if torch makes blocks with vector instructions and approximations of logarithm, sine, and cosine. Like torch,
/// it checks the processor and the same environment variable.
pub(crate) fn are_made_by_vectors() -> bool {
    static ARE: OnceLock<bool> = OnceLock::new();
    *ARE.get_or_init(|| has_vectors() && env::var_os("ATEN_CPU_CAPABILITY").is_none_or(|value| value != "default"))
}

#[cfg(target_arch = "x86_64")]
fn has_vectors() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vectors() -> bool {
    false
}

/// Fills the block like torch without vector instructions, using the C library's functions.
pub(crate) fn fill_by_library(block: &mut [f32; BLOCK]) {
    let (first, second) = block.split_at_mut(BLOCK / 2);
    for (first, second) in first.iter_mut().zip(second) {
        let radius = (-2.0 * (1.0 - *first).ln()).sqrt();
        let angle = (2.0 * PI * f64::from(*second)) as f32;
        (*first, *second) = (radius * angle.cos(), radius * angle.sin());
    }
}

/// Fills the block like torch with vector instructions; `multiply_add(a, b, c)` is `a * b + c`, rounded once.
#[inline(always)]
pub(crate) fn fill_by_vectors(block: &mut [f32; BLOCK], multiply_add: impl Fn(f32, f32, f32) -> f32 + Copy) {
    let (first, second) = block.split_at_mut(BLOCK / 2);
    for (first, second) in first.iter_mut().zip(second) {
        let radius = (-2.0 * logarithm(1.0 - *first, multiply_add)).sqrt();
        let (sine, cosine) = sine_and_cosine((2.0 * PI) as f32 * *second, multiply_add);
        (*first, *second) = (radius * cosine, radius * sine);
    }
}

/// Returns the natural logarithm of a positive number, using the polynomial of Moshier's Cephes library in the order in
/// which torch's vectors evaluate it.
#[inline(always)]
fn logarithm(x: f32, multiply_add: impl Fn(f32, f32, f32) -> f32 + Copy) -> f32 {
    const POLYNOMIAL: [f32; 9] = [
        7.037_683_6e-2,
        -1.151_461e-1,
        0.116_769_984,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_4e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    let bits = x.to_bits();
    let mantissa = f32::from_bits((bits & 0x807f_ffff) | 0x3f00_0000);
    let exponent = ((bits >> 23) as i32 - 0x7e) as f32;
    let is_small = mantissa < std::f32::consts::FRAC_1_SQRT_2;
    let exponent = if is_small { exponent - 1.0 } else { exponent };
    let x = mantissa - 1.0 + if is_small { mantissa } else { 0.0 };
    let square = x * x;
    let mut y = POLYNOMIAL[0];
    for coefficient in &POLYNOMIAL[1..] {
        y = multiply_add(y, x, *coefficient);
    }
    let y = multiply_add(y * x, square, exponent * -2.121_944_4e-4);
    let y = multiply_add(-square, 0.5, y);
    multiply_add(exponent, 0.693_359_4, x + y)
}

/// Returns sine and cosine of an angle from 0 to 2 pi, using the polynomials of the same library.
#[inline(always)]
fn sine_and_cosine(x: f32, multiply_add: impl Fn(f32, f32, f32) -> f32 + Copy) -> (f32, f32) {
    /// Minus an eighth of a circle, in three parts; the first two have few digits, so their multiples are exact.
    const EIGHTH: [f32; 3] = [-0.785_156_25, -2.418_756_5e-4, -3.774_895e-8];
    let eighths = ((x * (4.0 / PI) as f32) as i32 + 1) & !1;
    let count = eighths as f32;
    let x = multiply_add(count, EIGHTH[0], x);
    let x = multiply_add(count, EIGHTH[1], x);
    let x = multiply_add(count, EIGHTH[2], x);
    let square = x * x;
    let even = multiply_add(2.443_315_7e-5, square, -1.388_731_6e-3);
    let even = multiply_add(even, square, 4.166_664_6e-2) * square;
    let even = multiply_add(even, square, -(square * 0.5)) + 1.0;
    let odd = multiply_add(-1.951_529_6e-4, square, 8.332_161e-3);
    let odd = multiply_add(odd, square, -1.666_665_5e-1) * square;
    let odd = multiply_add(odd, x, x);
    let (sine, cosine) = if eighths & 2 == 0 { (odd, even) } else { (even, odd) };
    let sign = |is_negative: i32, value: f32| f32::from_bits(value.to_bits() ^ ((is_negative as u32 & 4) << 29));
    (sign(eighths, sine), sign(!(eighths - 2), cosine))
}
