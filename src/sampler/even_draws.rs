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
    rest: Option<Rest<Deal>>,
    keys: DealKeys,
}

/// The remainder of a draw: numbers that are added, or else left out, dealt in hands of at most half of the numbers.
struct Rest<T> {
    dealt: T,
    is_added: bool,
}

impl EvenDraws {
    /// Returns draws of `per_draw` numbers below `len`, neither of which may be 0.
    pub(super) fn new(len: u64, per_draw: u64, keys: DealKeys) -> Self {
        let (whole, rest) = (per_draw / len, per_draw % len);
        let is_added = rest <= len / 2;
        let per_hand = if is_added { rest } else { len - rest };
        let whole = whole + u64::from(!is_added);
        let rest = (per_hand > 0).then(|| Rest { dealt: Deal::new(len, per_hand, keys), is_added });
        Self { len, whole, rest, keys }
    }

    /// Calls `take` with the numbers of `draw`.
    pub(super) fn draw(&self, draw: u64, mut take: impl FnMut(u64)) {
        let (mut times, mut left_out) = (self.whole, None);
        if let Some(Rest { dealt, is_added }) = &self.rest {
            let mut hand = dealt.hand(draw);
            if *is_added {
                hand.into_iter().for_each(&mut take);
            } else {
                times -= 1;
                hand.sort_unstable();
                left_out = Some(hand);
            }
        }
        if times == 0 && left_out.is_none() {
            return;
        }
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
        let before = |rest: &Rest<Deal>| Rest { dealt: rest.dealt.before(draw), is_added: rest.is_added };
        Drawn { whole: draw * self.whole, rest: self.rest.as_ref().map(before) }
    }
}

/// The numbers drawn so far.
pub(super) struct Drawn {
    whole: u64,
    rest: Option<Rest<Dealt>>,
}

impl Drawn {
    /// Returns how often `number` has been drawn.
    pub(super) fn times(&self, number: u64) -> u64 {
        match &self.rest {
            None => self.whole,
            Some(rest) if rest.is_added => self.whole + rest.dealt.times(number),
            Some(rest) => self.whole - rest.dealt.times(number),
        }
    }
}
