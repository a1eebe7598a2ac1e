//! [`RoundTables`]: Feistel network rounds that are looked up instead of computed.

use super::feistel::{DOUBLE_ROUNDS, FeistelNetwork};

/// The result of every round of a [`FeistelNetwork`] for every possible half.
///
/// A half has about as many values as the square root of the length, so the tables for 10^6 indices nearly fit into the
/// L1 cache and those for 10^9 into L2, and a word costs eight look-ups instead of twenty multiplications. Several
/// words are computed at a time: each look-up waits for the previous one of its own word, never for another word.
///
/// Unlike in the network, the left half is not reduced modulo after every addition: the tables indexed by it repeat
/// beyond the modulus instead, as far as the sums of that round reach. The last look-up also returns the reduced left
/// half. That leaves two instructions per look-up.
#[derive(Clone, Debug)]
pub(super) enum RoundTables {
    /// Halves of 8 bits: lengths up to 2^16. They take little enough memory for a permutation that is read once and
    /// dropped.
    Narrow(Tables<u8, u16, { 1 << 8 }, { 1 << 9 }, { 1 << 10 }, { 1 << 11 }>),
    /// Halves of 16 bits. Parts that are never written take no memory, because new memory is mapped when it is first
    /// touched.
    Wide(Tables<u16, u32, { 1 << 16 }, { 1 << 17 }, { 1 << 18 }, { 1 << 19 }>),
}

/// Number of words computed together: enough to hide the look-ups' latency, few enough for the registers.
const LANES: usize = 6;

impl RoundTables {
    /// Returns the tables of `network`, or None if one of its halves is wider than 16 bits.
    pub(super) fn new(network: &FeistelNetwork) -> Option<Self> {
        Tables::new(network).map(Self::Narrow).or_else(|| Tables::new(network).map(Self::Wide))
    }

    /// True if the tables of `network` would be narrow.
    pub(super) fn are_narrow(network: &FeistelNetwork) -> bool {
        fits(network, 8)
    }

    /// Writes the images of the words `start`, `start + step`, and so on, which must be in the domain; returns true if
    /// all of them are below `len`.
    pub(super) fn forward_all(&self, start: u64, step: u64, len: u64, into: &mut [usize]) -> bool {
        match self {
            Self::Narrow(tables) => tables.forward_all(start, step, len, into),
            Self::Wide(tables) => tables.forward_all(start, step, len, into),
        }
    }
}

fn fits(network: &FeistelNetwork, bits: u32) -> bool {
    network.left_modulus() <= 1 << bits && network.right_bits() <= bits
}

/// An unsigned integer type of sufficient width.
pub(super) trait Entry: Copy + Default + Into<u32> {
    /// Returns the low bits of `value`.
    fn of(value: u64) -> Self;
}

impl Entry for u8 {
    fn of(value: u64) -> Self {
        value as u8
    }
}

impl Entry for u16 {
    fn of(value: u64) -> Self {
        value as u16
    }
}

impl Entry for u32 {
    fn of(value: u64) -> Self {
        value as u32
    }
}

/// Tables for halves below `ONE`, the number of values of a `Half`, and for the sums of up to two, four, and eight of
/// them. An `Image` holds a word.
#[derive(Clone, Debug)]
pub(super) struct Tables<Half, Image, const ONE: usize, const TWO: usize, const FOUR: usize, const EIGHT: usize> {
    /// For each double round: the value to add to the left half, indexed by the right one.
    added: [Box<[Half; ONE]>; DOUBLE_ROUNDS],
    /// For each double round except the last: the value to xor to the right half, indexed by the sum of the left halves
    /// so far: two, three, and four.
    xored_by_two: Box<[Half; TWO]>,
    xored_by_three: Box<[Half; FOUR]>,
    xored_by_four: Box<[Half; FOUR]>,
    /// For the last double round, indexed by the sum of five: the left half in its final position, and the value to xor
    /// to the right half.
    images: Box<[Image; EIGHT]>,
    right_bits: u32,
}

