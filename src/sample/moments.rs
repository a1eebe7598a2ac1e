//! [`Moments`]: exact sums of elements, and their extremes.

use crate::{DType, Error, Result};

/// Sums consist of 32-bit limbs, each stored in 64 bits so that carries can be deferred.
const LIMB_BITS: usize = 32;
const LONGEST_WAIT: u32 = 1 << 30;

/// Sums are in units of 2^-1074, the smallest positive float64; sums of squares are in units of its square. Both have
/// room for 2^64 of the largest numbers.
const UNIT: usize = 1074;
const SUM_LIMBS: usize = (UNIT + 1024 + 64).div_ceil(LIMB_BITS) + 1;
const SQUARE_LIMBS: usize = (2 * (UNIT + 1024) + 64).div_ceil(LIMB_BITS) + 1;

/// The sum, sum of squares, count, and extremes of elements, computed in one pass.
///
/// Sums are exact: they depend neither on the order of the elements nor on how these are divided among several objects,
/// which [`merge`](Self::merge) combines. NaN counts as missing. Threads cannot share one object; give each its own.
///
/// # Example
/// ```
/// use sluicegate::internal::Moments;
/// use sluicegate::DType;
///
/// let (mut first, mut second) = (Moments::new(), Moments::new());
/// first.add(DType::Float32, &[1.0_f32, f32::NAN].map(f32::to_ne_bytes).concat())?;
/// second.add(DType::Int8, &[3])?;
/// first.merge(&second);
/// assert_eq!((first.count(), first.missing(), first.min(), first.max()), (2, 1, 1.0, 3.0));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    count: u64,
    missing: u64,
    /// The number of negative and of positive infinities, which no sum includes.
    infinite: [u64; 2],
    min: f64,
    max: f64,
    sum: Limbs<SUM_LIMBS>,
    squares: Limbs<SQUARE_LIMBS>,
}

/// An integer in two's complement, whose limbs may exceed 32 bits until the next carry.
#[derive(Debug, Clone, PartialEq)]
struct Limbs<const N: usize> {
    limbs: [i64; N],
    waiting: u32,
}

impl Default for Moments {
    fn default() -> Self {
        Self::new()
    }
}

impl Moments {
    /// Returns the moments of no elements.
    #[must_use]
    pub fn new() -> Self {
        Self {
            count: 0,
            missing: 0,
            infinite: [0; 2],
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: Limbs::new(),
            squares: Limbs::new(),
        }
    }

    /// Adds the elements of `dtype` in `bytes`, in the machine's byte order: bools, integers, or floats.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for any other data type, or if the bytes end within an element.
    pub fn add(&mut self, dtype: DType, bytes: &[u8]) -> Result<()> {
        if !bytes.len().is_multiple_of(dtype.bytes()) {
            let reason = format!("expected elements of {} bytes, got {} bytes", dtype.bytes(), bytes.len());
            return Err(Error::invalid("bytes", reason));
        }
        macro_rules! each {
            ($type:ty, $element:ident => $add:expr) => {
                for $element in bytes.as_chunks::<{ size_of::<$type>() }>().0 {
                    let $element = <$type>::from_ne_bytes(*$element);
                    $add;
                }
            };
        }
        match dtype {
            DType::Bool => each!(u8, one => self.add_integer(u64::from(one != 0), false)),
            DType::UInt8 => each!(u8, one => self.add_integer(one.into(), false)),
            DType::UInt16 => each!(u16, one => self.add_integer(one.into(), false)),
            DType::UInt32 => each!(u32, one => self.add_integer(one.into(), false)),
            DType::UInt64 => each!(u64, one => self.add_integer(one, false)),
            DType::Int8 => each!(i8, one => self.add_integer(one.unsigned_abs().into(), one < 0)),
            DType::Int16 => each!(i16, one => self.add_integer(one.unsigned_abs().into(), one < 0)),
            DType::Int32 => each!(i32, one => self.add_integer(one.unsigned_abs().into(), one < 0)),
            DType::Int64 => each!(i64, one => self.add_integer(one.unsigned_abs(), one < 0)),
            DType::Float16 => each!(u16, one => self.add_float(half(one))),
            DType::BFloat16 => each!(u16, one => self.add_float(f32::from_bits(u32::from(one) << 16).into())),
            DType::Float32 => each!(f32, one => self.add_float(one.into())),
            DType::Float64 => each!(f64, one => self.add_float(one)),
            other => {
                return Err(Error::invalid("dtype", format!("expected bools, integers, or floats, got {other}")));
            }
        }
        Ok(())
    }

