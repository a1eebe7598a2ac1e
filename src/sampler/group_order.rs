//! [`GroupOrder`]: a random order in which neighbors stay together.

use crate::rng::Permutation;

/// A random order of places in groups of `size` neighbors. Groups begin at positions that are multiples of `size`; the
/// last group may be smaller, but it also consists of neighbors, from anywhere among the places.
pub(super) struct GroupOrder {
    groups: Permutation,
    size: usize,
    /// For a smaller last group: the number of groups whose places come before its own, and how many places it lacks.
    short: Option<(usize, usize)>,
}

impl GroupOrder {
    /// Returns an order of `len` places; `shuffled` creates a permutation of the given number of groups.
    pub(super) fn new(len: usize, size: usize, shuffled: impl FnOnce(u64) -> Permutation) -> Self {
        let count = len.div_ceil(size) as u64;
        let groups = shuffled(count);
        let short = (!len.is_multiple_of(size)).then(|| (groups.index_at(count - 1) as usize, size - len % size));
        Self { groups, size, short }
    }

    /// Returns the place at `position`.
    pub(super) fn place_at(&self, position: usize) -> usize {
        let group = self.groups.index_at((position / self.size) as u64) as usize;
        let missing = self.short.map_or(0, |(short, missing)| if group > short { missing } else { 0 });
        group * self.size + position % self.size - missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    #[test]
    fn each_position_occurs_once_and_groups_stay_together() {
        for len in 0..40 {
            for size in 1..12 {
                let shuffled = |groups| Permutation::for_purpose(Purpose::LengthBatches, groups, (7, 3), &[]);
                let order = GroupOrder::new(len, size, shuffled);
                let places: Vec<usize> = (0..len).map(|position| order.place_at(position)).collect();
                for group in places.chunks(size) {
                    assert!(group.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{places:?} in groups of {size}");
                }
                let mut sorted = places;
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..len), "of {len} places in groups of {size}");
            }
        }
    }
}
