//! [`exponential`]: draws from the exponential distribution.

/// Returns an exponentially distributed number with mean 1, above 0 and below 45, from 64 random bits.
///
/// It is the inverse of the distribution function, -ln u. The logarithm is computed here, from additions,
/// multiplications, and one division, which IEEE 754 defines to the last bit: math libraries differ between platforms,
/// which could change the order of two samples.
#[inline]
pub(crate) fn exponential(word: u64) -> f64 {
    // 53 bits, centered, so that u is neither 0 nor 1.
    let uniform = ((word >> 11) as f64 + 0.5) * (1.0 / (1_u64 << 53) as f64);
    let bits = uniform.to_bits();
    // u = 2^exponent * mantissa, with the mantissa between the square roots of 1/2 and of 2.
    let exponent = ((bits.wrapping_sub(SQRT_HALF_BITS)) as i64) >> 52;
    let mantissa = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52));
    // ln m = 2 artanh((m - 1) / (m + 1)); the first omitted term of its series is about 10^-18.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = ODD_RECIPROCALS.iter().rev().fold(0.0, |sum, reciprocal| sum * square + reciprocal);
    -(exponent as f64 * std::f64::consts::LN_2 + 2.0 * ratio * series)
}

const SQRT_HALF_BITS: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();

/// 1, 1/3, 1/5, and so on: the coefficients of artanh's series.
const ODD_RECIPROCALS: [f64; 11] = {
    let mut reciprocals = [0.0; 11];
    let mut term = 0;
    while term < reciprocals.len() {
        reciprocals[term] = 1.0 / (2 * term + 1) as f64;
        term += 1;
    }
    reciprocals
};
