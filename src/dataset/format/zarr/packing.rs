//! [`Packing`]: a compressor, filter, or checksum of a chunk's bytes.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use zune_inflate::{DeflateDecoder, DeflateOptions};

use super::blosc::{unblosc, unshuffle};
use super::szip::Szip;

/// zune-inflate writes whole words past the end, and grows its buffer if fewer bytes than this are left.
const INFLATE_MARGIN: usize = 1024;

/// A bytes-to-bytes codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Blosc,
    Crc32c,
    Fletcher32,
    Gzip,
    Lz4,
    Lzf,
    /// The numcodecs filter, with the element size in bytes.
    Shuffle(usize),
    /// The HDF5 filter.
    Szip(Szip),
    Zlib,
    Zstd,
}

impl Packing {
    pub(super) fn named(name: &str, configuration: &serde_json::Value) -> Result<Self, String> {
        Ok(match name.strip_prefix("numcodecs.").unwrap_or(name) {
            "blosc" => Self::Blosc,
            "crc32c" => Self::Crc32c,
            "fletcher32" => Self::Fletcher32,
            "gzip" => Self::Gzip,
            "lz4" => Self::Lz4,
            "lzf" => Self::Lzf,
            "shuffle" => {
                let size = configuration.get("elementsize").map_or(Some(4), serde_json::Value::as_u64);
                let size = size.and_then(|size| usize::try_from(size).ok()).filter(|&size| size > 0);
                Self::Shuffle(size.ok_or("codec shuffle: expected a positive elementsize")?)
            }
            "szip" => Self::Szip(Szip::of(configuration)?),
            "zlib" => Self::Zlib,
            "zstd" => Self::Zstd,
            _ => {
                return Err(format!(
                    "codec {name:?} is not supported: expected blosc, crc32c, fletcher32, gzip, lz4, lzf, shuffle, \
                     zlib or zstd; write the array with one of these"
                ));
            }
        })
    }

    /// Returns the codec's name in Zarr metadata.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Blosc => "blosc",
            Self::Crc32c => "crc32c",
            Self::Fletcher32 => "fletcher32",
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Lzf => "lzf",
            Self::Shuffle(_) => "shuffle",
            Self::Szip(_) => "szip",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// Decodes `packed` into at most `most` bytes.
    pub(super) fn unpack(self, packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
        match self {
            Self::Blosc => unblosc(packed, most),
            Self::Crc32c => checked(packed, crc32c::crc32c),
            Self::Fletcher32 => checked(packed, fletcher32),
            Self::Gzip => read_at_most(MultiGzDecoder::new(packed), most),
            Self::Lz4 => {
                let (size, block) = packed.split_first_chunk::<4>().ok_or("the data is truncated")?;
                let size = u32::from_le_bytes(*size) as usize;
                if size > most {
                    return Err(format!("the header declares {size} bytes, but at most {most} are expected"));
                }
                unlz4(block, size)
            }
            Self::Lzf => unlzf(packed, most),
            Self::Shuffle(size) => {
                let mut plain = Vec::with_capacity(packed.len());
                unshuffle(packed, size, &mut plain);
                Ok(plain)
            }
            Self::Szip(szip) => szip.unpack(packed, most),
            Self::Zlib => unzlib(packed, most),
            Self::Zstd => unzstd(packed, most),
        }
    }
}

/// Returns the bytes before a little-endian checksum, which must match `sum`.
fn checked(packed: &[u8], sum: impl Fn(&[u8]) -> u32) -> Result<Vec<u8>, String> {
    let (bytes, stored) = packed.split_last_chunk::<4>().ok_or("the data is truncated")?;
    let (stored, found) = (u32::from_le_bytes(*stored), sum(bytes));
    if stored != found {
        return Err(format!("the checksum is {found:08x}, but {stored:08x} is stored"));
    }
    Ok(bytes.to_vec())
}

