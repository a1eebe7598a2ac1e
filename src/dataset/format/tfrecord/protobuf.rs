//! The wire format of protocol buffers, as much of it as `tf.train.Example` needs.

/// The deepest nesting of groups that is accepted; they are deprecated, and only skipped.
const DEEPEST_GROUP: usize = 32;

/// A message, whose fields are read one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Message<'a> {
    rest: &'a [u8],
}

/// The encoded value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64,
    Bytes(&'a [u8]),
    Group,
}

/// Why a message is invalid.
pub(super) type Malformed = &'static str;

const TRUNCATED: Malformed = "a message ends inside a value";

impl<'a> Message<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number and the value of the next field; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (field, kind) = self.tag()?;
        let value = match kind {
            4 => return Err("unexpected end of a group"),
            3 => {
                self.skip_group(field)?;
                Wire::Group
            }
            kind => self.value(kind)?,
        };
        Ok(Some((field, value)))
    }

    fn tag(&mut self) -> Result<(u32, u8), Malformed> {
        let tag = u32::try_from(self.varint()?).map_err(|_| "a tag has more than 32 bits")?;
        match tag >> 3 {
            0 => Err("a field has the number 0"),
            field => Ok((field, (tag & 7) as u8)),
        }
    }

    fn value(&mut self, kind: u8) -> Result<Wire<'a>, Malformed> {
        Ok(match kind {
            0 => Wire::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Wire::Fixed64
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| TRUNCATED)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(self.take(4)?.try_into().expect("four bytes")),
            _ => return Err("unknown wire type"),
        })
    }

    /// Skips the fields of a group, which ends with a tag of the same number.
    fn skip_group(&mut self, field: u32) -> Result<(), Malformed> {
        let mut open = vec![field];
        while let Some(&innermost) = open.last() {
            let (field, kind) = self.tag()?;
            match kind {
                3 if open.len() >= DEEPEST_GROUP => return Err("groups are nested too deeply"),
                3 => open.push(field),
                4 if field == innermost => drop(open.pop()),
                4 => return Err("a group is ended by a different one"),
                kind => drop(self.value(kind)?),
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let (value, length) = varint(self.rest)?;
        self.rest = &self.rest[length..];
        Ok(value)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Returns the varint at the start of `bytes`, and its length in bytes.
pub(super) fn varint(bytes: &[u8]) -> Result<(u64, usize), Malformed> {
    let mut value = 0;
    for (place, &byte) in bytes.iter().take(10).enumerate() {
        // Bits beyond 64 are dropped, as in Google's own readers.
        value |= u64::from(byte & 0x7f).checked_shl(7 * place as u32).unwrap_or(0);
        if byte < 0x80 {
            return Ok((value, place + 1));
        }
    }
    Err(if bytes.len() < 10 { TRUNCATED } else { "a number has more than ten bytes" })
}
