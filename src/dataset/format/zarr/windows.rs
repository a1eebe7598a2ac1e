//! [`Windows`]: where each sample is in the arrays, computed from its index.

use std::ops::Range;

use crate::{Error, Result};

/// How to treat windows that reach past the end of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowEdges {
    /// They are dropped: the remaining elements are in no window.
    #[default]
    Drop,
    /// The last window is padded with fill values.
    Pad,
    /// The last window is moved back to fit, and overlaps the one before it.
    Shift,
}

/// The order of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowOrder {
    /// The last dimension changes fastest, as in nested loops. Blocks are rows of chunks along the first dimension.
    #[default]
    Rows,
    /// Chunk by chunk. Blocks are the chunks.
    Chunks,
}

/// The windows along one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WindowAxis {
    pub(super) name: String,
    /// The size of the dimension.
    pub(super) size: usize,
    pub(super) window: usize,
    stride: usize,
    pub(super) count: usize,
    /// Where the first window starts.
    first: usize,
    /// Where the last window starts.
    last: usize,
    /// Elements in a block. A window belongs to the block in which it starts.
    block: usize,
}

impl WindowAxis {
    /// Creates windows of `window` elements, `stride` apart, in a dimension of `size`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when they do not fit.
    pub(super) fn new(name: &str, size: usize, window: usize, stride: usize, edges: WindowEdges) -> Result<Self> {
        let refuse = |argument, reason| Err(Error::invalid(argument, reason));
        if window == 0 || stride == 0 {
            let argument = if window == 0 { "window" } else { "stride" };
            return refuse(argument, format!("expected a positive number for dimension {name:?}, got 0"));
        }
        if window > size && edges != WindowEdges::Pad {
            let reason = format!(
                "expected at most {size} for dimension {name:?}, which has that size, got {window}; pass a smaller window \
                 or edges='pad'"
            );
            return refuse("window", reason);
        }
        let past_first = size.saturating_sub(window);
        let count = match edges {
            WindowEdges::Drop => past_first / stride + 1,
            // Windows never start past the end, however large the stride.
            WindowEdges::Pad | WindowEdges::Shift => (past_first.div_ceil(stride) + 1).min(size.div_ceil(stride)),
        };
        let last = count.saturating_sub(1) * stride;
        let last = if edges == WindowEdges::Shift { last.min(past_first) } else { last };
        Ok(Self { name: name.to_owned(), size, window, stride, count, first: 0, last, block: usize::MAX })
    }

    /// Creates zero windows, for an empty region of a dimension of `size`.
    pub(super) fn empty(name: &str, size: usize) -> Self {
        Self { name: name.to_owned(), size, window: 1, stride: 1, count: 0, first: 0, last: 0, block: usize::MAX }
    }

    /// Moves the windows to a region that starts at `first` in a dimension of `size`.
    pub(super) fn from(self, first: usize, size: usize) -> Self {
        Self { size, first, last: self.last + first, ..self }
    }

    /// Sets blocks of whole chunks of `chunk` elements, each at least as long as a window.
    pub(super) fn in_blocks_of(self, chunk: usize) -> Self {
        let block = chunk.saturating_mul(self.window.div_ceil(chunk));
        Self { block, ..self }
    }

    /// Returns the start of window `number`.
    fn start(&self, number: usize) -> usize {
        if number + 1 == self.count { self.last } else { self.first + number * self.stride }
    }

    /// Returns the number of windows that start before `place`.
    fn before(&self, place: usize) -> usize {
        let from_first = place.saturating_sub(self.first);
        if place > self.last { self.count } else { from_first.div_ceil(self.stride).min(self.count) }
    }

    /// Returns the windows that overlap `start..end`.
    pub(super) fn touching(&self, start: usize, end: usize) -> Range<usize> {
        (start + 1).checked_sub(self.window).map_or(0, |place| self.before(place))..self.before(end)
    }

    /// Returns the first window of `block`, which may be one past the last block.
    fn first_of(&self, block: usize) -> usize {
        self.before(block.saturating_mul(self.block))
    }

    fn block_of(&self, number: usize) -> usize {
        self.start(number) / self.block
    }

    /// Returns the number of windows in each block.
    pub(super) fn block_counts(&self) -> Vec<usize> {
        if self.count == 0 {
            return Vec::new();
        }
        (self.block_of(0)..=self.block_of(self.count - 1))
            .map(|block| self.first_of(block + 1) - self.first_of(block))
            .collect()
    }
}

/// The product of the windows along each dimension that has some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Windows {
    pub(super) axes: Vec<WindowAxis>,
    len: usize,
}

