//! [`Permutation`]: the order of an epoch as a keyed bijection.

use super::feistel::FeistelNetwork;
use super::key_stream::{KeyStream, Purpose};
use super::shuffle_table::ShuffleTable;

/// A pseudorandom permutation of [0, len), determined by (len, seed, epoch).
///
/// It computes any position independently of others, in tens of nanoseconds and with almost no memory, whatever the
/// length; it also computes the inverse. The order of one epoch is unrelated to that of another epoch, seed, or length.
/// It is not encryption: do not use it to hide anything.
///
/// Values never change between versions, platforms, or threads. All methods may be called from many threads at once.
///
/// Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002: their generalized Feistel network
/// (after Luby and Rackoff, 1988) on the length rounded up to a multiple of a power of two near its square root, with
/// cycle walking back into range, which is rarely needed. Lengths below 256, for which such a small network would be
/// visibly less than random, use a Fisher-Yates shuffle.
///
/// # Example
/// ```
/// use sluicegate::Permutation;
///
/// let order = Permutation::new(1_000_000_000, 7, 0);
/// let index = order.index_at(999_999_999);
/// assert!(index < order.len());
/// assert_eq!(order.position_of(index), 999_999_999);
/// ```
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Table(ShuffleTable),
    Network(FeistelNetwork),
}

impl Permutation {
    /// Returns the order of `epoch` for `len` samples under `seed`. Every value of all three is valid.
    pub fn new(len: u64, seed: u64, epoch: u64) -> Self {
        Self::from_keys(len, KeyStream::new(Purpose::Order, seed, epoch).absorb(len))
    }

    /// Returns a permutation for a `purpose` other than the order of the whole epoch. It is unrelated to that order and
    /// to every permutation of other `words`. Each purpose has a fixed number of words.
    pub(crate) fn for_purpose(purpose: Purpose, len: u64, (seed, epoch): (u64, u64), words: &[u64]) -> Self {
        let keys = KeyStream::new(purpose, seed, epoch).absorb(len);
        Self::from_keys(len, words.iter().fold(keys, |keys, &word| keys.absorb(word)))
    }

    /// Returns the permutation of `len` samples that these keys determine.
    pub(super) fn from_keys(len: u64, mut keys: KeyStream) -> Self {
        let form = match u8::try_from(len) {
            Ok(len) => Form::Table(ShuffleTable::new(len, &mut keys)),
            Err(_) => Form::Network(FeistelNetwork::new(len, &mut keys)),
        };
        Permutation { len, form }
    }

    /// Returns the number of indices.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there are no indices.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the index at `position`.
    ///
    /// # Panics
    /// If `position` is not below [`len`](Self::len).
    #[inline]
    pub fn index_at(&self, position: u64) -> u64 {
        assert!(position < self.len, "position {position} of an order of {} indices", self.len);
        match &self.form {
            Form::Table(table) => table.index_at(position),
            Form::Network(network) => self.walk(position, |word| network.forward(word)),
        }
    }

    /// Returns the position of `index`: the inverse of [`index_at`](Self::index_at), at the same cost.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn position_of(&self, index: u64) -> u64 {
        assert!(index < self.len, "index {index} in an order of {} indices", self.len);
        match &self.form {
            Form::Table(table) => table.position_of(index),
            Form::Network(network) => self.walk(index, |word| network.backward(word)),
        }
    }

    /// Returns the network that computes it, for 256 or more indices.
    pub(super) fn network(&self) -> Option<&FeistelNetwork> {
        match &self.form {
            Form::Table(_) => None,
            Form::Network(network) => Some(network),
        }
    }

    /// Walks from an out-of-range word of the network's domain to an index.
    #[cold]
    pub(super) fn walk_on(&self, word: u64) -> u64 {
        match &self.form {
            Form::Table(_) => unreachable!("a table has no words outside of its range"),
            Form::Network(network) => self.walk(word, |word| network.forward(word)),
        }
    }

    /// Follows the cycle of `step` until it is back in range. It terminates, because the cycle passes through its
    /// start.
    #[inline]
    fn walk(&self, start: u64, step: impl Fn(u64) -> u64) -> u64 {
        let mut word = step(start);
        while word >= self.len {
            word = step(word);
        }
        word
    }
}
