//! [`EvenDraws`]: draws of any size, in which all numbers occur equally often.

use super::deal::{Deal, DealKeys, Dealt};
use crate::rng::{Permutation, Purpose};

/// An endless sequence of draws of `per_draw` numbers in [0, `len`). Any draw can be requested at any time.
///
/// In every prefix of the sequence, all numbers occur equally often, plus or minus one. No number occurs twice in a
/// draw, unless a draw needs more numbers than there are; then all occur equally often in it, plus or minus one.
pub(super) struct EvenDraws {
    len: u64,
    /// How often each number occurs in every draw, before the dealt numbers are added or removed.
    whole: u64,
    rest: Rest,
    keys: DealKeys,
}

/// The remainder of a draw: numbers to add or to leave out, dealt in hands of at most half of the numbers.
enum Rest {
    Nothing,
    Added(Deal),
    TakenAway(Deal),
}

impl EvenDraws {
    /// Returns draws of `per_draw` numbers below `len`, neither of which may be 0.
    pub(super) fn new(len: u64, per_draw: u64, keys: DealKeys) -> Self {
        let (whole, rest) = (per_draw / len, per_draw % len);
        let (whole, rest) = if rest == 0 {
            (whole, Rest::Nothing)
        } else if rest <= len / 2 {
            (whole, Rest::Added(Deal::new(len, rest, keys)))
        } else {
            (whole + 1, Rest::TakenAway(Deal::new(len, len - rest, keys)))
        };
        Self { len, whole, rest, keys }
    }

    /// Calls `take` with the numbers of `draw`.
    pub(super) fn draw(&self, draw: u64, mut take: impl FnMut(u64)) {
        let times = match &self.rest {
            Rest::TakenAway(_) => self.whole - 1,
            Rest::Nothing | Rest::Added(_) => self.whole,
        };
        let left_out = match &self.rest {
            Rest::Nothing => None,
            Rest::Added(deal) => {
                if times == 0 {
                    return deal.hand(draw).into_iter().for_each(take);
                }
                deal.hand(draw).into_iter().for_each(&mut take);
                None
            }
            Rest::TakenAway(deal) => {
                let mut numbers = deal.hand(draw);
                numbers.sort_unstable();
                Some(numbers)
            }
        };
        // A separate order for each draw: with ascending numbers, the same sample would always be the first of its
        // class.
        let DealKeys { seed, epoch, word, .. } = self.keys;
        let order = Permutation::for_purpose(Purpose::BalancedDraw, self.len, (seed, epoch), &[word, draw]);
        for _ in 0..times {
            (0..self.len).for_each(|place| take(order.index_at(place)));
        }
        if let Some(left_out) = left_out {
            let numbers = (0..self.len).map(|place| order.index_at(place));
            numbers.filter(|number| left_out.binary_search(number).is_err()).for_each(take);
        }
    }

    /// Returns the numbers drawn before `draw`.
    pub(super) fn before(&self, draw: u64) -> Drawn {
        let dealt = match &self.rest {
            Rest::Nothing => DrawnRest::Nothing,
            Rest::Added(deal) => DrawnRest::Added(deal.before(draw)),
            Rest::TakenAway(deal) => DrawnRest::TakenAway(deal.before(draw)),
        };
        Drawn { whole: draw * self.whole, rest: dealt }
    }
}

/// The numbers drawn so far.
pub(super) struct Drawn {
    whole: u64,
    rest: DrawnRest,
}

enum DrawnRest {
    Nothing,
    Added(Dealt),
    TakenAway(Dealt),
}

impl Drawn {
    /// Returns how often `number` has been drawn.
    pub(super) fn times(&self, number: u64) -> u64 {
        match &self.rest {
            DrawnRest::Nothing => self.whole,
            DrawnRest::Added(dealt) => self.whole + dealt.times(number),
            DrawnRest::TakenAway(dealt) => self.whole - dealt.times(number),
        }
    }
}
