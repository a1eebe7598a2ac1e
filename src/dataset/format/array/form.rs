//! [`NpyForm`]: what the `.npy` arrays of a field have in common.

use std::borrow::Cow;

use super::header::{LONGEST_HEADER, NpyHeader};
use crate::Field;

/// What the arrays of a field have in common.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NpyForm {
    header: NpyHeader,
    /// The bytes before the array in the first file. Most other files have the same ones.
    head: Vec<u8>,
    first_axis: FirstAxis,
}

/// Fixed, or different for each array of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstAxis {
    Fixed,
    Ragged,
}

impl NpyForm {
    /// Reads the form of a `.npy` file that begins with `bytes`.
    pub(crate) fn new(bytes: &[u8], first_axis: FirstAxis) -> Result<Self, String> {
        let header = parse(bytes)?;
        if first_axis == FirstAxis::Ragged && header.shape.is_empty() {
            return Err("an array without an axis has no length; read it as \"npy\"".into());
        }
        let head = bytes[..header.data_offset].to_vec();
        Ok(Self { header, head, first_axis })
    }

    pub(crate) fn field(&self, name: &str) -> Field {
        match (self.first_axis, self.header.shape.split_first()) {
            (FirstAxis::Ragged, Some((_, inner))) => Field::variable(name, self.header.dtype, inner),
            _ => Field::new(name, self.header.dtype, self.header.shape.clone()),
        }
    }

    /// The number of bytes at the start of a file that always contain its form.
    pub(crate) const HEAD: usize = LONGEST_HEADER + 12;

    /// The number of bytes that are enough for nearly every file: NumPy pads headers to a multiple of 64 bytes.
    pub(crate) const USUAL_HEAD: usize = 256;

    pub(crate) fn first_axis(&self) -> FirstAxis {
        self.first_axis
    }

    /// Returns the size of the array, in bytes, in a file of `all` bytes that begins with `head`.
    pub(crate) fn array_bytes(&self, head: &[u8], all: u64) -> Result<usize, String> {
        bytes_of(&*self.header_of(head)?, all)
    }

    /// Writes the array of the file `bytes` to `into`, in C order.
    pub(crate) fn read(&self, bytes: &[u8], into: &mut [u8]) -> Result<(), String> {
        let header = self.header_of(bytes)?;
        let size = bytes_of(&header, bytes.len() as u64)?;
        if size != into.len() {
            return Err(format!(
                "the array has {size} bytes, but {} were expected when the file was opened",
                into.len()
            ));
        }
        let data = &bytes[header.data_offset..];
        match header.fortran_order && header.shape.len() > 1 {
            false => into.copy_from_slice(&data[..into.len()]),
            true => transpose(data, into, &header.shape, header.dtype.bytes()),
        }
        Ok(())
    }

    /// Returns the header of the file that begins with `bytes`. Fails if it does not have this form.
    fn header_of(&self, bytes: &[u8]) -> Result<Cow<'_, NpyHeader>, String> {
        if bytes.starts_with(&self.head) {
            return Ok(Cow::Borrowed(&self.header));
        }
        let (first, other) = (&self.header, parse(bytes)?);
        let (is_same, rule) = match self.first_axis {
            FirstAxis::Fixed => (
                other.shape == first.shape,
                "arrays of one field are stacked, so their shapes must be equal; a field of [\"npy\"] allows different \
                 first axes",
            ),
            FirstAxis::Ragged => (
                other.shape.len() == first.shape.len() && other.shape[1..] == first.shape[1..],
                "arrays of one field may differ only in their first axis",
            ),
        };
        if !is_same || other.dtype != first.dtype {
            return Err(format!(
                "the array is {}{:?}, but the first one is {}{:?}: {rule}; read arrays of other shapes as \"bytes\"",
                other.dtype, other.shape, first.dtype, first.shape
            ));
        }
        Ok(Cow::Owned(other))
    }
}

/// Returns the size of the array in a file of `all` bytes with this header. Fails if the file is too short.
fn bytes_of(header: &NpyHeader, all: u64) -> Result<usize, String> {
    let size = header.shape.iter().try_fold(header.dtype.bytes(), |bytes, &size| bytes.checked_mul(size));
    let available = all.saturating_sub(header.data_offset as u64);
    match size {
        Some(size) if size as u64 <= available => Ok(size),
        Some(size) => Err(format!("the file is truncated: it has {available} of the {size} bytes of its array")),
        None => Err(format!(
            "the file has {available} bytes of data, but its header declares an array too large for any memory"
        )),
    }
}

fn parse(bytes: &[u8]) -> Result<NpyHeader, String> {
    NpyHeader::parse(bytes).map_err(|(at, reason)| format!("byte {at} of the array: {reason}"))
}

/// Converts Fortran order to C order.
fn transpose(from: &[u8], into: &mut [u8], shape: &[usize], item: usize) {
    let mut index = vec![0; shape.len()];
    for into in into.chunks_exact_mut(item) {
        let place = index.iter().zip(shape).rev().fold(0, |place, (&index, &size)| place * size + index);
        into.copy_from_slice(&from[place * item..][..item]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(shape: &str, order: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '|u1', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn fortran_order_arrays_are_transposed() {
        let file = file("(2, 3)", "True", &[0, 3, 1, 4, 2, 5]);
        let form = NpyForm::new(&file, FirstAxis::Fixed).unwrap();
        let mut into = [9; 6];
        form.read(&file, &mut into).unwrap();
        assert_eq!(into, [0, 1, 2, 3, 4, 5]);
        for end in 0..file.len() {
            assert!(form.read(&file[..end], &mut into).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn ragged_arrays_share_their_trailing_shape() {
        let form = NpyForm::new(&file("(1, 2)", "False", &[1, 2]), FirstAxis::Ragged).unwrap();
        assert_eq!(form.field("x"), Field::variable("x", crate::DType::UInt8, [2]));
        for (other, expected) in [
            (file("(2, 2)", "True", &[0, 2, 1, 3]), vec![0, 1, 2, 3]),
            (file("(0, 2)", "False", &[]), vec![]),
            (file("(1, 2)", "False", &[8, 9, 7]), vec![8, 9]),
        ] {
            assert_eq!(form.array_bytes(&other, other.len() as u64), Ok(expected.len()));
            let mut into = vec![0; expected.len()];
            form.read(&other, &mut into).unwrap();
            assert_eq!(into, expected);
            // The announced size was that of another file.
            assert!(
                form.read(&other, &mut vec![0; expected.len() + 2]).unwrap_err().contains("when the file was opened")
            );
        }
        let huge = format!("({}, 2)", usize::MAX / 2);
        for (shape, words) in [
            ("(2, 3)", "may differ only in their first axis"),
            ("(2,)", "may differ only in their first axis"),
            ("()", "may differ only in their first axis"),
            ("(3, 2)", "4 of the 6 bytes"),
            (&huge, "4 of the"),
            ("(18446744073709551615, 2)", "too large for any memory"),
        ] {
            let other = file(shape, "False", &[0; 4]);
            let refusal = form.array_bytes(&other, other.len() as u64).unwrap_err();
            assert!(refusal.contains(words), "{shape}: {refusal}");
        }
        assert!(NpyForm::new(&file("()", "False", &[1]), FirstAxis::Ragged).unwrap_err().contains("without an axis"));
    }
}
