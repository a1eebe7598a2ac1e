//! Chi-square tests of the orders of seed mode. Seeds are fixed, so the results are the same everywhere; with two
//! rounds less (see `DOUBLE_ROUNDS`) they fail.

use sluicegate::Permutation;

/// A statistic beyond this many standard deviations occurs by chance once in a few million tests.
const BOUND: f64 = 5.0;

/// Counts of values in [0, range), in at most 1024 intervals of nearly equal size.
struct Histogram {
    range: u64,
    counts: Vec<u64>,
}

impl Histogram {
    fn new(range: u64) -> Self {
        Histogram { range, counts: vec![0; range.min(1024) as usize] }
    }

    fn add(&mut self, value: u64) {
        let interval = u128::from(value) * self.counts.len() as u128 / u128::from(self.range);
        self.counts[interval as usize] += 1;
    }

    /// Returns by how many standard deviations chi-square differs from that of evenly distributed values.
    fn deviation(&self) -> f64 {
        if self.counts.len() < 2 {
            return 0.0;
        }
        let total: u64 = self.counts.iter().sum();
        let intervals = self.counts.len() as u128;
        let start_of = |interval: usize| (interval as u128 * u128::from(self.range)).div_ceil(intervals);
        let chi_square: f64 = (self.counts.iter().enumerate())
            .map(|(interval, &count)| {
                let share = (start_of(interval + 1) - start_of(interval)) as f64 / self.range as f64;
                let expected = total as f64 * share;
                (count as f64 - expected).powi(2) / expected
            })
            .sum();
        let freedom = (intervals - 1) as f64;
        (chi_square - freedom) / (2.0 * freedom).sqrt()
    }

    fn assert_even(&self, what: &str) {
        let deviation = self.deviation();
        assert!(deviation.abs() < BOUND, "{what}: {deviation:.1} standard deviations");
    }
}

const SMALL: [u64; 14] = [2, 3, 4, 5, 7, 10, 33, 100, 200, 255, 256, 257, 300, 513];
const LARGE: [u64; 9] =
    [1000, 4097, 65_537, 1_000_000, 1 << 20, (1 << 20) + 1, 1_000_000_000, (1 << 30) + 1, (1 << 40) + 1];

#[test]
fn an_index_lands_on_every_position_equally_often() {
    for len in SMALL.into_iter().chain(LARGE) {
        let seeds = 100 * len.min(1024);
        for place in [0, 1, len / 2, len - 1] {
            let (mut by_seed, mut by_epoch, mut inverse) =
                (Histogram::new(len), Histogram::new(len), Histogram::new(len));
            for number in 0..seeds {
                by_seed.add(Permutation::new(len, number, 0).index_at(place));
                let permutation = Permutation::new(len, 7, number);
                by_epoch.add(permutation.index_at(place));
                inverse.add(permutation.position_of(place));
            }
            by_seed.assert_even(&format!("len {len}, index at {place} over seeds"));
            by_epoch.assert_even(&format!("len {len}, index at {place} over epochs"));
            inverse.assert_even(&format!("len {len}, position of {place} over epochs"));
        }
    }
}

/// Returns the distances from one index to the one `lag` positions later, for `pairs` pairs.
fn distances(len: u64, lag: u64, pairs: u64) -> Histogram {
    // The distances within one short order are not independent, so each seed contributes only a few.
    let pairs_of_seed = (len / 16).clamp(1, 4096);
    let mut histogram = Histogram::new(len - 1);
    for seed in 0..pairs / pairs_of_seed {
        let permutation = Permutation::new(len, seed, 1);
        let start = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (len - pairs_of_seed);
        for position in start..start + pairs_of_seed {
            let (here, there) = (permutation.index_at(position), permutation.index_at((position + lag) % len));
            histogram.add(if there > here { there - here - 1 } else { there + (len - here) - 1 });
        }
    }
    histogram
}

#[test]
fn neighbors_are_unrelated_in_short_orders() {
    for len in SMALL {
        distances(len, 1, 1 << 17).assert_even(&format!("len {len}"));
    }
}

#[test]
fn neighbors_are_unrelated_in_long_orders() {
    for len in LARGE {
        distances(len, 1, 1 << 21).assert_even(&format!("len {len}"));
    }
}

#[test]
fn positions_that_differ_in_one_half_of_the_network_are_unrelated() {
    // Networks are worst where the halves are shortest, so these lengths get the most pairs.
    for (len, lag) in [(256, 1), (256, 16), (257, 16), (511, 16), (512, 1), (512, 16), (1000, 32)] {
        distances(len, lag, 1 << 22).assert_even(&format!("len {len}, lag {lag}"));
    }
    for (len, lag) in [(4097, 1 << 6), (65_537, 1 << 8), (1 << 20, 1 << 10), (1_000_000_000, 1 << 15)] {
        distances(len, lag, 1 << 21).assert_even(&format!("len {len}, lag {lag}"));
    }
}

#[test]
fn every_order_of_few_is_as_likely() {
    for len in 2..=6 {
        let orders = (1..=len).product::<u64>();
        let mut histogram = Histogram::new(orders);
        for seed in 0..200 * orders {
            let permutation = Permutation::new(len, seed, 2);
            let order: Vec<u64> = (0..len).map(|position| permutation.index_at(position)).collect();
            // The rank of the order among all orders, in the factorial number system.
            let rank = (0..order.len()).fold(0, |rank, at| {
                let smaller_after = order[at..].iter().filter(|&&later| later < order[at]).count();
                rank * (order.len() - at) as u64 + smaller_after as u64
            });
            histogram.add(rank);
        }
        histogram.assert_even(&format!("orders of {len}"));
    }
}
