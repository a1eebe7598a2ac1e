//! Conversion of integers of any width to int64.

use super::Segment;
use crate::DType;

impl Segment {
    /// Fills `into` with the little-endian integers of `dtype` that start at byte `offset`, as int64 in the machine's
    /// byte order.
    ///
    /// # Panics
    /// If the segment has fewer integers, and as for [`widen`].
    pub fn widen_to(&self, offset: usize, dtype: DType, into: &mut [u8]) {
        let bytes = into.len() / size_of::<i64>() * dtype.bytes();
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= self.len());
        assert!(is_inside, "{bytes} bytes from {offset} on, of a segment of {}", self.len());
        // SAFETY: these bytes are inside the segment, as asserted; `into` is exclusively borrowed, so the two do not
        // overlap.
        self.read_by(|| unsafe { widen_from(dtype, self.at(offset).as_ptr(), into) });
    }

    /// Prefetches bytes that are in memory into the processor's cache: the first lines of each page of the `len` bytes
    /// from `offset` on; the processor then prefetches the rest. A caller that does other work meanwhile waits less for
    /// them. Nothing is read: pages that are not in memory stay out.
    pub fn prefetch(&self, offset: usize, len: usize) {
        const PAGE: usize = 4096;
        const LINE: usize = 64;
        const LINES: usize = 4;
        let stop = offset.saturating_add(len).min(self.len());
        let mut page = offset;
        while page < stop {
            for line in (page..stop).step_by(LINE).take(LINES) {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a hint, which reads nothing; every x86-64 processor has it.
                unsafe {
                    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                    _mm_prefetch::<_MM_HINT_T0>(self.at(line).as_ptr().cast());
                }
                #[cfg(not(target_arch = "x86_64"))]
                let _ = line;
            }
            page = (page / PAGE + 1) * PAGE;
        }
    }
}

/// Writes the little-endian integers of `dtype` in `from` to `into` as int64, in the machine's byte order.
///
/// # Panics
/// If `into` does not have 8 bytes per integer, or `dtype` is not an integer type that fits into int64.
///
/// # Example
/// ```
/// use sluicegate::internal::widen;
/// use sluicegate::DType;
/// let mut wide = [0; 16];
/// widen(DType::UInt16, &[1, 0, 0, 1], &mut wide);
/// assert_eq!(wide.as_chunks::<8>().0, [1_i64, 256].map(i64::to_ne_bytes));
/// ```
pub fn widen(dtype: DType, from: &[u8], into: &mut [u8]) {
    assert_eq!(from.len() / dtype.bytes() * size_of::<i64>(), into.len(), "room for {} bytes of {dtype}", from.len());
    // SAFETY: `from` contains as many integers as `into` has room for.
    unsafe { widen_from(dtype, from.as_ptr(), into) };
}

/// # Safety
/// As many integers of `dtype` as `into` has room for must be readable at `from`, and must not overlap `into`. Others
/// may write to them meanwhile: the result is then old or new.
unsafe fn widen_from(dtype: DType, from: *const u8, into: &mut [u8]) {
    let (into, rest) = into.as_chunks_mut::<8>();
    assert!(rest.is_empty(), "room for a part of an integer");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the features that the function was compiled for; the rest is the caller's promise.
        return unsafe { widen_by_avx2(dtype, from, into) };
    }
    // SAFETY: the caller's promise.
    unsafe { widen_portably(dtype, from, into) };
}

/// Like `widen_from`, with instructions twice as wide, because the stores dominate the time.
///
/// # Safety
/// As for [`widen_from`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn widen_by_avx2(dtype: DType, from: *const u8, into: &mut [[u8; 8]]) {
    // SAFETY: the caller's promise.
    unsafe { widen_portably(dtype, from, into) };
}

/// # Safety
/// As for [`widen_from`].
#[inline(always)]
unsafe fn widen_portably(dtype: DType, from: *const u8, into: &mut [[u8; 8]]) {
    // SAFETY: the caller's promise, for the size of each data type.
    unsafe {
        match dtype {
            DType::UInt8 => each::<1>(from, into, |bytes| i64::from(bytes[0])),
            DType::Int8 => each::<1>(from, into, |bytes| i64::from(i8::from_le_bytes(bytes))),
            DType::UInt16 => each::<2>(from, into, |bytes| i64::from(u16::from_le_bytes(bytes))),
            DType::Int16 => each::<2>(from, into, |bytes| i64::from(i16::from_le_bytes(bytes))),
            DType::UInt32 => each::<4>(from, into, |bytes| i64::from(u32::from_le_bytes(bytes))),
            DType::Int32 => each::<4>(from, into, |bytes| i64::from(i32::from_le_bytes(bytes))),
            DType::Int64 => each::<8>(from, into, i64::from_le_bytes),
            other => panic!("{other} is not an integer that fits into int64"),
        }
    }
}

/// # Safety
/// As for [`widen_from`], with integers of `BYTES` bytes.
#[inline(always)]
unsafe fn each<const BYTES: usize>(from: *const u8, into: &mut [[u8; 8]], value: impl Fn([u8; BYTES]) -> i64) {
    for (place, into) in into.iter_mut().enumerate() {
        // SAFETY: the integer at `place` is readable by the caller's promise; an array of bytes has no alignment
        // requirement.
        *into = value(unsafe { from.add(place * BYTES).cast::<[u8; BYTES]>().read() }).to_ne_bytes();
    }
}
