//! [`KeyStream`]: derives any number of keys from (seed, epoch).

use super::below::below;

/// The purpose of keys: two purposes never share keys, even with the same seed and epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The order of an epoch.
    Order = 1,
    /// The randomness of a sample.
    Sample = 2,
    /// The generators that are active while a sample is fetched.
    Generator = 3,
    /// The next slot of a shuffle buffer.
    ShuffleBuffer = 8,
    /// Draws with replacement, one at each position.
    Draw = 16,
    /// The keys that order weighted draws without replacement.
    Race = 17,
    /// The orders within the windows of an epoch.
    Window = 18,
    /// The positions of the parts of a mixture.
    Mixture = 19,
    /// The orders of the parts of a mixture.
    Part = 20,
    /// The samples of selected classes.
    ClassSamples = 32,
    /// The classes of balanced batches, cycle by cycle.
    BalancedClasses = 33,
    /// The samples of a class in balanced batches, cycle by cycle.
    BalancedSamples = 34,
    /// The numbers of a balanced draw that contains most of them.
    BalancedDraw = 35,
    /// The order of the classes when their remaining samples are dealt to stratified batches.
    StratifiedClasses = 36,
    /// Which stratified batch gets one extra sample of a class.
    StratifiedDeal = 37,
    /// The samples of a class in stratified batches.
    StratifiedSamples = 38,
    /// The sequence of samples within a stratified batch.
    StratifiedBatch = 39,
    /// The classes in the remainder of stratified batches.
    StratifiedRemainder = 40,
    /// The order in which samples are sorted into windows of similar length.
    LengthWindows = 41,
    /// The sequence of batches of samples of similar length.
    LengthBatches = 42,
    /// The order in which documents are packed.
    PackedDocuments = 43,
    /// The sequence of packed rows.
    PackedRows = 44,
}

/// An endless stream of keys, determined by (purpose, seed, epoch).
///
/// Seed and epoch are the two halves of a 128-bit state that is only transformed by Feistel rounds, so each step is a
/// bijection of all pairs (seed, epoch): the first two keys of two different pairs always differ in at least one key.
/// By contrast, adding or xoring an epoch to a seed before mixing would make epoch k+1 of seed s equal to epoch k of
/// seed s+1.
pub(crate) struct KeyStream {
    left: u64,
    right: u64,
    constant: u64,
}

/// After two rounds a half has seen the other only once; after six every bit of either word has passed through both
/// halves three times.
const ABSORBING_ROUNDS: usize = 6;

/// The odd number closest to 2^64 divided by the golden ratio: round constants that never repeat.
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl KeyStream {
    pub(crate) fn new(purpose: Purpose, seed: u64, epoch: u64) -> Self {
        let mut stream = KeyStream { left: seed, right: epoch, constant: mix(purpose as u64) };
        for _ in 0..ABSORBING_ROUNDS / 2 {
            stream.step();
        }
        stream
    }

    /// Makes all later keys depend on `word` as well.
    pub(crate) fn absorb(mut self, word: u64) -> Self {
        self.left ^= mix(word ^ GOLDEN);
        for _ in 0..ABSORBING_ROUNDS / 2 {
            self.step();
        }
        self
    }

    /// Returns a number below `range` (not 0); all are equally likely except for a bias of at most `range` / 2^64.
    pub(crate) fn number_below(mut self, range: u64) -> u64 {
        let [key, _] = self.next_pair();
        below(range, key).0
    }

    /// Returns the next two keys.
    pub(super) fn next_pair(&mut self) -> [u64; 2] {
        self.step();
        [self.left, self.right]
    }

    fn step(&mut self) {
        self.constant = self.constant.wrapping_add(GOLDEN);
        self.left ^= mix(self.right.wrapping_add(self.constant));
        self.constant = self.constant.wrapping_add(GOLDEN);
        self.right ^= mix(self.left.wrapping_add(self.constant));
    }
}

/// A bijection of 64-bit words in which flipping any input bit flips every output bit half of the time.
///
/// Source: the output function of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
/// OOPSLA 2014), with the constants of Stafford's variant 13.
pub(super) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
