//! [`FreeRanges`]: the free ranges of an arena, indexed by position and by size.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Ranges that do not overlap; ranges that touch are merged. Every operation takes logarithmic time.
pub(super) struct FreeRanges {
    page: usize,
    /// The end of each range and when it was freed, by its start.
    by_start: BTreeMap<usize, (usize, u64)>,
    by_bytes: BTreeSet<Fit>,
    /// The same ranges by the bytes that remain after their first page boundary, if any remain.
    by_aligned: BTreeSet<Fit>,
    page_bytes: usize,
}

/// A key ordered so that the first sufficient range is the best: bytes, time since it was freed, start.
type Fit = (usize, u64, usize);

impl FreeRanges {
    pub(super) fn new(page: usize) -> Self {
        Self { page, by_start: BTreeMap::new(), by_bytes: BTreeSet::new(), by_aligned: BTreeSet::new(), page_bytes: 0 }
    }

    /// Returns the number of bytes in whole pages of free ranges.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the whole pages inside `range`.
    pub(super) fn pages(&self, range: &Range<usize>) -> Range<usize> {
        let start = range.start.next_multiple_of(self.page);
        start..(range.end / self.page * self.page).max(start)
    }

    fn fits(&self, range: &Range<usize>, freed: u64) -> (Fit, Option<Fit>) {
        let age = u64::MAX - freed;
        let aligned = range.end.saturating_sub(range.start.next_multiple_of(self.page));
        ((range.len(), age, range.start), (aligned > 0).then_some((aligned, age, range.start)))
    }

    fn link(&mut self, range: Range<usize>, freed: u64) {
        if range.is_empty() {
            return;
        }
        let (fit, aligned) = self.fits(&range, freed);
        self.by_bytes.insert(fit);
        self.by_aligned.extend(aligned);
        self.page_bytes += self.pages(&range).len();
        self.by_start.insert(range.start, (range.end, freed));
    }

    fn unlink(&mut self, start: usize) -> (Range<usize>, u64) {
        let (end, freed) = self.by_start.remove(&start).expect("the indices know only ranges that are there");
        let range = start..end;
        let (fit, aligned) = self.fits(&range, freed);
        self.by_bytes.remove(&fit);
        aligned.map(|aligned| self.by_aligned.remove(&aligned));
        self.page_bytes -= self.pages(&range).len();
        (range, freed)
    }

    /// Adds a range freed at time `freed`, which must not be earlier than any previous time.
    pub(super) fn insert(&mut self, mut range: Range<usize>, freed: u64) {
        if range.is_empty() {
            return;
        }
        let before = self.by_start.range(..range.start).next_back();
        if let Some(start) = before.and_then(|(&start, &(end, _))| (end == range.start).then_some(start)) {
            range.start = self.unlink(start).0.start;
        }
        if self.by_start.contains_key(&range.end) {
            range.end = self.unlink(range.end).0.end;
        }
        self.link(range, freed);
    }

    /// Removes `taken` from the range that begins at `start` and contains it.
    fn cut(&mut self, start: usize, taken: Range<usize>) -> Range<usize> {
        let (range, freed) = self.unlink(start);
        self.link(range.start..taken.start, freed);
        self.link(taken.end..range.end, freed);
        taken
    }