impl Windows {
    pub(super) fn new(axes: Vec<WindowAxis>) -> Result<Self> {
        let len = axes.iter().try_fold(1_usize, |len, axis| len.checked_mul(axis.count));
        let len = len.filter(|&len| len <= isize::MAX as usize).ok_or_else(|| {
            Error::invalid("window", "there are more windows than can be counted; pass a larger stride")
        })?;
        Ok(Self { axes, len })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the start of window `index` along each axis.
    ///
    /// Blocks are consecutive, the last axis changing fastest. All windows of blocks earlier along the first axis
    /// precede this block's first window; then those of blocks earlier along the second axis, and so on.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    pub(super) fn starts(&self, index: usize) -> Result<Vec<usize>> {
        if index >= self.len {
            return Err(Error::IndexOutOfRange { index, len: self.len });
        }
        let mut rest = index;
        // `per_block`: windows per block along the axes so far. `later`: windows along all later axes.
        let (mut per_block, mut later) = (1, self.len);
        let mut blocks = Vec::with_capacity(self.axes.len());
        for axis in &self.axes {
            later /= axis.count;
            let block = axis.block_of(rest / (per_block * later));
            let (first, end) = (axis.first_of(block), axis.first_of(block.saturating_add(1)));
            rest -= first * per_block * later;
            per_block *= end - first;
            blocks.push((first, end - first));
        }
        let mut starts = vec![0; self.axes.len()];
        for (place, axis) in self.axes.iter().enumerate().rev() {
            let (first, count) = blocks[place];
            starts[place] = axis.start(first + rest % count);
            rest /= count;
        }
        Ok(starts)
    }
}

impl Windows {
    /// Returns the index of the window with these numbers along the axes: the inverse of [`starts`](Self::starts).
    pub(super) fn index(&self, numbers: &[usize]) -> usize {
        let (mut per_block, mut later, mut index) = (1, self.len, 0);
        let mut inner = 0;
        for (axis, &number) in self.axes.iter().zip(numbers) {
            later /= axis.count;
            let block = axis.block_of(number);
            let (first, end) = (axis.first_of(block), axis.first_of(block.saturating_add(1)));
            index += first * per_block * later;
            per_block *= end - first;
            inner = inner * (end - first) + (number - first);
        }
        index + inner
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Enumerates the windows naively: first the blocks in order, then the windows of each.
    fn listed(axes: &[WindowAxis]) -> Vec<Vec<usize>> {
        let mut blocks: BTreeMap<Vec<usize>, Vec<Vec<usize>>> = BTreeMap::new();
        let mut all = vec![Vec::new()];
        for axis in axes {
            all = all.iter().flat_map(|one| (0..axis.count).map(|number| [&one[..], &[number]].concat())).collect();
        }
        for numbers in all {
            let block = axes.iter().zip(&numbers).map(|(axis, &number)| axis.start(number) / axis.block).collect();
            let starts = axes.iter().zip(&numbers).map(|(axis, &number)| axis.start(number)).collect();
            blocks.entry(block).or_default().push(starts);
        }
        blocks.into_values().flatten().collect()
    }

    #[test]
    fn windows_match_a_plain_list() {
        for edges in [WindowEdges::Drop, WindowEdges::Pad, WindowEdges::Shift] {
            for (size, window, stride, chunk) in
                [(10, 3, 2, 4), (10, 3, 3, 4), (7, 7, 1, 3), (13, 2, 7, 5), (20, 4, 1, 6), (9, 2, 2, 100)]
            {
                let axis = WindowAxis::new("x", size, window, stride, edges).unwrap();
                let starts: Vec<usize> = (0..axis.count).map(|number| axis.start(number)).collect();
                assert!(starts.iter().all(|&start| start < size), "{starts:?}");
                assert_eq!(starts.iter().filter(|&&start| start < 5).count(), axis.before(5));
                let touching = starts.iter().filter(|&&start| start < 6 && start + window > 4).count();
                assert_eq!(axis.touching(4, 6).len(), touching, "{axis:?}");
                let axis = axis.in_blocks_of(chunk);
                assert_eq!(axis.block_counts().iter().sum::<usize>(), axis.count);
                let other = WindowAxis::new("y", 11, 3, 2, edges).unwrap().in_blocks_of(5);
                let whole = WindowAxis::new("z", 5, 2, 3, edges).unwrap().from(7, 40).in_blocks_of(4);
                let axes = vec![axis, whole, other];
                let windows = Windows::new(axes.clone()).unwrap();
                let found: Vec<Vec<usize>> = (0..windows.len()).map(|index| windows.starts(index).unwrap()).collect();
                assert_eq!(found, listed(&axes));
                let numbers = |start: &Vec<usize>| -> Vec<usize> {
                    let number = |(axis, start): (&WindowAxis, &usize)| {
                        (0..axis.count).find(|&number| axis.start(number) == *start).unwrap()
                    };
                    axes.iter().zip(start).map(number).collect()
                };
                assert!(found.iter().enumerate().all(|(index, start)| windows.index(&numbers(start)) == index));
                assert!(matches!(windows.starts(windows.len()), Err(Error::IndexOutOfRange { .. })));
            }
        }
    }

    #[test]
    fn billions_of_windows_take_no_memory() {
        let axis = || WindowAxis::new("x", 1 << 20, 4, 1, WindowEdges::Pad).unwrap().in_blocks_of(64);
        let windows = Windows::new(vec![axis(), axis(), axis()]).unwrap();
        assert!(windows.len() > 1 << 59);
        assert_eq!(windows.starts(windows.len() - 1).unwrap(), [(1 << 20) - 4; 3]);
    }
}
