//! [`CompactNumbers`]: many indices, in 4 bytes each where they fit.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::watch;

/// A list of numbers of which the largest possible is known: 4 bytes each where that fits into 32 bits, else 8.
#[derive(Clone, Debug)]
pub(super) enum CompactNumbers {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl CompactNumbers {
    /// `len` zeros, to be replaced by numbers up to `largest`; `what` they are is said where there is no memory for them.
    pub(super) fn zeros(len: usize, largest: usize, what: &'static str) -> Result<Self> {
        Ok(match u32::try_from(largest) {
            Ok(_) => Self::Narrow(zeros(len, what)?),
            Err(_) => Self::Wide(zeros(len, what)?),
        })
    }

    /// `len` lengths that `read` copies: those from a start on, as many as there is room for. Each is that of a `thing`, and
    /// `check` may refuse it.
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
                    let reason = format!("{thing} {place} has the length {length}, below 0");
                    return Err(Error::InvalidArgument { argument: "lengths", reason });
                };
                check(place, length)?;
            }
            // No documents are so long: room is made where one is.
            if matches!(lengths, Self::Narrow(_)) && block.iter().any(|&length| u32::try_from(length).is_err()) {
                lengths = lengths.widened("lengths")?;
            }
            lengths.set_all(start, block.iter().map(|&length| length as usize));
        }
        Ok(lengths)
    }

    /// The same numbers, with room for larger ones.
    fn widened(&self, what: &'static str) -> Result<Self> {
        let mut wide = Self::zeros(self.len(), usize::MAX, what)?;
        wide.set_all(0, self.iter());
        Ok(wide)
    }

    /// How many there are.
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

    /// Puts `number`, which must not be larger than what the list was made for, at `place`.
    #[inline]
    pub(super) fn set(&mut self, place: usize, number: usize) {
        match self {
            Self::Narrow(numbers) => numbers[place] = number as u32,
            Self::Wide(numbers) => numbers[place] = number as u64,
        }
    }

    /// Puts `numbers`, none of them larger than what the list was made for, at the places from `start` on.
    pub(super) fn set_all(&mut self, start: usize, numbers: impl Iterator<Item = usize>) {
        match self {
            Self::Narrow(list) => {
                list[start..].iter_mut().zip(numbers).for_each(|(into, number)| *into = number as u32)
            }
            Self::Wide(list) => list[start..].iter_mut().zip(numbers).for_each(|(into, number)| *into = number as u64),
        }
    }

    /// Replaces what is in `into` by the numbers at `places`.
    pub(super) fn copy(&self, places: Range<usize>, into: &mut Vec<usize>) {
        into.clear();
        match self {
            Self::Narrow(numbers) => into.extend(numbers[places].iter().map(|&number| number as usize)),
            Self::Wide(numbers) => into.extend(numbers[places].iter().map(|&number| number as usize)),
        }
    }

    /// Cuts the list to its first `len` numbers and gives the rest of its memory back.
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

    /// All of them, one after the other.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// Calls `visit` with all of them, one after the other, and looks now and then whether the work is to go on.
    ///
    /// # Errors
    /// That of the watcher.
    pub(super) fn visit(&self, mut visit: impl FnMut(usize)) -> Result<()> {
        const AT_ONCE: usize = 1 << 16;
        for start in (0..self.len()).step_by(AT_ONCE) {
            watch::advance(0)?;
            (start..self.len().min(start + AT_ONCE)).for_each(|place| visit(self.get(place)));
        }
        Ok(())
    }

    /// Replaces places in the list by the numbers there.
    pub(super) fn look_up(&self, places: &mut [usize]) {
        match self {
            Self::Narrow(numbers) => places.iter_mut().for_each(|place| *place = numbers[*place] as usize),
            Self::Wide(numbers) => places.iter_mut().for_each(|place| *place = numbers[*place] as usize),
        }
    }

    /// The memory that the numbers take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Narrow(numbers) => size_of_val(numbers.as_slice()),
            Self::Wide(numbers) => size_of_val(numbers.as_slice()),
        }
    }
}

/// `len` zeros. Fresh memory is mapped when it is written to, which takes long for much of it.
fn zeros<T: Clone + Default>(len: usize, what: &'static str) -> Result<Vec<T>> {
    const AT_ONCE: usize = 1 << 20;
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(len).map_err(|error| Error::InvalidArgument {
        argument: what,
        reason: format!("no memory for {len} numbers ({error}): free memory, or sample from a part of the dataset"),
    })?;
    while numbers.len() < len {
        numbers.resize(len.min(numbers.len() + AT_ONCE), T::default());
        watch::advance(0)?;
    }
    Ok(numbers)
}

/// What copies `numbers` from a start on, as many as there is room for.
pub(super) fn reader_of(numbers: &[i64]) -> impl FnMut(usize, &mut [i64]) -> Result<()> {
    |start, into| {
        into.copy_from_slice(&numbers[start..start + into.len()]);
        Ok(())
    }
}

/// Numbers of which the largest is not known: narrow, until one does not fit.
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
    fn lengths_widen_where_one_does_not_fit() {
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
