//! [`EvenDraws`]: draws of any size, each number as often as any other.

use super::deal::{Deal, DealKeys, Dealt};
use crate::rng::{Permutation, Purpose};

/// An endless sequence of draws of `per_draw` numbers of [0, `len`). Any draw can be asked for at any time.
///
/// In every stretch of draws from the first on, each number comes as often as any other, give or take one. No number comes
/// twice in a draw, unless there are fewer numbers than a draw has; then each comes as often as any other, too.
pub(super) struct EvenDraws {
    len: u64,
    /// How often each number comes in every draw, before what is dealt is added or taken away.
    whole: u64,
    rest: Rest,
    keys: DealKeys,
}

/// What makes a draw full, dealt in hands of at most half of the numbers.
enum Rest {
    Nothing,
    Added(Deal),
    TakenAway(Deal),
}

impl EvenDraws {
    /// Draws of `per_draw` numbers below `len`, neither of which may be 0.
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

    /// Shows `take` the numbers of `draw`.
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
        // A sequence of this draw's own: with ascending numbers the same sample would always be the first of its class.
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

    /// What has been drawn before `draw`.
    pub(super) fn before(&self, draw: u64) -> Drawn {
        let dealt = match &self.rest {
            Rest::Nothing => DrawnRest::Nothing,
            Rest::Added(deal) => DrawnRest::Added(deal.before(draw)),
            Rest::TakenAway(deal) => DrawnRest::TakenAway(deal.before(draw)),
        };
        Drawn { whole: draw * self.whole, rest: dealt }
    }
}

/// How far the draws have come.
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
    /// How often `number` has been drawn.
    pub(super) fn times(&self, number: u64) -> u64 {
        match &self.rest {
            DrawnRest::Nothing => self.whole,
            DrawnRest::Added(dealt) => self.whole + dealt.times(number),
            DrawnRest::TakenAway(dealt) => self.whole - dealt.times(number),
        }
    }
}