impl<Half: Entry, Image: Entry, const ONE: usize, const TWO: usize, const FOUR: usize, const EIGHT: usize>
    Tables<Half, Image, ONE, TWO, FOUR, EIGHT>
{
    fn new(network: &FeistelNetwork) -> Option<Self> {
        if !fits(network, ONE.ilog2()) {
            return None;
        }
        let (modulus, right_bits) = (network.left_modulus() as usize, network.right_bits());
        let mut added = std::array::from_fn(|_| table::<Half, ONE>());
        for (round, values) in added.iter_mut().enumerate() {
            for (right, value) in values[..1 << right_bits].iter_mut().enumerate() {
                *value = Half::of(network.left_value_in(round, right as u64));
            }
        }
        let xored = |round, left: usize| network.right_value_in(round, left as u64);
        let (mut xored_by_two, mut xored_by_three, mut xored_by_four) = (table(), table(), table());
        fill(&mut xored_by_two[..2 * modulus], modulus, |left| Half::of(xored(0, left)));
        fill(&mut xored_by_three[..3 * modulus], modulus, |left| Half::of(xored(1, left)));
        fill(&mut xored_by_four[..4 * modulus], modulus, |left| Half::of(xored(2, left)));
        let mut images = table();
        fill(&mut images[..5 * modulus], modulus, |left| Image::of((left as u64) << right_bits | xored(3, left)));
        Some(Tables { added, xored_by_two, xored_by_three, xored_by_four, images, right_bits })
    }

    fn forward_all(&self, start: u64, step: u64, len: u64, into: &mut [usize]) -> bool {
        let mut word = start;
        // An image that is not below the length wraps this difference and sets its top bit: words have 32 bits.
        let mut above = 0;
        let last = len.wrapping_sub(1);
        let (groups, rest) = into.as_chunks_mut::<LANES>();
        for group in groups {
            let words = std::array::from_fn(|lane| word.wrapping_add(step.wrapping_mul(lane as u64)));
            let images = self.forward::<LANES>(words);
            for (into, image) in group.iter_mut().zip(images) {
                above |= last.wrapping_sub(u64::from(image));
                *into = image as usize;
            }
            word = word.wrapping_add(step.wrapping_mul(LANES as u64));
        }
        for (lane, into) in rest.iter_mut().enumerate() {
            let [image] = self.forward::<1>([word.wrapping_add(step.wrapping_mul(lane as u64))]);
            above |= last.wrapping_sub(u64::from(image));
            *into = image as usize;
        }
        above >> 63 == 0
    }

    #[inline(always)]
    fn forward<const WORDS: usize>(&self, words: [u64; WORDS]) -> [u32; WORDS] {
        let right_mask = (1_u32 << self.right_bits) - 1;
        // The masks change no values: they prove to the compiler that no look-up needs a bounds check.
        let below = |room: usize, half: u32| half as usize & (room - 1);
        let mut left = words.map(|word| below(ONE, word as u32 >> self.right_bits) as u32);
        let mut right = words.map(|word| below(ONE, word as u32 & right_mask) as u32);
        for lane in 0..WORDS {
            left[lane] += self.added[0][below(ONE, right[lane])].into();
            right[lane] ^= self.xored_by_two[below(TWO, left[lane])].into();
        }
        for lane in 0..WORDS {
            left[lane] += self.added[1][below(ONE, right[lane])].into();
            right[lane] ^= self.xored_by_three[below(FOUR, left[lane])].into();
        }
        for lane in 0..WORDS {
            left[lane] += self.added[2][below(ONE, right[lane])].into();
            right[lane] ^= self.xored_by_four[below(FOUR, left[lane])].into();
        }
        std::array::from_fn(|lane| {
            left[lane] += self.added[3][below(ONE, right[lane])].into();
            self.images[below(EIGHT, left[lane])].into() ^ right[lane]
        })
    }
}

/// Sets the first `modulus` entries, and repeats them in all later ones.
fn fill<T: Copy>(entries: &mut [T], modulus: usize, entry: impl Fn(usize) -> T) {
    let (first, repeated) = entries.split_at_mut(modulus);
    first.iter_mut().enumerate().for_each(|(left, into)| *into = entry(left));
    repeated.chunks_mut(modulus).for_each(|chunk| chunk.copy_from_slice(first));
}

fn table<T: Copy + Default, const ROOM: usize>() -> Box<[T; ROOM]> {
    // Built on the heap: an array on the stack would be copied whole, and so every page of it touched.
    vec![T::default(); ROOM].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("it has that length"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::key_stream::{KeyStream, Purpose};

    #[test]
    fn tables_match_the_network() {
        for len in [16, 17, 255, 256, 257, 1024, 65_535, 65_536, 65_537, 1_000_000, (1 << 32) - 1, 1 << 32] {
            let network = FeistelNetwork::new(len, &mut KeyStream::new(Purpose::Order, 7, len).absorb(len));
            let tables = RoundTables::new(&network).expect("halves of 16 bits");
            assert_eq!(matches!(tables, RoundTables::Narrow(_)), len <= 1 << 16);
            let domain = network.left_modulus() << network.right_bits();
            for (count, step) in [(1, 1), (7, 1), (64, 1), (64, 3), (LANES + 1, domain / 64)] {
                let reach = count as u64 * step;
                for start in [0, len / 3, domain.saturating_sub(reach)] {
                    if start + reach > domain {
                        continue;
                    }
                    let mut images = vec![0; count];
                    let all_below = tables.forward_all(start, step, len, &mut images);
                    let expected: Vec<_> =
                        (0..count as u64).map(|place| network.forward(start + place * step) as usize).collect();
                    assert_eq!(images, expected, "{count} words from {start} by {step} of {len}");
                    assert_eq!(all_below, expected.iter().all(|&image| (image as u64) < len));
                }
            }
        }
        let wide = FeistelNetwork::new((1 << 32) + 1, &mut KeyStream::new(Purpose::Order, 7, 0));
        assert!(RoundTables::new(&wide).is_none());
    }
}
