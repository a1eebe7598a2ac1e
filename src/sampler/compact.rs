//! [`CompactNumbers`]: many indices, in 4 bytes each if they fit.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::watch;

/// A list of numbers with a known maximum: 4 bytes each if it fits into 32 bits, else 8.
#[derive(Clone, Debug)]
pub(super) enum CompactNumbers {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl CompactNumbers {
    /// Returns `len` zeros, to be replaced with numbers up to `largest`; `what` describes them in the error if there is
    /// no memory.
    pub(super) fn zeros(len: usize, largest: usize, what: &'static str) -> Result<Self> {
        Ok(match u32::try_from(largest) {
            Ok(_) => Self::Narrow(zeros(len, what)?),
            Err(_) => Self::Wide(zeros(len, what)?),
        })
    }

    /// Reads `len` lengths. `read` fills its buffer with the lengths from the given start on. Each is the length of a
    /// `thing`, and `check` may reject it.
    pub(super) fn read_lengths(
        len: usize,
        mut read: impl FnMut(usize, &mut [i64]) -> Result<()>,
        thing: &str,
        check: impl Fn(usize, usize) -> Result<()>,
    ) -> Result<Self> {
        const BLOCK: usize = 1 << 13;
        let mut block = vec![0; BLOCK.min(len)];
        let mut lengths = Self::zeros(len, 0, "lengths")?;
        watch::expect(len);
        for start in (0..len).step_by(BLOCK) {
            let block = &mut block[..BLOCK.min(len - start)];
            read(start, block)?;
            watch::advance(block.len())?;
            for (place, &length) in (start..).zip(&*block) {
                let Ok(length) = usize::try_from(length) else {
                    return Err(Error::invalid("lengths", format!("{thing} {place} has a negative length, {length}")));
                };
                check(place, length)?;
            }
            // Lengths beyond 32 bits are not expected: widen the list only when one occurs.
            if matches!(lengths, Self::Narrow(_)) && block.iter().any(|&length| u32::try_from(length).is_err()) {
                lengths = lengths.widened("lengths")?;
            }
            lengths.set_all(start, block.iter().map(|&length| length as usize));
        }
        Ok(lengths)
    }

    /// Returns the same numbers in 8 bytes each.
    fn widened(&self, what: &'static str) -> Result<Self> {
        let mut wide = Self::zeros(self.len(), usize::MAX, what)?;
        wide.set_all(0, self.iter());
        Ok(wide)
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Narrow(numbers) => numbers.len(),
            Self::Wide(numbers) => numbers.len(),
        }
    }

    #[inline]
    pub(super) fn get(&self, place: usize) -> usize {
        match self {
            Self::Narrow(numbers) => numbers[place] as usize,
            Self::Wide(numbers) => numbers[place] as usize,
        }
    }

    /// Stores `number`, which must not exceed the maximum of the list, at `place`.
    #[inline]
    pub(super) fn set(&mut self, place: usize, number: usize) {
        match self {
            Self::Narrow(numbers) => numbers[place] = number as u32,
            Self::Wide(numbers) => numbers[place] = number as u64,
        }
    }

    /// Stores `numbers` from `start` on; none may exceed the maximum of the list.
    pub(super) fn set_all(&mut self, start: usize, numbers: impl Iterator<Item = usize>) {
        match self {
            Self::Narrow(list) => {
                list[start..].iter_mut().zip(numbers).for_each(|(into, number)| *into = number as u32)
            }
            Self::Wide(list) => list[start..].iter_mut().zip(numbers).for_each(|(into, number)| *into = number as u64),
        }
    }

    /// Replaces the contents of `into` with the numbers at `places`.
    pub(super) fn copy(&self, places: Range<usize>, into: &mut Vec<usize>) {
        into.clear();
        match self {
            Self::Narrow(numbers) => into.extend(numbers[places].iter().map(|&number| number as usize)),
            Self::Wide(numbers) => into.extend(numbers[places].iter().map(|&number| number as usize)),
        }
    }

    /// Truncates the list to its first `len` numbers and frees the rest of its memory.
    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::Narrow(numbers) => {
                numbers.truncate(len);
                numbers.shrink_to_fit();
            }
            Self::Wide(numbers) => {
                numbers.truncate(len);
                numbers.shrink_to_fit();
            }
        }
    }

    /// Returns an iterator over all numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// Calls `visit` with each number in order, and regularly checks for cancellation.
    ///
    /// # Errors
    /// The watcher's error.
    pub(super) fn visit(&self, mut visit: impl FnMut(usize)) -> Result<()> {
        const AT_ONCE: usize = 1 << 16;
        for start in (0..self.len()).step_by(AT_ONCE) {
            watch::advance(0)?;
            (start..self.len().min(start + AT_ONCE)).for_each(|place| visit(self.get(place)));
        }
        Ok(())
    }

    /// Replaces positions in the list with the numbers at those positions.
    pub(super) fn look_up(&self, places: &mut [usize]) {
        match self {
            Self::Narrow(numbers) => places.iter_mut().for_each(|place| *place = numbers[*place] as usize),
            Self::Wide(numbers) => places.iter_mut().for_each(|place| *place = numbers[*place] as usize),
        }
    }

    /// Returns the size of the numbers in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Narrow(numbers) => size_of_val(numbers.as_slice()),
            Self::Wide(numbers) => size_of_val(numbers.as_slice()),
        }
    }
}

/// Returns `len` zeros. They are written in parts, since the first write to new memory maps it, which may take long.
fn zeros<T: Clone + Default>(len: usize, what: &'static str) -> Result<Vec<T>> {
    const AT_ONCE: usize = 1 << 20;
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(len).map_err(|error| Error::InvalidArgument {
        argument: what,
        reason: format!("no memory for {len} numbers ({error}); free memory, or sample from a part of the dataset"),
    })?;
    while numbers.len() < len {
        numbers.resize(len.min(numbers.len() + AT_ONCE), T::default());
        watch::advance(0)?;
    }
    Ok(numbers)
}

/// Returns a reader that fills its buffer with the `numbers` from the given start on.
pub(super) fn reader_of(numbers: &[i64]) -> impl FnMut(usize, &mut [i64]) -> Result<()> {
    |start, into| {
        into.copy_from_slice(&numbers[start..start + into.len()]);
        Ok(())
    }
}

/// Collects numbers whose maximum is unknown: 4 bytes each until one does not fit.
impl FromIterator<usize> for CompactNumbers {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut numbers = numbers.into_iter();
        let mut narrow = Vec::with_capacity(numbers.size_hint().0);
        while let Some(number) = numbers.next() {
            match u32::try_from(number) {
                Ok(number) => narrow.push(number),
                Err(_) => {
                    let before = narrow.into_iter().map(u64::from);
                    return Self::Wide(
                        before.chain([number as u64]).chain(numbers.map(|number| number as u64)).collect(),
                    );
                }
            }
        }
        Self::Narrow(narrow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_widen_when_one_does_not_fit() {
        for longest in [u32::MAX as i64, u32::MAX as i64 + 1, i64::MAX] {
            let mut lengths: Vec<i64> = (0..20_000).collect();
            lengths[17_000] = longest;
            let read = CompactNumbers::read_lengths(lengths.len(), reader_of(&lengths), "sample", |_, _| Ok(()));
            let read = read.expect("none is negative");
            assert_eq!(matches!(read, CompactNumbers::Narrow(_)), longest == u32::MAX as i64);
            assert!(read.iter().eq(lengths.iter().map(|&length| length as usize)));
        }
    }
}
