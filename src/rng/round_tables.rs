//! [`RoundTables`]: the rounds of a Feistel network, looked up instead of computed.

use super::feistel::{DOUBLE_ROUNDS, FeistelNetwork};

/// What every round of a [`FeistelNetwork`] does to every half that there is.
///
/// A half has about as many values as the square root of the length, so the rounds of 10^6 words nearly fit into the fastest
/// cache and those of 10^9 into the next, and a word costs eight look-ups instead of twenty multiplications. Words are
/// computed several at a time: each look-up waits for the one before it in its own word, never for another word.
///
/// The left half is not brought below its modulus after every addition, as the network does it: what is looked up by it
/// repeats beyond the modulus instead, as far as the sums of that round reach. The last look-up gives the left half as it
/// should be too. That leaves two instructions to a look-up.
#[derive(Clone, Debug)]
pub(super) enum RoundTables {
    /// Halves of 8 bits: lengths up to 2^16. Little enough memory for a permutation that is read once and forgotten.
    Narrow(Tables<u8, u16, { 1 << 8 }, { 1 << 9 }, { 1 << 10 }, { 1 << 11 }>),
    /// Halves of 16 bits. What is never written takes no memory, because fresh memory is mapped when it is first touched.
    Wide(Tables<u16, u32, { 1 << 16 }, { 1 << 17 }, { 1 << 18 }, { 1 << 19 }>),
}

/// How many words are under way together: enough to hide the look-ups' latency, few enough for the registers.
const LANES: usize = 6;

impl RoundTables {
    /// The tables of `network`; nothing when a half of it is wider than 16 bits.
    pub(super) fn new(network: &FeistelNetwork) -> Option<Self> {
        Tables::new(network).map(Self::Narrow).or_else(|| Tables::new(network).map(Self::Wide))
    }

    /// Whether the tables of `network` would be narrow.
    pub(super) fn are_narrow(network: &FeistelNetwork) -> bool {
        fits(network, 8)
    }

    /// Writes the images of the words `start`, `start + step` and so on, which must be in the domain, and returns whether
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

/// An unsigned integer that fits what it is used for.
pub(super) trait Entry: Copy + Default + Into<u32> {
    /// The low bits of `value`.
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

/// Tables with room for halves below `ONE`, the number of values of a `Half`, and for the sums of up to two, four and
/// eight of them. An `Image` holds a word.
#[derive(Clone, Debug)]
pub(super) struct Tables<Half, Image, const ONE: usize, const TWO: usize, const FOUR: usize, const EIGHT: usize> {
    /// For each double round: what is added to the left half, by the right one.
    added: [Box<[Half; ONE]>; DOUBLE_ROUNDS],
    /// For each double round but the last: what is xored to the right half, by the sum of as many left halves as there
    /// are by then: two, three and four.
    xored_by_two: Box<[Half; TWO]>,
    xored_by_three: Box<[Half; FOUR]>,
    xored_by_four: Box<[Half; FOUR]>,
    /// For the last one, by the sum of five: the left half in its place, and what is xored to the right one.
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
        // What is not below the length leaves a bit there that nothing else does: words have 32 bits.
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
        // The masks change nothing: they show that no look-up needs a check.
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

/// Sets the first `modulus` entries, and repeats them in all that are behind.
fn fill<T: Copy>(entries: &mut [T], modulus: usize, entry: impl Fn(usize) -> T) {
    let (first, repeated) = entries.split_at_mut(modulus);
    first.iter_mut().enumerate().for_each(|(left, into)| *into = entry(left));
    repeated.chunks_mut(modulus).for_each(|chunk| chunk.copy_from_slice(first));
}

fn table<T: Copy + Default, const ROOM: usize>() -> Box<[T; ROOM]> {
    // Not through an array on the stack, which would be copied, and so touched, whole.
    vec![T::default(); ROOM].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("it has that length"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::key_stream::{KeyStream, Purpose};

    #[test]
    fn tables_give_what_the_network_computes() {
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
