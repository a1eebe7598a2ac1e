//! [`PaxRecords`]: what a pax extended header specifies for the member that follows.

/// The records of an extended header that affect where a member is stored and what it is called.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct PaxRecords {
    pub(super) path: Option<Vec<u8>>,
    pub(super) bytes: Option<u64>,
    /// It is a sparse file of GNU tar, whose stored bytes are not its contents.
    pub(super) is_sparse: bool,
}

impl PaxRecords {
    /// Parses the records in `text`: each is `length key=value\n`, where the length counts the whole record.
    ///
    /// # Errors
    /// The offset in `text`, and the reason.
    pub(super) fn parse(text: &[u8]) -> Result<Self, (usize, String)> {
        let mut records = Self::default();
        let mut at = 0;
        // Some writers pad with NULs.
        while let Some(rest) = text.get(at..).filter(|rest| rest.first().is_some_and(|&byte| byte != 0)) {
            let (length, pair) = split(rest).ok_or_else(|| (at, "invalid pax record".to_owned()))?;
            let equals = pair.iter().position(|&byte| byte == b'=');
            let (key, value) = pair.split_at(equals.ok_or_else(|| (at, "a pax record has no `=`".to_owned()))?);
            let value = &value[1..];
            match key {
                b"path" if value.contains(&0) => return Err((at, "a path contains a NUL byte".into())),
                // An empty value cancels an earlier one.
                b"path" => records.path = Some(value.to_vec()).filter(|path| !path.is_empty()),
                b"size" if value.is_empty() => records.bytes = None,
                b"size" => {
                    records.bytes = Some(decimal(value).ok_or_else(|| (at, "the size is not a number".to_owned()))?)
                }
                _ => records.is_sparse |= key.starts_with(b"GNU.sparse."),
            }
            at += length;
        }
        Ok(records)
    }
}

/// Returns the length of the first record, and its text between the length field and the newline.
fn split(rest: &[u8]) -> Option<(usize, &[u8])> {
    let space = rest.iter().take(20).position(|&byte| byte == b' ')?;
    let length = usize::try_from(decimal(&rest[..space])?).ok()?;
    let record = rest.get(..length)?;
    Some((length, record.strip_suffix(b"\n")?.get(space + 1..)?))
}

/// Parses a decimal number of at most 2^63 - 1.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    i64::try_from(value).is_ok().then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn path_and_size_are_found_among_other_records() {
        let text = b"30 mtime=1350244992.023960108\n13 path=a\xff=b\n16 size=1048576\n\0\0\0";
        let expected = PaxRecords { path: Some(b"a\xff=b".to_vec()), bytes: Some(1 << 20), is_sparse: false };
        assert_eq!(PaxRecords::parse(text), Ok(expected));
        assert_eq!(PaxRecords::parse(b""), Ok(PaxRecords::default()));
        assert!(PaxRecords::parse(b"22 GNU.sparse.major=1\n").unwrap().is_sparse);
    }

    #[test]
    fn invalid_records_are_named_by_position() {
        let wrong: [&[u8]; 9] = [
            b"x",
            b"0 a=b\n",
            b"99 path=a\n",
            b"10 path=abc",
            b"8 path\n\n",
            b"12 path=a\0b\n",
            b"9 size=x\n",
            b"-5 a=b\n",
            b"28 size=9223372036854775808\n",
        ];
        for text in wrong {
            assert!(PaxRecords::parse(text).is_err(), "{}", text.escape_ascii());
        }
        assert_eq!(PaxRecords::parse(b"10 path=a\n\nxx").unwrap_err().0, 10);
    }

    proptest! {
        #[test]
        fn arbitrary_records_terminate_without_panic(text in "[0-9]{0,3} ?(path|size|GNU.sparse.)?=?[0-9\\PC]{0,20}\n?([0-9]{1,2} [a-z=\n]{0,9}){0,3}") {
            let _ = PaxRecords::parse(text.as_bytes());
        }

        #[test]
        fn random_bytes_do_not_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PaxRecords::parse(&text);
        }
    }
}