    /// Takes `bytes` from the smallest range that is large enough, at a page boundary if they fill a page.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Range<usize>> {
        let is_paged = bytes >= self.page;
        let index = if is_paged { &self.by_aligned } else { &self.by_bytes };
        let &(_, _, start) = index.range((bytes, 0, 0)..).next()?;
        let from = if is_paged { start.next_multiple_of(self.page) } else { start };
        Some(self.cut(start, from..from + bytes))
    }

    /// Takes `bytes` from the end of the last range, or of the largest one if the last is too small.
    pub(super) fn take_from_end(&mut self, bytes: usize) -> Option<Range<usize>> {
        let last = self.by_start.last_key_value().map(|(&start, &(end, _))| (start, end));
        let (start, end) = last.filter(|(start, end)| end - start >= bytes).or_else(|| {
            let &(len, _, start) = self.by_bytes.last()?;
            (len >= bytes).then_some((start, start + len))
        })?;
        Some(self.cut(start, end - bytes..end))
    }

    /// Takes whole pages, at most `most` bytes, from the end of the range that has the most of them.
    pub(super) fn take_pages(&mut self, most: usize) -> Option<Range<usize>> {
        let &(aligned, _, start) = self.by_aligned.last()?;
        let from = start.next_multiple_of(self.page);
        let pages = self.pages(&(from..from + aligned));
        let taken = pages.start.max(pages.end.saturating_sub(most) / self.page * self.page)..pages.end;
        (!taken.is_empty()).then(|| self.cut(start, taken))
    }

    /// Returns all ranges, in order of position.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.by_start.iter().map(|(&start, &(end, _))| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn ranges(free: &[Range<usize>]) -> FreeRanges {
        let mut ranges = FreeRanges::new(PAGE);
        free.iter().zip(1..).for_each(|(range, freed)| ranges.insert(range.clone(), freed));
        ranges
    }

    fn listed(ranges: &FreeRanges) -> Vec<Range<usize>> {
        ranges.iter().collect()
    }

    #[test]
    fn adjacent_ranges_are_merged() {
        let mut free = ranges(&[0..64, 128..192, 256..320]);
        free.insert(64..128, 9);
        assert_eq!(listed(&free), [0..192, 256..320]);
        free.insert(192..256, 10);
        assert_eq!(listed(&free), vec![0..320]);
        free.insert(5..5, 11);
        assert_eq!((listed(&free).len(), free.page_bytes()), (1, 0));
    }

    #[test]
    fn the_best_fit_is_the_smallest_then_the_latest_then_the_lowest() {
        let mut free = ranges(&[0..128, 256..320, 512..576, 1024..1088]);
        assert_eq!(free.take(64), Some(1024..1088));
        assert_eq!(free.take(64), Some(512..576));
        assert_eq!(free.take(64), Some(256..320));
        assert_eq!(free.take(64), Some(0..64));
        assert_eq!((free.take(128), free.take(64), free.take(64)), (None, Some(64..128), None));
    }

    #[test]
    fn large_ranges_start_at_pages() {
        let mut free = ranges(&[64..2 * PAGE, 3 * PAGE + 64..10 * PAGE]);
        assert_eq!(free.take(PAGE), Some(PAGE..2 * PAGE));
        assert_eq!(free.take(PAGE + 64), Some(4 * PAGE..5 * PAGE + 64));
        assert_eq!(listed(&free), [64..PAGE, 3 * PAGE + 64..4 * PAGE, 5 * PAGE + 64..10 * PAGE]);
        assert_eq!(free.page_bytes(), 4 * PAGE);
        assert_eq!(free.take(5 * PAGE), None);
    }

    #[test]
    fn whole_pages_come_from_the_end_of_the_largest_range() {
        let mut free = ranges(&[0..2 * PAGE, 3 * PAGE + 64..9 * PAGE + 64]);
        assert_eq!(free.take_pages(PAGE), Some(8 * PAGE..9 * PAGE));
        assert_eq!(free.take_pages(100 * PAGE), Some(4 * PAGE..8 * PAGE));
        assert_eq!(free.take_pages(100 * PAGE), Some(0..2 * PAGE));
        assert_eq!(free.take_pages(PAGE), None);
        assert_eq!(listed(&free), [3 * PAGE + 64..4 * PAGE, 9 * PAGE..9 * PAGE + 64]);
    }

    #[test]
    fn an_extent_comes_from_the_far_end() {
        let mut free = ranges(&[0..10 * PAGE, 20 * PAGE..22 * PAGE]);
        assert_eq!(free.take_from_end(PAGE), Some(21 * PAGE..22 * PAGE));
        assert_eq!(free.take_from_end(3 * PAGE), Some(7 * PAGE..10 * PAGE));
        assert_eq!(free.take_from_end(8 * PAGE), None);
    }
}
