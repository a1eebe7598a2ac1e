//! Blosc: the container of compressed blocks that c-blosc 1 writes.
//!
//! Source: `README_CHUNK_FORMAT.rst` of c-blosc.

use super::packing::{unlz4, unzlib, unzstd};

const HEADER: usize = 16;

/// Elements wider than this many bytes are not split, and neither are blocks with fewer elements than the next number.
const MOST_SPLITS: usize = 16;
const LEAST_ELEMENTS: usize = 128;

/// The longest BloscLZ match distance that has a short form.
const SHORT_DISTANCE: usize = 8191;

/// How the elements of a block are arranged.
#[derive(Clone, Copy)]
enum Shuffle {
    None,
    Bytes,
    Bits,
}

/// Decompresses `packed` into at most `most` bytes.
pub(super) fn unblosc(packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let cut = || "the data is truncated".to_owned();
    let header = packed.get(..HEADER).ok_or_else(cut)?;
    let number = |at: usize| word(packed, at).ok_or_else(cut);
    let (flags, size) = (header[2], usize::from(header[3]));
    let (bytes, block, packed_bytes) = (number(4)?, number(8)?, number(12)?);
    if bytes > most {
        return Err(format!("the header declares {bytes} bytes, but at most {most} are expected"));
    }
    let packed = packed.get(..packed_bytes).ok_or_else(cut)?;
    if flags & 2 != 0 {
        return packed.get(HEADER..HEADER + bytes).map(<[u8]>::to_vec).ok_or_else(cut);
    }
    if bytes == 0 {
        return Ok(Vec::new());
    }
    if block == 0 || size == 0 {
        return Err("the header declares empty blocks or elements".into());
    }
    let shuffle = match (flags & 1 != 0, flags & 4 != 0) {
        (true, _) if size > 1 => Shuffle::Bytes,
        (_, true) => Shuffle::Bits,
        _ => Shuffle::None,
    };
    let block = block.min(bytes);
    let mut out = Vec::new();
    out.try_reserve_exact(bytes).map_err(|_| format!("no memory for {bytes} bytes"))?;
    let mut arranged = Vec::new();
    for (place, start) in (0..bytes).step_by(block).enumerate() {
        let length = block.min(bytes - start);
        let is_split = flags & 16 == 0 && size <= MOST_SPLITS && block / size >= LEAST_ELEMENTS && length == block;
        let parts = if is_split { size } else { 1 };
        let mut at = word(packed, HEADER + 4 * place).ok_or_else(cut)?;
        arranged.clear();
        for _ in 0..parts {
            let packed_part = word(packed, at).ok_or_else(cut)?;
            let part = packed.get(at + 4..).and_then(|rest| rest.get(..packed_part)).ok_or_else(cut)?;
            at += 4 + packed_part;
            let expected = length / parts;
            if packed_part == expected {
                arranged.extend_from_slice(part);
                continue;
            }
            let plain = match flags >> 5 {
                0 => unblosclz(part, expected)?,
                1 => unlz4(part, expected)?,
                3 => unzlib(part, expected)?,
                4 => unzstd(part, expected)?,
                2 => return Err("its blocks are compressed with snappy, which is not supported".into()),
                other => return Err(format!("its blocks are compressed with the unknown codec {other}")),
            };
            if plain.len() != expected {
                return Err(format!("block {place} has {} bytes, but {expected} are expected", plain.len()));
            }
            arranged.extend_from_slice(&plain);
        }
        // Split blocks are divided evenly only if `length` is a multiple of the number of parts.
        if arranged.len() != length {
            return Err(format!("block {place} has {} bytes, but {length} are expected", arranged.len()));
        }
        match shuffle {
            Shuffle::None => out.extend_from_slice(&arranged),
            Shuffle::Bytes => unshuffle(&arranged, size, &mut out),
            Shuffle::Bits => unshuffle_bits(&arranged, size, &mut out),
        }
    }
    Ok(out)
}

/// Returns the little-endian `u32` at byte `at`.
fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*word)).ok()
}

/// Appends elements of `size` bytes from byte planes (first the first bytes of all elements, then all second bytes, and
/// so on). Trailing bytes that do not fill an element are appended as they are.
pub(super) fn unshuffle(shuffled: &[u8], size: usize, out: &mut Vec<u8>) {
    let count = shuffled.len() / size;
    let start = out.len();
    out.resize(start + count * size, 0);
    let elements = &mut out[start..];
    match size {
        2 => unshuffle_sized::<2>(shuffled, count, elements),
        4 => unshuffle_sized::<4>(shuffled, count, elements),
        8 => unshuffle_sized::<8>(shuffled, count, elements),
        _ => {
            for (byte, plane) in shuffled.chunks_exact(count.max(1)).take(size).enumerate() {
                for (element, &value) in elements.chunks_exact_mut(size).zip(plane) {
                    element[byte] = value;
                }
            }
        }
    }
    out.extend_from_slice(&shuffled[count * size..]);
}

