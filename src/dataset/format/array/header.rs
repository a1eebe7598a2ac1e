//! The header of a `.npy` file.
//!
//! Source: NumPy's format specification (`numpy.lib.format`), versions 1.0 to 3.0.

use crate::DType;
use crate::dataset::format::file::known_format::foreign;

/// The contents of a `.npy` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    pub(crate) dtype: DType,
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<usize>,
    /// The offset of the array in the file, in bytes.
    pub(crate) data_offset: usize,
}

/// The byte offset of an error in a header, and the reason.
pub(crate) type Refusal = (u64, String);

const MAGIC: &[u8] = b"\x93NUMPY";

/// Maximum size of a header in bytes; NumPy itself writes a few hundred bytes at most for a plain array.
pub(crate) const LONGEST_HEADER: usize = 1 << 16;

/// The number of bytes at the start of a file that always contain its header.
pub(crate) const LONGEST_START: usize = LONGEST_HEADER + 12;

impl NpyHeader {
    /// Reads the header from the first bytes of a file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if !bytes.starts_with(MAGIC) {
            let plain = "this is not a .npy file (it does not begin with \\x93NUMPY): write it with numpy.save";
            return Err((0, foreign(bytes, "a .npy file").unwrap_or_else(|| plain.into())));
        }
        let truncated = |at: usize| (at as u64, "the file is truncated: it ends inside its header".into());
        let version = *bytes.get(6).ok_or_else(|| truncated(bytes.len()))?;
        let (length, start) = match (version, bytes.get(8..10), bytes.get(8..12)) {
            (1, Some(length), _) => (u16::from_le_bytes([length[0], length[1]]) as usize, 10),
            (2 | 3, _, Some(length)) => (u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize, 12),
            (1..=3, _, _) => return Err(truncated(bytes.len())),
            _ => return Err((6, format!("version {version} of the .npy format is not supported, only 1 to 3"))),
        };
        if length > LONGEST_HEADER {
            return Err((
                8,
                format!(
                    "the header has {length} bytes, but that of a plain array has a few hundred; the file is damaged"
                ),
            ));
        }
        let text = bytes.get(start..start + length).ok_or_else(|| truncated(bytes.len()))?;
        let text = std::str::from_utf8(text).map_err(|error| {
            ((start + error.valid_up_to()) as u64, "the header is not text; the file is damaged".to_owned())
        })?;
        Self::from_literal(text, start + length).map_err(|reason| (start as u64, reason))
    }

    /// Returns the size of a file with this header in bytes, or `None` if its array is too large for any memory.
    pub(crate) fn file_bytes(&self) -> Option<usize> {
        // Axes of length 0 are skipped, as in NumPy: they must not hide an overflow of the strides.
        let mut axes = self.shape.iter().filter(|&&axis| axis > 0);
        let size = axes.try_fold(self.dtype.bytes(), |size, &axis| size.checked_mul(axis))?;
        if self.shape.contains(&0) { Some(self.data_offset) } else { size.checked_add(self.data_offset) }
    }

    /// Returns the stride of each axis, in bytes.
    pub(crate) fn strides(&self) -> Vec<usize> {
        let axes = self.shape.len();
        let mut strides = vec![0; axes];
        let mut stride = self.dtype.bytes();
        for step in 0..axes {
            let axis = if self.fortran_order { step } else { axes - 1 - step };
            strides[axis] = stride;
            stride *= self.shape[axis];
        }
        strides
    }

    /// Reads the Python literal `{'descr': …, 'fortran_order': …, 'shape': …}`.
    fn from_literal(text: &str, data_offset: usize) -> Result<Self, String> {
        let damaged = |key: &str| format!("the header has no valid {key}: {}", text.trim());
        let value = |key: &str| {
            let after = text.split_once(&format!("'{key}'"))?.1;
            Some(after.trim_start().strip_prefix(':')?.trim_start())
        };
        let descr = value("descr").ok_or_else(|| damaged("descr"))?;
        let dtype = match descr.strip_prefix('\'').and_then(|rest| rest.split_once('\'')) {
            Some((name, _)) => dtype_of(name)?,
            None if descr.starts_with('[') => {
                return Err(
                    "a structured array can't be stacked; save each of its fields as a separate .npy file".into()
                );
            }
            None => return Err(damaged("descr")),
        };
        let fortran_order = match value("fortran_order").ok_or_else(|| damaged("fortran_order"))? {
            order if order.starts_with("True") => true,
            order if order.starts_with("False") => false,
            _ => return Err(damaged("fortran_order")),
        };
        let shape = value("shape")
            .and_then(|shape| shape.strip_prefix('(')?.split_once(')'))
            .ok_or_else(|| damaged("shape"))?
            .0
            .split(',')
            .map(|size| size.trim().trim_end_matches('L'))
            .filter(|size| !size.is_empty())
            .map(|size| size.parse::<usize>().map_err(|_| damaged("shape")))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { dtype, fortran_order, shape, data_offset })
    }
}

/// Parses a data type of NumPy's array protocol, such as `<f4`.
fn dtype_of(name: &str) -> Result<DType, String> {
    let (order, kind) = name.split_at(name.find(|first: char| first.is_ascii_alphabetic()).unwrap_or(name.len()));
    if kind.starts_with('O') {
        return Err(
            "an array of Python objects can't be stacked (and reading one would run code from the file); save an array \
             of numbers"
                .into(),
        );
    }
    let dtype = DType::from_numpy(kind).ok_or_else(|| {
        format!("torch has no data type for NumPy's `{name}`; save it as numbers of 1, 2, 4, or 8 bytes, with astype()")
    })?;
    let foreign = if cfg!(target_endian = "little") { ">" } else { "<" };
    if order == foreign {
        return Err(format!("`{name}` is not in native byte order; save array.astype(array.dtype.newbyteorder('='))"));
    }
    Ok(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(literal: &str) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(literal.len()).unwrap().to_le_bytes());
        bytes.extend(literal.as_bytes());
        bytes
    }

    #[test]
    fn a_plain_header_is_read() {
        let bytes = header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n");
        let header = NpyHeader::parse(&bytes).unwrap();
        let expected =
            NpyHeader { dtype: DType::Float32, fortran_order: false, shape: vec![3, 4], data_offset: bytes.len() };
        assert_eq!(header, expected);
    }

    #[test]
    fn every_cut_of_a_header_is_refused_without_panic() {
        let bytes = header("{'descr': '<i8', 'fortran_order': True, 'shape': (7,), }\n");
        for end in 0..bytes.len() {
            assert!(NpyHeader::parse(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn unsupported_dtypes_are_refused_with_a_remedy() {
        let refusal = |descr: &str| {
            NpyHeader::parse(&header(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,)}}")))
                .unwrap_err()
                .1
        };
        assert!(refusal("'|O'").contains("Python objects"));
        assert!(refusal("[('a', '<f4')]").contains("structured"));
        assert!(refusal("'<U3'").contains("`<U3`"));
        if cfg!(target_endian = "little") {
            assert!(refusal("'>f4'").contains("byte order"));
        }
    }
}
