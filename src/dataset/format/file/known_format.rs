//! Formats that are recognized by their first bytes, so that no reader mistakes one for another.

use super::masked_checksum::masked;

/// The number of bytes at the start of a file that [`foreign`] needs.
pub(crate) const SIGNATURE_BYTES: usize = 512;

/// The first bytes, the name of the format, and what to do with such a file.
const SIGNATURES: &[(&[u8], &str, &str)] = &[
    (b"\x28\xb5\x2f\xfd", "compressed with Zstandard", DECOMPRESS),
    (b"BZh91AY&SY", "compressed with bzip2", DECOMPRESS),
    (b"\xfd7zXZ\0", "compressed with xz", DECOMPRESS),
    (b"\x04\x22\x4d\x18", "compressed with LZ4", DECOMPRESS),
    (b"PK\x03\x04", "a zip archive", "read .npz with NpzDataset and .pt with torch.load; unpack others first"),
    (b"\x93NUMPY", "a .npy file", "read it with NpyDataset, or tokens with TokensDataset"),
    (b"PAR1", "a Parquet file", "read it with ParquetDataset"),
    (b"ARROW1\0\0", "an Arrow file", "read it with ArrowDataset"),
    (b"FEA1", "a Feather 1 file", "write it again as Feather 2 or Parquet"),
    (b"MMIDIDX\0\0", "a Megatron index", "keep it as name.idx next to name.bin, and read it with TokensDataset"),
    (b"TNTIDX\0\0", "an old Megatron index", "convert it with Megatron's tools"),
    (b"\x88\xd8\x34\x01", "an llm.c token file", "read it with TokensDataset"),
    (b"\xa1\xd9\x34\x01", "an llm.c token file", "read it with TokensDataset"),
    (b"\x8a\xd8\x34\x01", "an llm.c evaluation file", "it contains more than plain tokens or samples of one size"),
    (b"\xc6\xd7\x34\x01", "an llm.c checkpoint", "it holds a model, not data"),
    (b"GGUF", "a GGUF file", "it holds a model, not data"),
    (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", "a torch.save file", PICKLE),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "read it with h5py, and save the arrays as .npy"),
    (b"CDF\x01", "a netCDF file", "read it with xarray, and save the arrays as .npy"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", IMAGE),
    (b"GIF87a", "a GIF image", IMAGE),
    (b"GIF89a", "a GIF image", IMAGE),
    (b"%PDF-", "a PDF file", "it holds neither samples nor tokens"),
    (b"SQLite format 3\0", "an SQLite database", "export its tables, to Parquet for instance"),
];

const DECOMPRESS: &str = "decompress it first";
const PICKLE: &str = "load it with torch.load or pickle, and save the arrays as .npy";
const IMAGE: &str = "read images with ImageFolderDataset or ImageField";

/// Returns what is wrong with a file that begins with `start` and is read as something else; `None` if no other format
/// is recognized.
///
/// `own` is a prefix of the name of the reader's own format, which is never reported; "" if it has no signature.
pub(crate) fn foreign(start: &[u8], own: &str) -> Option<String> {
    let signed =
        SIGNATURES.iter().find(|(signature, ..)| start.starts_with(signature)).map(|&(_, name, to_do)| (name, to_do));
    let (name, to_do) = signed.or_else(|| structured(start))?;
    (own.is_empty() || !name.starts_with(own)).then(|| format!("the file is {name}; {to_do}"))
}

/// True if `start` is the beginning of a longer signature.
pub(crate) fn begins_signature(start: &[u8]) -> bool {
    SIGNATURES.iter().any(|(signature, ..)| start.len() < signature.len() && signature.starts_with(start))
}

/// [`foreign`] for a file that is read as text.
pub(crate) fn foreign_to_text(start: &[u8]) -> Option<String> {
    // Signatures that consist of letters may also begin a text.
    let is_binary = start.iter().any(|&byte| byte < b'\t');
    is_binary.then(|| foreign(start, "")).flatten()
}

/// Recognizes formats with short signatures by further bytes.
fn structured(start: &[u8]) -> Option<(&'static str, &'static str)> {
    let number = |at: usize| Some(u64::from_le_bytes(start.get(at..at + 8)?.try_into().ok()?));
    match start {
        // The method is deflate, and no reserved flag is set.
        [0x1f, 0x8b, 8, flags, ..] if flags & 0xe0 == 0 => return Some(("compressed with gzip", DECOMPRESS)),
        [0xff, 0xd8, 0xff, marker, ..] if *marker >= 0xc0 && *marker != 0xff => return Some(("a JPEG image", IMAGE)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => return Some(("a WebP image", IMAGE)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => {
            return Some(("a WAV file", "decode it first, and save the samples as .npy"));
        }
        // Pickle protocol 4 or 5, and the length of the first frame.
        [0x80, 4 | 5, 0x95, ..] if number(3).is_some_and(|frame| frame < 1 << 40) => return Some(("a pickle", PICKLE)),
        _ => {}
    }
    if start.get(257..262) == Some(b"ustar") {
        return Some(("a tar archive", "read it with TarDataset"));
    }
    let length = number(0)?;
    if (2..100 << 20).contains(&length) && matches!(start.get(8..10), Some(b"{\"" | b"{ " | b"{}")) {
        return Some(("a safetensors file", "read it with SafetensorsDataset"));
    }
    let checksum = u32::from_le_bytes(start.get(8..12)?.try_into().ok()?);
    (checksum == masked(&start[..8])).then_some(("a TFRecord file", "read it with TFRecordDataset"))
}

/// True if these bytes look like text: multi-byte tokens are not all printable.
pub(crate) fn is_text(start: &[u8]) -> bool {
    start.len() >= 64 && start.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llm_c_numbers_are_those_of_its_sources() {
        for (magic, name) in [
            (20_240_520_i32, "an llm.c token file"),
            (20_240_801, "an llm.c token file"),
            (20_240_522, "an llm.c evaluation file"),
            (20_240_326, "an llm.c checkpoint"),
        ] {
            assert!(foreign(&magic.to_le_bytes(), "").unwrap().contains(name), "{magic}");
        }
    }

    #[test]
    fn short_or_plain_bytes_are_not_recognized() {
        for start in [b"".as_slice(), b"P", b"\x1f\x8b", &[0; 512], &[255; 512], &[7, 0, 9, 0]] {
            assert_eq!(foreign(start, ""), None, "{start:?}");
        }
        assert!(!is_text(b"short"));
        assert!(is_text(&[b'x'; 64]));
    }

    #[test]
    fn a_format_does_not_name_itself() {
        assert_eq!(foreign(b"PAR1", "a Parquet file"), None);
        assert!(foreign(b"PAR1", "a .npy file").is_some());
    }
}
