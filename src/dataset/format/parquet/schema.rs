//! [`check_schema`]: validates the schema in a Parquet footer before the crate `parquet` allocates memory for it.

/// Maximum depth of a schema, where a list takes two or three levels: the crate recurses, and could overflow the stack.
const DEEPEST: usize = 300;

/// Maximum depth of structures that are skipped.
const DEEPEST_STRUCTURE: usize = 32;

/// Checks the schema of a footer. The footer is a structure in Thrift's compact protocol: its second field is the list
/// of schema elements, in depth-first order; the fifth field of each element is its number of children.
/// Source: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift> and
/// <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.
///
/// The crate allocates memory for as many children as an element claims, which may be too many if bytes are damaged.
///
/// # Errors
/// The reason why the schema is invalid.
pub(super) fn check_schema(footer: &[u8]) -> Result<(), String> {
    let cut = || "it is truncated, or its schema is invalid".to_owned();
    let mut bytes = Compact { rest: footer };
    let children = bytes.schema().ok_or_else(cut)?;
    // `open`: for each open element, its remaining children. `promised`: elements that were claimed and not read yet.
    let (mut open, mut promised) = (Vec::new(), 1_usize);
    for (place, &count) in children.iter().enumerate() {
        let left = children.len() - place - 1;
        let count =
            usize::try_from(count).map_err(|_| format!("element {place} of its schema declares {count} children"))?;
        promised = promised.saturating_sub(1).saturating_add(count);
        if promised > left {
            return Err(format!(
                "element {place} of its schema declares {count} children, but only {left} elements follow it"
            ));
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        open.last_mut().into_iter().for_each(|left: &mut usize| *left -= 1);
        if count > 0 {
            open.push(count);
        }
        if open.len() > DEEPEST {
            return Err(format!("its schema is nested more than {DEEPEST} levels deep"));
        }
    }
    Ok(())
}

/// Reads Thrift's compact protocol. Methods return `None` if the bytes end early or are invalid.
struct Compact<'a> {
    rest: &'a [u8],
}

/// Type codes of the protocol.
mod kind {
    pub(super) const STOP: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
    pub(super) const UUID: u8 = 13;
}

