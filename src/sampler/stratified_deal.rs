//! [`StratifiedDeal`]: which batches get one extra sample of which class.

use crate::rng::{Permutation, Purpose};

/// Deals `counts[line]` cards of every class to `batches` batches: each batch gets the same number of cards, and no
/// batch gets two of one class. The combination of classes in a batch is random.
///
/// The cards form a line, class after class, cut into stripes with one card per batch. If no class crosses the boundary
/// to the next stripe, the batches are shuffled for it. If one does, the batches that got a card of it before the
/// boundary must not get one after it, so they are excluded from the shuffle for those places only. So the place of a
/// batch in a stripe follows from its place in the previous stripe, and nothing else has to be computed.
///
/// Source for the line and the stripes: W. G. Madow, "On the theory of systematic sampling, II", Ann. Math. Statist. 20
/// (1949).
pub(super) struct StratifiedDeal {
    batches: u64,
    /// Where the cards of each class end in the line.
    ends: Vec<u64>,
    stripes: Vec<Stripe>,
}

/// Maps places in one stripe to places in the next.
struct Stripe {
    crossing: Option<Crossing>,
    rest: Permutation,
}

/// A class that crosses the start of a stripe.
struct Crossing {
    /// How many of its cards are in this stripe.
    after: u64,
    /// A shuffle of the batches that have none of its cards yet.
    free: Permutation,
}

impl StratifiedDeal {
    /// Returns a deal of these cards to `batches` batches (at least 1), whose number divides the number of cards. No
    /// class may have more cards than there are batches.
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
            let (before, after) = (start - starts[class], ends[class] - start);
            let crossing = (before > 0).then(|| Crossing { after, free: permutation(batches - before, stripe, 1) });
            let after = crossing.as_ref().map_or(0, |crossing| crossing.after);
            Stripe { crossing, rest: permutation(batches - after, stripe, 0) }
        });
        let stripes = stripes.collect();
        Self { batches, ends, stripes }
    }

    /// Calls `take` with each card of `batch`: the position of the class in the line, and the number of the card within
    /// the class.
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
    /// Returns the place in this stripe of the batch that had `place` in the previous stripe.
    fn next(&self, place: u64) -> u64 {
        let Some(Crossing { after, free }) = &self.crossing else { return self.rest.index_at(place) };
        // The batches that have a card of the class are the last ones of the previous stripe.
        let place = if place < free.len() { free.index_at(place) } else { place };
        if place < *after { place } else { after + self.rest.index_at(place - after) }
    }
}