    fn add_integer(&mut self, magnitude: u64, is_negative: bool) {
        let value = if is_negative { -(magnitude as f64) } else { magnitude as f64 };
        self.take(value);
        self.sum.add(magnitude.into(), UNIT, is_negative);
        self.squares.add(u128::from(magnitude) * u128::from(magnitude), 2 * UNIT, false);
    }

    fn add_float(&mut self, value: f64) {
        if value.is_nan() {
            self.missing += 1;
            return;
        }
        self.take(value);
        if value.is_infinite() {
            self.infinite[usize::from(value > 0.0)] += 1;
            return;
        }
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as usize, bits & ((1 << 52) - 1));
        let (magnitude, shift) = match exponent {
            0 => (fraction, 0),
            exponent => (fraction | 1 << 52, exponent - 1),
        };
        self.sum.add(magnitude.into(), shift, value < 0.0);
        self.squares.add(u128::from(magnitude) * u128::from(magnitude), 2 * shift, false);
    }

    fn take(&mut self, value: f64) {
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds the elements of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.missing += other.missing;
        self.infinite[0] += other.infinite[0];
        self.infinite[1] += other.infinite[1];
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }

    /// Returns the number of elements, not counting NaN.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of elements that are NaN.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of negative and of positive infinities.
    #[must_use]
    pub fn infinite(&self) -> [u64; 2] {
        self.infinite
    }

    /// Returns the smallest element, rounded to float64; infinity if there are no elements.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.min
    }

    /// Returns the largest element, rounded to float64; negative infinity if there are no elements.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Returns the sum of all finite elements, in units of 2^-1074: a little-endian integer in two's complement.
    #[must_use]
    pub fn sum(&self) -> Vec<u8> {
        self.sum.bytes()
    }

    /// Returns the sum of their squares, in units of 2^-2148: a little-endian integer in two's complement.
    #[must_use]
    pub fn squares(&self) -> Vec<u8> {
        self.squares.bytes()
    }

    /// Returns the complete state, from which [`restore`](Self::restore) creates an equal object.
    #[must_use]
    pub fn state(&self) -> Vec<u8> {
        let numbers = [self.count, self.missing, self.infinite[0], self.infinite[1]];
        let mut state: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        state.extend([self.min, self.max].iter().flat_map(|number| number.to_le_bytes()));
        state.extend(self.sum.bytes());
        state.extend(self.squares.bytes());
        state
    }

    /// Returns the moments that [`state`](Self::state) has saved.
    ///
    /// # Errors
    /// [`Error::State`] if `state` does not have the length of a saved state.
    pub fn restore(state: &[u8]) -> Result<Self> {
        let (numbers, sums) = state.split_at_checked(48).unwrap_or_default();
        let (sum, squares) = sums.split_at_checked(4 * SUM_LIMBS).unwrap_or_default();
        let words = numbers.as_chunks::<8>().0;
        let (&[count, missing, below, above, min, max], Some(sum), Some(squares)) =
            (words, Limbs::of(sum), Limbs::of(squares))
        else {
            let reason = format!(
                "expected the state of moments, got {} bytes; pass the bytes that state() returned",
                state.len()
            );
            return Err(Error::State { reason });
        };
        let number = u64::from_le_bytes;
        Ok(Self {
            count: number(count),
            missing: number(missing),
            infinite: [number(below), number(above)],
            min: f64::from_le_bytes(min),
            max: f64::from_le_bytes(max),
            sum,
            squares,
        })
    }
}

impl<const N: usize> Limbs<N> {
    fn new() -> Self {
        Self { limbs: [0; N], waiting: 0 }
    }