/// Computes the checksum of HDF5's `fletcher32` filter: over big-endian 16-bit words, the last of which may be one
/// byte.
fn fletcher32(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let (mut first, mut second) = (0_u32, 0_u32);
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    // After more than 360 words, the sums could overflow.
    for part in words.chunks(360) {
        for word in part {
            first += u32::from(u16::from_be_bytes(*word));
            second += first;
        }
        (first, second) = (fold(first), fold(second));
    }
    if let [byte] = rest {
        first += u32::from(*byte) << 8;
        second += first;
        (first, second) = (fold(first), fold(second));
    }
    fold(second) << 16 | fold(first)
}

/// Decompresses an LZF block into at most `most` bytes.
///
/// Source: `lzf_d.c` of LibLZF. h5py brings this format to HDF5.
fn unlzf(packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let damaged = || "a block of lzf is damaged".to_owned();
    let mut out = room(most)?;
    let mut rest = packed;
    while let [control, after @ ..] = rest {
        let control = usize::from(*control);
        rest = after;
        if control < 32 {
            let literal = rest.get(..=control).filter(|literal| literal.len() <= most - out.len());
            out.extend_from_slice(literal.ok_or_else(damaged)?);
            rest = &rest[control + 1..];
            continue;
        }
        let mut length = 2 + (control >> 5);
        if length == 9 {
            let [more, after @ ..] = rest else { return Err(damaged()) };
            (length, rest) = (length + usize::from(*more), after);
        }
        let [low, after @ ..] = rest else { return Err(damaged()) };
        rest = after;
        let distance = ((control & 31) << 8) + usize::from(*low) + 1;
        if distance > out.len() || length > most - out.len() {
            return Err(damaged());
        }
        let start = out.len() - distance;
        for at in start..start + length {
            out.push(out[at]);
        }
    }
    Ok(out)
}

/// Decompresses Zstandard frames into at most `most` bytes.
pub(super) fn unzstd(packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut plain = room(most)?;
    let mut decoder = zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?;
    decoder.decompress_to_buffer(packed, &mut plain).map_err(|error| error.to_string())?;
    Ok(plain)
}

/// Decompresses an LZ4 block into at most `most` bytes.
pub(super) fn unlz4(packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    // LZ4 expands at most 255 times, so that a wrong size can't make us allocate much.
    let most = most.min(packed.len().saturating_mul(255) + 64);
    let mut plain = room(most)?;
    plain.resize(most, 0);
    let size = lz4_flex::block::decompress_into(packed, &mut plain).map_err(|error| error.to_string())?;
    plain.truncate(size);
    Ok(plain)
}

/// Decompresses a zlib stream into at most `most` bytes.
pub(super) fn unzlib(packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    // zune-inflate needs no window apart from its output, and takes less than half the time of flate2.
    let hint = most.saturating_add(INFLATE_MARGIN);
    // It aborts the process if allocation fails, so try the allocation first.
    drop(room(hint)?);
    let options = DeflateOptions::default().set_limit(most).set_size_hint(hint);
    let plain = DeflateDecoder::new_with_options(packed, options).decode_zlib();
    let plain = plain.map_err(|error| format!("{:?}", error.error).trim_end().to_owned())?;
    if plain.len() > most {
        return Err(too_long(most));
    }
    Ok(plain)
}

fn read_at_most(reader: impl Read, most: usize) -> Result<Vec<u8>, String> {
    let mut plain = room(most)?;
    reader.take(most as u64 + 1).read_to_end(&mut plain).map_err(|error| error.to_string())?;
    if plain.len() > most {
        return Err(too_long(most));
    }
    Ok(plain)
}

fn too_long(most: usize) -> String {
    format!("it holds more than the {most} bytes that are expected")
}

fn room(bytes: usize) -> Result<Vec<u8>, String> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| format!("no memory for {bytes} bytes"))?;
    Ok(room)
}
