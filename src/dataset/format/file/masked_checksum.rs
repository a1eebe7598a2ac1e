//! [`masked`]: the checksum of TFRecord files, by which such a file is also recognized.

/// The checksum as the format has it: CRC32C, turned round and moved, so that the checksum of data with checksums in it is
/// not predictable.
pub(in crate::dataset::format) fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