    /// Adds or subtracts `magnitude` * 2^`shift`.
    fn add(&mut self, magnitude: u128, shift: usize, is_negative: bool) {
        let (mut limb, bit) = (shift / LIMB_BITS, shift % LIMB_BITS);
        let low = (magnitude & u128::from(u32::MAX)) << bit;
        let mut rest = (magnitude >> LIMB_BITS << bit) + (low >> LIMB_BITS);
        let mut part: i64 = (low as u32).into();
        loop {
            self.limbs[limb] += if is_negative { -part } else { part };
            if rest == 0 {
                break;
            }
            limb += 1;
            part = (rest as u32).into();
            rest >>= LIMB_BITS;
        }
        self.waiting += 1;
        if self.waiting == LONGEST_WAIT {
            self.carry();
        }
    }

    fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        other.carry();
        self.carry();
        self.limbs.iter_mut().zip(&other.limbs).for_each(|(limb, other)| *limb += other);
        self.carry();
    }

    /// Carries, so that all limbs except the last are in 0..2^32.
    fn carry(&mut self) {
        let mut carry = 0;
        let (last, limbs) = self.limbs.split_last_mut().expect("there are limbs");
        for limb in limbs {
            let whole = *limb + carry;
            *limb = whole & i64::from(u32::MAX);
            carry = whole >> LIMB_BITS;
        }
        *last += carry;
        self.waiting = 0;
    }

    fn bytes(&self) -> Vec<u8> {
        let mut carried = self.clone();
        carried.carry();
        carried.limbs.iter().flat_map(|&limb| (limb as u32).to_le_bytes()).collect()
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let words = bytes.as_chunks::<4>().0;
        let mut limbs: [i64; N] =
            words.iter().map(|word| u32::from_le_bytes(*word).into()).collect::<Vec<i64>>().try_into().ok()?;
        // The last limb holds the sign.
        let last = limbs.last_mut()?;
        *last = i64::from(*last as u32 as i32);
        (bytes.len() == 4 * N).then_some(Self { limbs, waiting: 0 })
    }
}

/// Returns the value of a float16.
fn half(bits: u16) -> f64 {
    let (fraction, exponent) = (f64::from(bits & 0x3ff), i32::from(bits >> 10 & 0x1f));
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (fraction + 1024.0) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::new();
        moments.add(DType::Float64, &values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>()).unwrap();
        moments
    }

    #[test]
    fn sums_are_exact_in_any_order() {
        let values = [1e300, 1.0, -1e300, 5e-324, f64::MAX, -f64::MAX, 1e-300, f64::MIN_POSITIVE];
        let mut backward = values;
        backward.reverse();
        assert_eq!(of(&values), of(&backward));
        let mut merged = of(&values[..3]);
        merged.merge(&of(&values[3..]));
        assert_eq!(merged.state(), of(&values).state());
        assert_eq!(of(&[1e300, -1e300]).sum(), Moments::new().sum());
        assert_eq!(of(&[5e-324]).sum()[0], 1);
        assert!(of(&[-5e-324]).sum().iter().all(|&byte| byte == 255));
    }

    #[test]
    fn a_state_is_restored() {
        let moments = of(&[-3.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e200, -1e-200]);
        assert_eq!(Moments::restore(&moments.state()).unwrap().state(), moments.state());
        assert_eq!((moments.count(), moments.missing(), moments.infinite()), (5, 1, [1, 1]));
        for state in [&[][..], &moments.state()[1..], &[moments.state(), vec![0]].concat()] {
            assert!(matches!(Moments::restore(state), Err(Error::State { .. })));
        }
    }

    #[test]
    fn deferred_carries_are_applied() {
        let mut limbs = Limbs::<4>::new();
        limbs.waiting = LONGEST_WAIT - 2;
        limbs.add(u128::from(u64::MAX), 31, true);
        limbs.add(u128::from(u64::MAX), 31, false);
        assert_eq!(limbs, Limbs::new());
    }

    #[test]
    fn half_floats_have_their_values() {
        let found = [0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x8000].map(half);
        assert_eq!(found, [1.0, -2.0, 65504.0, 2_f64.powi(-24), f64::INFINITY, 0.0]);
        assert!(half(0x7e00).is_nan());
    }
}
