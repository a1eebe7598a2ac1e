//! [`Szip`]: HDF5's szip filter, the lossless compression of CCSDS 121.0-B.
//!
//! Sources: CCSDS 121.0-B-3, "Lossless Data Compression"; `H5Zszip.c` of HDF5 and `sz_compat.c` of libaec for HDF5's
//! use of it: elements of four and eight bytes are split into byte planes (first all first bytes), and lines are padded
//! with elements to whole blocks.

use serde_json::Value;

/// Bits of the option mask: elements are big-endian; differences between neighbors are coded instead of values.
const MOST_SIGNIFICANT_FIRST: u64 = 16;
const NEAREST_NEIGHBOR: u64 = 32;

/// The code for a run of zero blocks that extends to the end of its segment.
const REST_OF_SEGMENT: usize = 5;
const SEGMENT: usize = 64;

/// The largest sum of a pair in the second-extension option, which codes blocks of small numbers.
const LARGEST_SUM: u32 = 12;

/// How the elements of an array are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Szip {
    /// The number of samples in a block.
    block: usize,
    /// The number of samples in a line, which starts with a reference sample.
    line: usize,
    /// The size of an element in bytes.
    element: usize,
    has_differences: bool,
    is_big: bool,
}

impl Szip {
    /// Reads the parameters of the HDF5 filter.
    pub(super) fn of(configuration: &Value) -> Result<Self, String> {
        let number = |name: &str| configuration.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (mask, block, line) = (number("mask"), number("pixels_per_block"), number("pixels_per_scanline"));
        let element = match number("bits_per_pixel") {
            bits @ (8 | 16 | 32 | 64) => bits as usize / 8,
            bits => {
                return Err(format!(
                    "codec szip: elements of {bits} bits are not supported, only of 8, 16, 32, and 64"
                ));
            }
        };
        if !(2..=64).contains(&block) || block % 2 == 1 || !(1..=1 << 20).contains(&line) {
            return Err(format!("codec szip: blocks of {block} and lines of {line} elements are not supported"));
        }
        let (has_differences, is_big) = (mask & NEAREST_NEIGHBOR != 0, mask & MOST_SIGNIFICANT_FIRST != 0);
        Ok(Self { block: block as usize, line: line as usize, element, has_differences, is_big })
    }

    /// Decompresses elements into at most `most` bytes.
    pub(super) fn unpack(self, packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
        let (size, coded) = packed.split_first_chunk::<4>().ok_or("the data is truncated")?;
        let size = u32::from_le_bytes(*size) as usize;
        if size > most {
            return Err(format!("the header declares {size} bytes, but at most {most} are expected"));
        }
        // Elements of more than two bytes are coded byte by byte.
        let width = if self.element > 2 { 1 } else { self.element };
        let samples = self.samples(coded, size / width, if width == 2 { 16 } else { 8 })?;
        let bytes: Vec<u8> = match (width, self.is_big) {
            (2, true) => samples.iter().flat_map(|&sample| (sample as u16).to_be_bytes()).collect(),
            (2, false) => samples.iter().flat_map(|&sample| (sample as u16).to_le_bytes()).collect(),
            _ => samples.iter().map(|&sample| sample as u8).collect(),
        };
        if self.element <= 2 {
            return Ok(bytes);
        }
        let (count, mut elements) = (size / self.element, vec![0; size]);
        for (place, element) in elements.chunks_exact_mut(self.element).enumerate() {
            for (number, byte) in element.iter_mut().enumerate() {
                *byte = bytes[number * count + place];
            }
        }
        Ok(elements)
    }

    /// Decodes `count` samples of `bits` bits, without the padding of lines.
    fn samples(self, coded: &[u8], count: usize, bits: u32) -> Result<Vec<u32>, String> {
        let padded = self.line.div_ceil(self.block) * self.block;
        let mut input = Bits::new(coded);
        let (mut all, mut line) = (Vec::new(), Vec::with_capacity(padded));
        while all.len() < count {
            let wanted = self.line.min(count - all.len());
            // The last line ends after its last sample only if lines are not padded.
            let until = if padded == self.line { wanted } else { padded };
            line.clear();
            while line.len() < until {
                self.block(&mut input, &mut line, padded, bits)?;
            }
            if self.has_differences {
                add_up(&mut line, u32::MAX >> (32 - bits));
            }
            all.extend_from_slice(&line[..wanted]);
        }
        Ok(all)
    }

