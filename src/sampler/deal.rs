//! [`Deal`]: numbers dealt evenly like cards, with no number twice in a hand.

use crate::rng::{Permutation, Purpose};

/// An endless sequence of hands of `per_hand` numbers in [0, `len`). Any hand can be requested at any time.
///
/// The numbers are dealt in cycles, each of which deals every number once. A hand that spans two cycles must not get
/// the same number from both, so a cycle's first numbers depend on the last ones of the previous cycle. To prevent an
/// endless chain of dependencies, the last numbers of a cycle are chosen before all others.
///
/// For example, 7 numbers in hands of 3: `abc def gAB CDE FG…`, where capitals are the second cycle. `g` is the tail of the
/// first cycle, chosen first of it. `AB`, the head of the second cycle, are the first two of its order, after its own tail
/// `FG`, that are not `g`; if `g` is among them, it is postponed to the place after `B`.
#[derive(Clone, Debug)]
pub(super) struct Deal {
    len: u64,
    /// At most half of `len`: a cycle must fit the rest of the previous hand, the numbers that this hand must avoid,
    /// and the start of the next hand.
    per_hand: u64,
    keys: DealKeys,
}

/// The inputs that distinguish one deal from another.
#[derive(Clone, Copy, Debug)]
pub(super) struct DealKeys {
    pub(super) purpose: Purpose,
    pub(super) seed: u64,
    pub(super) epoch: u64,
    pub(super) word: u64,
}

impl Deal {
    /// Returns a deal of hands of `per_hand` numbers, at least 1 and at most half of `len`.
    pub(super) fn new(len: u64, per_hand: u64, keys: DealKeys) -> Self {
        debug_assert!(per_hand > 0 && per_hand <= len / 2, "{per_hand} of {len} numbers");
        Self { len, per_hand, keys }
    }

    /// Returns the numbers of `hand`.
    pub(super) fn hand(&self, hand: u64) -> Vec<u64> {
        let (cycle, first) = self.place_of(hand);
        let in_cycle = self.per_hand.min(self.len - first);
        // Only the ranks below `per_hand` depend on the previous cycle.
        let order = if first < self.per_hand { self.cycle(cycle) } else { self.cycle_without_start(cycle) };
        let mut numbers: Vec<u64> = (first..first + in_cycle).map(|rank| order.number_at(rank)).collect();
        if in_cycle < self.per_hand {
            let order = self.cycle(cycle + 1);
            numbers.extend((0..self.per_hand - in_cycle).map(|rank| order.number_at(rank)));
        }
        numbers
    }

    /// Returns the numbers dealt before `hand`.
    pub(super) fn before(&self, hand: u64) -> Dealt {
        let (cycles, ranks) = self.place_of(hand);
        Dealt { cycles, ranks, cycle: self.cycle(cycles) }
    }

    /// Returns the cycle in which `hand` begins, and the offset in it.
    fn place_of(&self, hand: u64) -> (u64, u64) {
        let dealt = u128::from(hand) * u128::from(self.per_hand);
        ((dealt / u128::from(self.len)) as u64, (dealt % u128::from(self.len)) as u64)
    }

    fn order(&self, cycle: u64) -> Permutation {
        let DealKeys { purpose, seed, epoch, word } = self.keys;
        Permutation::for_purpose(purpose, self.len, (seed, epoch), &[word, cycle])
    }

    /// Returns how many numbers of the current hand have been dealt when `cycle` begins.
    fn begun(&self, cycle: u64) -> u64 {
        (u128::from(cycle) * u128::from(self.len) % u128::from(self.per_hand)) as u64
    }

    fn cycle_without_start(&self, cycle: u64) -> Cycle {
        Cycle {
            order: self.order(cycle),
            len: self.len,
            tail: self.begun(cycle + 1),
            head: Vec::new(),
            ranks: Vec::new(),
        }
    }

    fn cycle(&self, cycle: u64) -> Cycle {
        let mut this = self.cycle_without_start(cycle);
        let begun = self.begun(cycle);
        if begun == 0 {
            return this;
        }
        let missing = self.per_hand - begun;
        let before = self.order(cycle - 1);
        let mut in_hand: Vec<u64> = (0..begun).map(|place| before.index_at(place)).collect();
        in_hand.sort_unstable();
        let mut postponed = Vec::new();
        let mut place = this.tail;
        while (this.head.len() as u64) < missing {
            let number = this.order.index_at(place);
            if in_hand.binary_search(&number).is_ok() {
                this.ranks.push(missing + postponed.len() as u64);
                postponed.push(number);
            } else {
                this.ranks.push(this.head.len() as u64);
                this.head.push(number);
            }
            place += 1;
        }
        this.head.append(&mut postponed);
        this
    }
}

/// The numbers of one cycle. The rank of a number is its position in the order of dealing.
struct Cycle {
    /// First the tail (`tail` numbers, which are dealt last), then all others.
    order: Permutation,
    len: u64,
    tail: u64,
    /// The numbers that are dealt first: the rest of the hand that began in the previous cycle, then the numbers
    /// postponed because that hand has them already.
    head: Vec<u64>,
    /// The ranks of these numbers, in the sequence of `order`.
    ranks: Vec<u64>,
}

impl Cycle {
    fn number_at(&self, rank: u64) -> u64 {
        if let Some(&number) = self.head.get(rank as usize) {
            return number;
        }
        let tail_start = self.len - self.tail;
        self.order.index_at(if rank < tail_start { rank + self.tail } else { rank - tail_start })
    }

    fn rank_of(&self, number: u64) -> u64 {
        let place = self.order.position_of(number);
        match place.checked_sub(self.tail) {
            None => self.len - self.tail + place,
            Some(rank) => self.ranks.get(rank as usize).copied().unwrap_or(rank),
        }
    }
}

/// The numbers dealt so far.
pub(super) struct Dealt {
    cycles: u64,
    ranks: u64,
    cycle: Cycle,
}

impl Dealt {
    /// Returns how often `number` has been dealt.
    pub(super) fn times(&self, number: u64) -> u64 {
        self.cycles + u64::from(self.cycle.rank_of(number) < self.ranks)
    }
}
