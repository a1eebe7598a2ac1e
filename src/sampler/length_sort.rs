//! [`LengthSort`]: sorts samples by length.

use super::compact::CompactNumbers;
use crate::error::Result;
use crate::watch;

/// Number of samples between checks for cancellation.
const BLOCK: usize = 1 << 13;

/// Sorts one window of samples after another, reusing its memory.
#[derive(Default)]
pub(super) struct LengthSort {
    lengths: Vec<usize>,
    /// For each length, counted from the one that sorts first: where the next sample of that length goes.
    next: Vec<usize>,
    sorted: Vec<usize>,
}

/// Which samples come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl LengthSort {
    /// Sorts `samples` by their `lengths`; the sort is stable.
    pub(super) fn sort(
        &mut self,
        samples: &[usize],
        lengths: &CompactNumbers,
        direction: Direction,
    ) -> Result<&[usize]> {
        self.lengths.clear();
        self.lengths.extend_from_slice(samples);
        for block in self.lengths.chunks_mut(BLOCK) {
            watch::advance(0)?;
            lengths.look_up(block);
        }
        let (low, high) =
            self.lengths.iter().fold((usize::MAX, 0), |(low, high), &length| (low.min(length), high.max(length)));
        self.sorted.clear();
        // Counting is several times as fast as comparing unless there are many more lengths than samples.
        if high.saturating_sub(low) / 4 < samples.len() {
            self.count(samples, low, high, direction)?;
        } else {
            let mut pairs: Vec<_> = self.lengths.iter().copied().zip(samples.iter().copied()).collect();
            match direction {
                Direction::Ascending => pairs.sort_by_key(|&(length, _)| length),
                Direction::Descending => pairs.sort_by_key(|&(length, _)| std::cmp::Reverse(length)),
            }
            self.sorted.extend(pairs.into_iter().map(|(_, sample)| sample));
        }
        Ok(&self.sorted)
    }

    fn count(&mut self, samples: &[usize], low: usize, high: usize, direction: Direction) -> Result<()> {
        let place = |length: usize| match direction {
            Direction::Ascending => length - low,
            Direction::Descending => high - length,
        };
        self.next.clear();
        self.next.resize((high + 1).saturating_sub(low), 0);
        self.lengths.iter().for_each(|&length| self.next[place(length)] += 1);
        let mut end = 0;
        for next in &mut self.next {
            (end, *next) = (end + *next, end);
        }
        self.sorted.resize(samples.len(), 0);
        for (samples, lengths) in samples.chunks(BLOCK).zip(self.lengths.chunks(BLOCK)) {
            watch::advance(0)?;
            for (&sample, &length) in samples.iter().zip(lengths) {
                let next = &mut self.next[place(length)];
                self.sorted[*next] = sample;
                *next += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_sort_and_comparison_sort_are_stable_and_equal() {
        let mut sort = LengthSort::default();
        for (count, largest) in [(0, 1), (1, 0), (7, 3), (1000, 12), (1000, 3999), (1000, 1 << 40)] {
            let lengths: CompactNumbers =
                (0..count).map(|sample: usize| sample.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (largest + 1)).collect();
            let samples: Vec<usize> = (0..count).rev().collect();
            let mut ascending = samples.clone();
            ascending.sort_by_key(|&sample| lengths.get(sample));
            let mut descending = samples.clone();
            descending.sort_by_key(|&sample| std::cmp::Reverse(lengths.get(sample)));
            assert_eq!(sort.sort(&samples, &lengths, Direction::Ascending).unwrap(), ascending);
            assert_eq!(sort.sort(&samples, &lengths, Direction::Descending).unwrap(), descending);
        }
    }
}
