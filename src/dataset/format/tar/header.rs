//! [`TarHeader`]: one header block of a tar archive.
//!
//! Sources: POSIX.1-2008 (`pax`, the ustar interchange format), GNU tar's manual ("Basic Tar Format", "GNU Extensions").

/// Archives are made of blocks of this many bytes.
pub(crate) const BLOCK: usize = 512;

/// The contents of a header block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TarHeader {
    pub(super) kind: TarKind,
    /// The name in the header; an extended header before it may override it.
    pub(super) name: Vec<u8>,
    /// The size of the data after the header, in bytes, without the padding to whole blocks.
    pub(super) bytes: u64,
}

/// The kind of member that a header begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TarKind {
    /// A regular file.
    File,
    /// A link, folder, device or pipe: no data follows the header, whatever its size field says.
    Bare,
    /// Anything else with data, which does not belong to a sample.
    Other,
    /// GNU's long name of the member that follows.
    LongName,
    /// GNU's long link target, which does not affect the member that follows.
    LongLink,
    /// Pax records for the member that follows.
    Pax,
    /// Pax records for all members that follow.
    GlobalPax,
    /// GNU's old sparse file; `is_extended` if further blocks of its map follow the header.
    Sparse { is_extended: bool },
}

impl TarHeader {
    /// Parses the header in `block`.
    ///
    /// # Errors
    /// Why it is not a valid header.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Self, String> {
        let stored = number(&block[148..156]).map_err(|reason| format!("the checksum is {reason}"))?;
        let (unsigned, signed) = checksums(block);
        if stored != unsigned && i64::try_from(stored) != Ok(signed) {
            return Err(format!("the checksum of this header is {unsigned}, but it declares {stored}"));
        }
        let bytes = number(&block[124..136]).map_err(|reason| format!("the size is {reason}"))?;
        let mut name = text(&block[..100]).to_vec();
        // GNU's own format stores other data in place of the prefix.
        let prefix = if &block[257..263] == b"ustar\0" { text(&block[345..500]) } else { b"" };
        if !prefix.is_empty() {
            name = [prefix, b"/", &name].concat();
        }
        let kind = match block[156] {
            // Before POSIX, a folder was a file whose name ends in a slash.
            0 if name.ends_with(b"/") => TarKind::Bare,
            b'0' | b'7' | 0 => TarKind::File,
            b'1'..=b'6' => TarKind::Bare,
            b'L' => TarKind::LongName,
            b'K' => TarKind::LongLink,
            b'x' | b'X' => TarKind::Pax,
            b'g' => TarKind::GlobalPax,
            b'S' => TarKind::Sparse { is_extended: block[482] != 0 },
            _ => TarKind::Other,
        };
        Ok(Self { kind, name, bytes: if kind == TarKind::Bare { 0 } else { bytes } })
    }
}

/// Returns the sum of all bytes, with the checksum field taken as spaces: of unsigned bytes, as the standard requires,
/// and of signed bytes, as some old programs computed it.
pub(super) fn checksums(block: &[u8; BLOCK]) -> (u64, i64) {
    let spaces = 8 * u32::from(b' ');
    // Summing the whole block first compiles to a few instructions.
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    let negative = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte >> 7)).sum::<u32>();
    let unsigned = sum(block) - sum(&block[148..156]) + spaces;
    let negative = negative(block) - negative(&block[148..156]);
    (u64::from(unsigned), i64::from(unsigned) - 256 * i64::from(negative))
}