    /// Decodes the next block, or run of zero blocks, of a line of `padded` samples.
    fn block(self, input: &mut Bits, line: &mut Vec<u32>, padded: usize, bits: u32) -> Result<(), String> {
        let damaged = || "a block is damaged".to_owned();
        let id_bits = if bits > 8 { 4 } else { 3 };
        let id = input.number(id_bits)?;
        if id == (1 << id_bits) - 1 {
            for _ in 0..self.block {
                line.push(input.number(bits)?);
            }
            return Ok(());
        }
        let is_pairs = id == 0 && input.number(1)? == 1;
        let begun = line.len();
        if self.has_differences && line.is_empty() {
            line.push(input.number(bits)?);
        }
        let end = begun + self.block;
        if id > 0 {
            let (low, first) = (id - 1, line.len());
            for _ in first..end {
                line.push(input.zeros()? << low);
            }
            for sample in &mut line[first..] {
                *sample = sample.wrapping_add(input.number(low)?);
            }
        } else if is_pairs {
            while line.len() < end {
                let (sum, second) = pair(input.zeros()?).ok_or_else(damaged)?;
                if (line.len() - begun).is_multiple_of(2) {
                    line.push(sum - second);
                }
                line.push(second);
            }
        } else {
            let (used, all) = (begun / self.block, padded / self.block);
            let blocks = match input.zeros()? as usize + 1 {
                REST_OF_SEGMENT => (all - used).min(SEGMENT - used % SEGMENT),
                blocks if blocks > REST_OF_SEGMENT => blocks - 1,
                blocks => blocks,
            };
            if blocks > all - used {
                return Err(damaged());
            }
            line.resize(begun + blocks * self.block, 0);
        }
        Ok(())
    }
}

/// Decodes a pair: its sum and its second sample. Pairs are numbered in the order of their sums.
fn pair(number: u32) -> Option<(u32, u32)> {
    let first_of = |sum: u32| sum * (sum + 1) / 2;
    let sum = (0..=LARGEST_SUM).rev().find(|&sum| first_of(sum) <= number)?;
    let second = number - first_of(sum);
    (second <= sum).then_some((sum, second))
}

/// Replaces the differences after the first of `samples` by samples of at most `most`.
fn add_up(samples: &mut [u32], most: u32) {
    let Some((first, differences)) = samples.split_first_mut() else { return };
    let mut value = *first & most;
    for difference in differences {
        let (mapped, is_upper) = (*difference, value > most / 2);
        // Signs alternate while both stay in range; larger codes are the new sample's distance from the nearer end.
        let room = if is_upper { most - value } else { value };
        value = if mapped.div_ceil(2) <= room {
            if mapped % 2 == 1 { value.wrapping_sub(mapped / 2 + 1) } else { value.wrapping_add(mapped / 2) }
        } else if is_upper {
            most.wrapping_sub(mapped)
        } else {
            mapped
        } & most;
        *difference = value;
    }
}

/// Reads bits, the most significant bit of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    /// The number of bits read so far.
    place: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, place: 0 }
    }

    /// Returns the next bits (at least 57), left-aligned; zeros after the end.
    fn next(&self) -> u64 {
        let rest = self.bytes.get(self.place / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(word) => u64::from_be_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(word)
            }
        };
        word << (self.place % 8)
    }

    fn advance(&mut self, bits: usize) -> Result<(), String> {
        self.place += bits;
        if self.place > self.bytes.len() * 8 { Err("the data is truncated".into()) } else { Ok(()) }
    }

    /// Reads a number of `bits` bits, at most 16.
    fn number(&mut self, bits: u32) -> Result<u32, String> {
        let number = (self.next() >> 32 >> (32 - bits)) as u32;
        self.advance(bits as usize)?;
        Ok(number)
    }

    /// Counts the zeros before the next 1 bit, and consumes both.
    fn zeros(&mut self) -> Result<u32, String> {
        let mut zeros = 0;
        loop {
            let more = self.next().leading_zeros();
            if more < 57 {
                self.advance(more as usize + 1)?;
                return Ok(zeros + more);
            }
            zeros += 57;
            self.advance(57)?;
        }
    }
}
