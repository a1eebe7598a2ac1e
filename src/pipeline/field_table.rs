//! [`PlacedField`]: the position of a tensor in a batch that another process wrote, and the table of these fields.

use crate::{DType, Error, Result};

/// One tensor of a batch, by the position of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedField {
    /// The data type.
    pub dtype: DType,
    /// Offset of its first byte from the start of the batch.
    pub offset: usize,
    /// The shape; the elements are in C order.
    pub shape: Vec<usize>,
}

impl PlacedField {
    /// Returns the number of its bytes, or None if no memory can be that large.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        let elements = self.shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        elements?.checked_mul(self.dtype.bytes()).filter(|&bytes| isize::try_from(bytes).is_ok())
    }
}

/// Encodes `fields` as 64-bit words in the machine's byte order, for use on the same machine.
pub(crate) fn encode(fields: &[PlacedField]) -> Vec<u8> {
    let mut words = Vec::with_capacity(1 + fields.len() * 4);
    words.push(fields.len() as u64);
    for field in fields {
        words.push(u64::from(field.dtype.number()) | (field.shape.len() as u64) << 8);
        words.push(field.offset as u64);
        words.extend(field.shape.iter().map(|&number| number as u64));
    }
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Decodes the fields of `table`, all of which must be within the first `bytes` bytes of the batch.
///
/// # Errors
/// [`Error::Worker`] if the table is invalid: the code of the process that wrote it may have overwritten it.
pub(crate) fn decode(table: &[u8], bytes: usize) -> Result<Vec<PlacedField>> {
    let mut words = table.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")) as usize);
    let mut fields = Vec::new();
    let mut read = || {
        for _ in 0..words.next()? {
            let head = words.next()? as u64;
            let (dtype, dimensions) = (DType::from_number(head as u8)?, (head >> 8) as usize & 0xff);
            let offset = words.next()?;
            let shape: Vec<usize> = words.by_ref().take(dimensions).collect();
            let field = PlacedField { dtype, offset, shape };
            let end = offset.checked_add(field.bytes()?)?;
            fields.push(Some(field).filter(|field| field.shape.len() == dimensions && end <= bytes)?);
        }
        Some(())
    };
    match read() {
        Some(()) => Ok(fields),
        None => Err(Error::Worker { reason: "the table of a batch's tensors is invalid".into() }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field() -> impl Strategy<Value = PlacedField> {
        let parts = (0..21_u8, 0..100_usize, prop::collection::vec(0..4_usize, 0..5));
        parts.prop_map(|(dtype, offset, shape)| PlacedField {
            dtype: DType::from_number(dtype).unwrap(),
            offset,
            shape,
        })
    }

    proptest! {
        #[test]
        fn a_table_is_read_as_it_was_written(fields in prop::collection::vec(field(), 0..8)) {
            prop_assert_eq!(decode(&encode(&fields), 1 << 20).unwrap(), fields);
        }

        #[test]
        fn invalid_tables_are_refused(mut table in prop::collection::vec(any::<u64>(), 0..40), count in 0..5_u64) {
            table.insert(0, count);
            let bytes: Vec<u8> = table.iter().flat_map(|word| word.to_ne_bytes()).collect();
            if let Ok(fields) = decode(&bytes, 1000) {
                for field in fields {
                    prop_assert!(field.offset + field.bytes().unwrap() <= 1000);
                }
            }
        }
    }
}
