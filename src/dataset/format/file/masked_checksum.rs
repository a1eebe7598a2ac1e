//! [`masked`]: the checksum of TFRecord files, by which they are also recognized.

/// The masked checksum of the format: CRC32C, rotated and offset, so that the checksum of data that contains checksums
/// is not predictable.
pub(crate) fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
