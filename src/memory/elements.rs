//! Bytes viewed as typed elements.

use crate::{DType, Element, Error, Result};

/// Returns `bytes` as elements of `T` in the machine's byte order, or None if they are not aligned for `T` or are not a
/// whole number of elements.
fn elements<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    if bytes.is_empty() {
        return Some(&[]);
    }
    // SAFETY: `Element` is sealed, and its types are integers and floats, for which every bit pattern is a value.
    let (before, elements, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}

/// Returns `bytes` of field `name`, which has data type `dtype`, as elements of `T`.
///
/// # Errors
/// [`Error::InvalidArgument`] if `T` has another data type, or the bytes are not aligned for it.
pub(crate) fn typed_elements<'a, T: Element>(name: &str, dtype: DType, bytes: &'a [u8]) -> Result<&'a [T]> {
    let refused = |reason| Error::invalid("field", reason);
    if dtype != T::DTYPE {
        return Err(refused(format!("field `{name}` holds {dtype}, not {}", T::DTYPE)));
    }
    elements(bytes).ok_or_else(|| refused(format!("field `{name}` is not aligned to its data type, {dtype}; copy it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_aligned_whole_elements_are_viewed() {
        let slab = super::super::Slab::new(1);
        let mut lease = slab.lease(24).expect("there is memory");
        lease.bytes_mut().fill(0);
        lease.bytes_mut()[8] = 1;
        let one = i64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(elements::<i64>(lease.bytes()), Some([0, one, 0].as_slice()));
        assert_eq!(elements::<u8>(&lease.bytes()[7..9]), Some([0, 1].as_slice()));
        assert_eq!(elements::<i64>(&lease.bytes()[4..20]), None, "not aligned");
        assert_eq!(elements::<i64>(&lease.bytes()[8..20]), None, "no whole number");
        assert_eq!(elements::<i64>(&lease.bytes()[3..3]), Some([].as_slice()));
    }
}