/// The bytes before the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Parses a number field: octal digits, or GNU's binary form if the first bit is set. At most 2^63 - 1.
fn number(field: &[u8]) -> Result<u64, String> {
    let too_large = || "larger than any file can be".to_owned();
    if field[0] & 0x80 != 0 {
        if field[0] & 0x40 != 0 {
            return Err("negative".into());
        }
        let mut digits = std::iter::once(field[0] & 0x3f).chain(field[1..].iter().copied());
        let value = digits.try_fold(0_u64, |value, digit| value.checked_mul(256)?.checked_add(u64::from(digit)));
        return value.filter(|&value| i64::try_from(value).is_ok()).ok_or_else(too_large);
    }
    let digits = text(field).trim_ascii();
    let mut value = 0_u64;
    for &digit in digits {
        if !(b'0'..=b'7').contains(&digit) {
            return Err(format!("`{}`, which is not an octal number", digits.escape_ascii()));
        }
        value = value * 8 + u64::from(digit - b'0');
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(change: impl FnOnce(&mut [u8; BLOCK])) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..5].copy_from_slice(b"a.jpg");
        block[124..136].copy_from_slice(b"00000000017\0");
        block[156] = b'0';
        block[257..265].copy_from_slice(b"ustar\x0000");
        change(&mut block);
        let sum = format!("{:06o}\0 ", checksums(&block).0);
        block[148..156].copy_from_slice(sum.as_bytes());
        block
    }

    fn parse(change: impl FnOnce(&mut [u8; BLOCK])) -> Result<TarHeader, String> {
        TarHeader::parse(&block(change))
    }

    #[test]
    fn sizes_are_octal_or_binary_up_to_the_file_limit() {
        let size = |field: &[u8; 12]| parse(|block| block[124..136].copy_from_slice(field)).map(|header| header.bytes);
        assert_eq!(size(b"00000000017\0"), Ok(15));
        assert_eq!(size(b"777777777777"), Ok((1 << 36) - 1));
        assert_eq!(size(b"      17    "), Ok(15));
        assert_eq!(size(b"17\0garbage!!"), Ok(15));
        assert_eq!(size(&[0; 12]), Ok(0));
        assert_eq!(size(b"\x80\0\0\0\0\0\0\x20\0\0\0\x01"), Ok((1 << 37) + 1));
        assert_eq!(size(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"), Ok(i64::MAX as u64));
        for wrong in [
            b"\x80\0\0\0\x80\0\0\0\0\0\0\0",
            b"\x80\0\0\x01\0\0\0\0\0\0\0\0",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"00000000018\0",
            b"-0000000001\0",
            b"0x000000001\0",
        ] {
            assert!(size(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn the_name_prefix_is_used_only_in_posix_archives() {
        let name = |magic: &[u8; 8]| {
            let header = parse(|block| {
                block[257..265].copy_from_slice(magic);
                block[345..348].copy_from_slice(b"dir");
            });
            header.unwrap().name
        };
        assert_eq!(name(b"ustar\x0000"), b"dir/a.jpg");
        assert_eq!(name(b"ustar  \0"), b"a.jpg");
        assert_eq!(name(&[0; 8]), b"a.jpg");
    }

    #[test]
    fn signed_and_unsigned_checksums_are_accepted() {
        let mut signed = block(|block| block[0] = 0xe9);
        let sum = format!("{:06o}\0 ", checksums(&signed).1);
        signed[148..156].copy_from_slice(sum.as_bytes());
        assert_eq!(TarHeader::parse(&signed).unwrap().name, b"\xe9.jpg");
        let right = block(|_| {});
        for place in 0..BLOCK {
            for bit in 0..8 {
                let mut wrong = right;
                wrong[place] ^= 1 << bit;
                // A zero before the checksum's digits may become a space, and bytes after them are ignored.
                let header = TarHeader::parse(&wrong);
                let is_harmless = (148..156).contains(&place) && header == TarHeader::parse(&right);
                assert!(header.is_err() || is_harmless, "bit {bit} of byte {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_headers_do_not_panic(bytes in prop::collection::vec(any::<u8>(), BLOCK), is_summed in any::<bool>()) {
            let mut block: [u8; BLOCK] = bytes.try_into().unwrap();
            if is_summed {
                let sum = format!("{:06o}\0 ", checksums(&block).0);
                block[148..156].copy_from_slice(sum.as_bytes());
            }
            let header = TarHeader::parse(&block);
            prop_assert!(header.is_ok_and(|header| header.bytes <= i64::MAX as u64) || !is_summed || number(&block[124..136]).is_err());
        }
    }
}
