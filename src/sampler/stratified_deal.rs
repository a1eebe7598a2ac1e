//! [`StratifiedDeal`]: which batches get one sample more of which class.

use crate::rng::{Permutation, Purpose};

/// Deals `counts[line]` cards of every class to `batches` batches: each batch gets equally many cards, and no batch two of
/// one class. Which batches get cards of the same classes is random.
///
/// The cards lie in a line, class after class, cut into stripes of one card for each batch. Where a class does not cross the
/// end of a stripe, the batches are shuffled for the next one. Where it does, those that got a card of it before the end
/// must not get one behind it: they are kept out of the shuffle for those places alone. So the place of a batch in a stripe
/// follows from its place in the stripe before, and that is all there is to compute.
///
/// Source for the line and the stripes: W. G. Madow, "On the theory of systematic sampling, II", Ann. Math. Statist. 20
/// (1949).
pub(super) struct StratifiedDeal {
    batches: u64,
    /// Where the cards of each class end in the line.
    ends: Vec<u64>,
    stripes: Vec<Stripe>,
}

/// How places in one stripe become places in the next.
struct Stripe {
    crossing: Option<Crossing>,
    rest: Permutation,
}

/// A class on both sides of the start of a stripe.
struct Crossing {
    /// How many of its cards lie in this stripe.
    behind: u64,
    /// A shuffle of the batches that have none of its cards yet.
    free: Permutation,
}

impl StratifiedDeal {
    /// A deal of these cards to `batches` batches (not 0), whose number divides that of all cards. No class has more cards
    /// than there are batches.
    pub(super) fn new(counts: impl Iterator<Item = u64>, batches: u64, (seed, epoch): (u64, u64)) -> Self {
        let mut end = 0;
        let mut starts = vec![];
        let ends: Vec<u64> = counts
            .map(|count| {
                starts.push(end);
                end += count;
                end
            })
            .collect();
        debug_assert!(end % batches == 0, "{end} cards for {batches} batches");
        let permutation = |len, stripe, which| {
            Permutation::for_purpose(Purpose::StratifiedDeal, len, (seed, epoch), &[stripe, which])
        };
        let stripes = (0..end / batches).map(|stripe| {
            let start = stripe * batches;
            let class = ends.partition_point(|&end| end <= start);
            let (before, behind) = (start - starts[class], ends[class] - start);
            let crossing = (before > 0).then(|| Crossing { behind, free: permutation(batches - before, stripe, 1) });
            let behind = crossing.as_ref().map_or(0, |crossing| crossing.behind);
            Stripe { crossing, rest: permutation(batches - behind, stripe, 0) }
        });
        let stripes = stripes.collect();
        Self { batches, ends, stripes }
    }

    /// Shows `take` the cards of `batch`: the place of the class in the line, and which of its cards it is.
    pub(super) fn cards(&self, batch: u64, mut take: impl FnMut(usize, u64)) {
        let mut place = batch;
        for (stripe, start) in self.stripes.iter().zip((0..).step_by(self.batches as usize)) {
            place = stripe.next(place);
            let card: u64 = start + place;
            let class = self.ends.partition_point(|&end| end <= card);
            let class_start = if class == 0 { 0 } else { self.ends[class - 1] };
            take(class, card - class_start);
        }
    }
}

impl Stripe {
    /// The place in this stripe of the batch that had `place` in the stripe before.
    fn next(&self, place: u64) -> u64 {
        let Some(Crossing { behind, free }) = &self.crossing else { return self.rest.index_at(place) };
        // The batches that have a card of the class are the last ones of the stripe before.
        let place = if place < free.len() { free.index_at(place) } else { place };
        if place < *behind { place } else { behind + self.rest.index_at(place - behind) }
    }
}