impl Compact<'_> {
    /// Reads the number of children of each schema element.
    fn schema(&mut self) -> Option<Vec<i64>> {
        let mut id = 0;
        // Only the version precedes it.
        while self.field(&mut id)? != kind::LIST || id != 2 {
            if id != 1 {
                return None;
            }
            self.number()?;
        }
        let (len, of) = self.list()?;
        // Each element takes at least one byte.
        if of != kind::STRUCT || len > self.rest.len() {
            return None;
        }
        (0..len).map(|_| self.children()).collect()
    }

    /// Reads the number of children of the next element.
    fn children(&mut self) -> Option<i64> {
        let (mut id, mut children) = (0, 0);
        loop {
            match self.field(&mut id)? {
                kind::STOP => return Some(children),
                // Any width, because the crate reads them all the same way.
                kind::I16 | kind::I32 | kind::I64 if id == 5 => {
                    children = self.signed()?;
                }
                other => self.skip(other, DEEPEST_STRUCTURE)?,
            }
        }
    }

    /// Reads the header of the next field of a structure: returns its type, and updates its number `id`.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let head = self.byte()?;
        if head & 0x0f != kind::STOP {
            *id = match head >> 4 {
                0 => i64::from(self.signed()? as i16),
                step => id.checked_add(i64::from(step))?,
            };
        }
        Some(head & 0x0f)
    }

    /// Reads the header of a list: the number of elements, and their type.
    fn list(&mut self) -> Option<(usize, u8)> {
        let head = self.byte()?;
        let len = match head >> 4 {
            15 => usize::try_from(self.number()?).ok()?,
            len => usize::from(len),
        };
        Some((len, head & 0x0f))
    }

    fn skip(&mut self, of: u8, deepest: usize) -> Option<()> {
        let deepest = deepest.checked_sub(1)?;
        match of {
            kind::TRUE | kind::FALSE => {}
            kind::BYTE => drop(self.byte()?),
            kind::I16 | kind::I32 | kind::I64 => drop(self.number()?),
            kind::DOUBLE => self.pass(8)?,
            kind::UUID => self.pass(16)?,
            kind::BINARY => {
                let bytes = self.number()?;
                self.pass(usize::try_from(bytes).ok()?)?;
            }
            kind::LIST | kind::SET => {
                let (len, of) = self.list()?;
                self.skip_many(len, of, deepest)?;
            }
            kind::MAP => {
                let len = usize::try_from(self.number()?).ok()?;
                let kinds = if len > 0 { self.byte()? } else { 0 };
                for _ in 0..len.min(self.rest.len() + 1) {
                    self.skip_one(kinds >> 4, deepest)?;
                    self.skip_one(kinds & 0x0f, deepest)?;
                }
            }
            kind::STRUCT => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        kind::STOP => break,
                        other => self.skip(other, deepest)?,
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn skip_many(&mut self, len: usize, of: u8, deepest: usize) -> Option<()> {
        if len > self.rest.len() {
            return None;
        }
        (0..len).try_for_each(|_| self.skip_one(of, deepest))
    }

    /// Skips an element of a list or map, where a boolean takes a byte.
    fn skip_one(&mut self, of: u8, deepest: usize) -> Option<()> {
        self.skip(if matches!(of, kind::TRUE | kind::FALSE) { kind::BYTE } else { of }, deepest)
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn pass(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a footer whose elements have these numbers of children.
    fn footer(children: &[i64]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc];
        let number = |mut number: u64, bytes: &mut Vec<u8>| {
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        };
        number(children.len() as u64, &mut bytes);
        for &children in children {
            // The name, and the number of children.
            bytes.extend([0x48, 1, b'x', 0x15]);
            number((children << 1 ^ children >> 63) as u64, &mut bytes);
            // A logical type: a nested structure.
            bytes.extend([0x5c, 0x1c, 0x11, 0x12, 0, 0, 0]);
        }
        bytes
    }

    #[test]
    fn a_valid_schema_tree_is_accepted() {
        assert_eq!(check_schema(&footer(&[2, 0, 0])), Ok(()));
        assert_eq!(check_schema(&footer(&[2, 1, 0, 3, 0, 0, 0])), Ok(()));
        assert_eq!(check_schema(&footer(&[0])), Ok(()));
        let mut deep = vec![1; DEEPEST];
        deep.push(0);
        assert_eq!(check_schema(&footer(&deep)), Ok(()));
        deep.insert(0, 1);
        assert!(check_schema(&footer(&deep)).is_err_and(|reason| reason.contains("deep")));
        // Wide but not deep.
        let wide: Vec<i64> = [500].into_iter().chain([1, 0].repeat(500)).collect();
        assert_eq!(check_schema(&footer(&wide)), Ok(()));
    }

    #[test]
    fn missing_children_are_refused() {
        for wrong in [&[3, 0, 0][..], &[1], &[2, 1, 0], &[i64::from(i32::MAX), 0], &[1 << 32, 0], &[2, 2, 0, 0]] {
            let refused = check_schema(&footer(wrong));
            assert!(
                refused.as_ref().is_err_and(|reason| reason.contains("elements follow it")),
                "{wrong:?}: {refused:?}"
            );
        }
        assert!(check_schema(&footer(&[1, -1])).is_err_and(|reason| reason.contains("-1 children")));
    }

    #[test]
    fn truncated_schemas_are_refused() {
        let whole = footer(&[2, 1, 0, 0]);
        for end in 0..whole.len() {
            assert!(check_schema(&whole[..end]).is_err(), "{end}");
        }
        assert!(
            check_schema(&[0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err(),
            "more elements than bytes"
        );
        assert!(check_schema(&[0xff; 100]).is_err());
    }
}