fn unshuffle_sized<const SIZE: usize>(shuffled: &[u8], count: usize, elements: &mut [u8]) {
    let planes: [&[u8]; SIZE] = std::array::from_fn(|byte| &shuffled[byte * count..(byte + 1) * count]);
    for (index, element) in elements.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
        for (byte, value) in element.iter_mut().enumerate() {
            *value = planes[byte][index];
        }
    }
}

/// Like [`unshuffle`], for bit planes. Writers leave blocks unshuffled whose number of elements is not a multiple of 8.
fn unshuffle_bits(shuffled: &[u8], size: usize, out: &mut Vec<u8>) {
    let count = shuffled.len() / size;
    if !count.is_multiple_of(8) {
        out.extend_from_slice(shuffled);
        return;
    }
    let start = out.len();
    out.resize(start + count * size, 0);
    let elements = &mut out[start..];
    for (bit, plane) in shuffled.chunks_exact((count / 8).max(1)).take(size * 8).enumerate() {
        for (eight, &bits) in elements.chunks_exact_mut(8 * size).zip(plane) {
            for (place, element) in eight.chunks_exact_mut(size).enumerate() {
                element[bit / 8] |= (bits >> place & 1) << (bit % 8);
            }
        }
    }
    out.extend_from_slice(&shuffled[count * size..]);
}

/// Decompresses a BloscLZ block of `expected` bytes.
fn unblosclz(packed: &[u8], expected: usize) -> Result<Vec<u8>, String> {
    let damaged = || "a block of blosclz is damaged".to_owned();
    let mut input = packed.iter().copied();
    let mut next = || input.next().ok_or_else(damaged);
    let mut out: Vec<u8> = Vec::with_capacity(expected);
    let mut control = usize::from(next()? & 31);
    loop {
        if control < 32 {
            for _ in 0..=control {
                out.push(next()?);
            }
        } else {
            let mut length = (control >> 5) - 1;
            let high = (control & 31) << 8;
            if length == 6 {
                loop {
                    let more = next()?;
                    length += usize::from(more);
                    if more != 255 {
                        break;
                    }
                }
            }
            let low = usize::from(next()?);
            let mut distance = high + low + 1;
            if low == 255 && high == 31 << 8 {
                distance = (usize::from(next()?) << 8) + usize::from(next()?) + SHORT_DISTANCE + 1;
            }
            length += 3;
            if distance > out.len() || length > expected - out.len() {
                return Err(damaged());
            }
            for _ in 0..length {
                out.push(out[out.len() - distance]);
            }
        }
        if out.len() > expected {
            return Err(damaged());
        }
        match next() {
            Ok(byte) => control = usize::from(byte),
            Err(_) => return Ok(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_planes_are_put_together() {
        for (size, count) in [(1, 8), (2, 16), (4, 64), (8, 8)] {
            let elements: Vec<u8> = (0..size * count).map(|place| (place * 37 % 251) as u8).collect();
            // Plane after plane: bit n of all elements.
            let mut planes = vec![0; size * count];
            for (number, element) in elements.chunks_exact(size).enumerate() {
                for bit in 0..size * 8 {
                    planes[bit * count / 8 + number / 8] |= (element[bit / 8] >> (bit % 8) & 1) << (number % 8);
                }
            }
            let mut out = vec![9];
            unshuffle_bits(&planes, size, &mut out);
            assert_eq!((out[0], &out[1..]), (9, &elements[..]), "{count} elements of {size} bytes");
        }
        let mut out = Vec::new();
        unshuffle_bits(&[1, 2, 3], 1, &mut out);
        assert_eq!(out, [1, 2, 3], "they were not shuffled");
    }

    #[test]
    fn matches_of_blosclz_are_near_or_far() {
        let mut packed = vec![1, b'a', b'b'];
        // A match of 9,000 bytes, two bytes back: 3 + 6 + 35 * 255 + 66.
        packed.push(7 << 5);
        packed.extend([255; 35]);
        packed.extend([66, 1]);
        packed.extend([3, b'w', b'x', b'y', b'z']);
        // Matches of three bytes: all 9,006 bytes back, 7,937 bytes back, and four.
        let [high, low] = (9_006_u16 - SHORT_DISTANCE as u16 - 1).to_be_bytes();
        packed.extend([1 << 5 | 31, 255, high, low]);
        packed.extend([1 << 5 | 31, 0]);
        packed.extend([1 << 5, 3]);
        let expected = [b"ab".repeat(4501), b"wxyzaba".to_vec()].concat();
        let copied: Vec<u8> = (0..3).map(|place| expected[expected.len() - 7937 + place]).collect();
        let expected = [expected, copied].concat();
        let copied: Vec<u8> = (0..3).map(|place| expected[expected.len() - 4 + place]).collect();
        let expected = [expected, copied].concat();
        assert!(unblosclz(&packed, expected.len()) == Ok(expected.clone()));
        assert!(unblosclz(&packed, expected.len() - 1).is_err());
    }
}
