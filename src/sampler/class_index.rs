//! [`ClassIndex`]: which samples belong to which class.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::compact::{CompactNumbers, reader_of};
use crate::error::{Error, Result};
use crate::rng::digest;
use crate::watch;

/// The samples of every class, for arbitrary label values: the classes are the labels that occur, in ascending order.
///
/// Takes 4 bytes per sample (8 from 2^32 samples on) and 12 per class, and is built in linear time by a counting sort,
/// which reads the labels three times and stores none of them.
///
/// # Example
/// ```
/// use sluicegate::ClassIndex;
///
/// let index = ClassIndex::new(&[7, -1, 7, 7])?;
/// assert_eq!(index.classes(), [-1, 7]);
/// let seven = index.class_of(7).expect("there are samples of it");
/// assert_eq!(index.count(seven), 3);
/// assert_eq!(index.sample_at(seven, 1), 2);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug)]
pub struct ClassIndex {
    /// Ascending and unique.
    classes: Vec<i64>,
    /// The start of each class in `samples`, followed by the end of the last class.
    starts: CompactNumbers,
    /// The samples, grouped by class; ascending within a class.
    samples: CompactNumbers,
}

/// Number of labels to read at a time.
const BLOCK: usize = 1 << 13;

impl ClassIndex {
    /// Returns the index of samples with these `labels`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no memory for it.
    pub fn new(labels: &[i64]) -> Result<Self> {
        Self::read(labels.len(), reader_of(labels))
    }

    /// Returns the index of `len` samples. `read` fills its buffer with the labels from the given start on. The labels
    /// are read from front to back, several times, and must be the same each time.
    ///
    /// # Errors
    /// Those of `read`; [`Error::InvalidArgument`] if the labels changed meanwhile, or there is no memory for the
    /// index.
    pub fn read(len: usize, read: impl FnMut(usize, &mut [i64]) -> Result<()>) -> Result<Self> {
        let mut labels = Labels { len, read };
        let Some((low, high)) = labels.extremes()? else {
            let nothing = |len| CompactNumbers::zeros(len, 0, "labels");
            return Ok(Self { classes: Vec::new(), starts: nothing(1)?, samples: nothing(0)? });
        };
        // A table over the whole range of labels is small compared to the samples, or small in absolute terms.
        let range = high.abs_diff(low);
        if range < (len as u64 / 4).max(1 << 16) {
            let place = |label: i64| (low..=high).contains(&label).then(|| label.abs_diff(low) as usize);
            let mut counts = vec![0_u64; range as usize + 1];
            labels.each(|_, label| place(label).map(|place| counts[place] += 1))?;
            let classes = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
            let classes = classes.map(|(place, _)| (low.wrapping_add_unsigned(place as u64), place)).collect();
            labels.sort(classes, counts, place)
        } else {
            let mut places: HashMap<i64, usize, BuildHasherDefault<LabelHasher>> = HashMap::default();
            let mut counts: Vec<u64> = Vec::new();
            labels.each(|_, label| {
                let place = *places.entry(label).or_insert(counts.len());
                match counts.get_mut(place) {
                    Some(count) => *count += 1,
                    None => counts.push(1),
                }
                Some(())
            })?;
            let mut classes: Vec<(i64, usize)> = places.iter().map(|(&label, &place)| (label, place)).collect();
            classes.sort_unstable();
            labels.sort(classes, counts, |label| places.get(&label).copied())
        }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the labels that occur, in ascending order. The other methods identify a class by its position in this
    /// list.
    pub fn classes(&self) -> &[i64] {
        &self.classes
    }

    /// Returns the class of this label, or None if no sample has it.
    pub fn class_of(&self, label: i64) -> Option<usize> {
        self.classes.binary_search(&label).ok()
    }

    /// Returns the number of samples of `class`, which is at least 1.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn count(&self, class: usize) -> usize {
        self.range(class).len()
    }

    /// Returns the `place`-th sample of `class`, counting in ascending order.
    ///
    /// # Panics
    /// If there is no such class, or it has fewer samples.
    #[inline]
    pub fn sample_at(&self, class: usize, place: usize) -> usize {
        let range = self.range(class);
        assert!(place < range.len(), "sample {place} of a class of {} samples", range.len());
        self.samples.get(range.start + place)
    }

    /// Returns the number of samples in the classes before `class`, which is where `class` begins in the index.
    pub(super) fn start_of(&self, class: usize) -> usize {
        self.starts.get(class)
    }

    /// Replaces positions in the index with the samples at those positions.
    pub(super) fn look_up(&self, places: &mut [usize]) {
        self.samples.look_up(places);
    }

    /// Returns the size of the index in bytes.
    pub fn bytes(&self) -> usize {
        self.samples.bytes() + self.starts.bytes() + size_of_val(self.classes.as_slice())
    }

    /// Returns a digest of the labels of all samples.
    #[doc(hidden)]
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest((0..self.classes.len()).flat_map(|class| self.words_of(class)))
    }

    /// Encodes a class as 64-bit words: its label, its number of samples, and the samples.
    pub(super) fn words_of(&self, class: usize) -> impl Iterator<Item = u64> {
        let range = self.range(class);
        let head = [self.classes[class] as u64, range.len() as u64];
        head.into_iter().chain(range.map(|place| self.samples.get(place) as u64))
    }

    #[inline]
    fn range(&self, class: usize) -> Range<usize> {
        self.starts.get(class)..self.starts.get(class + 1)
    }
}

/// Labels that are read block by block.
struct Labels<R> {
    len: usize,
    read: R,
}

impl<R: FnMut(usize, &mut [i64]) -> Result<()>> Labels<R> {
    /// Calls `see` with every sample and its label; `see` returns None for a label that earlier passes did not see.
    fn each(&mut self, mut see: impl FnMut(usize, i64) -> Option<()>) -> Result<()> {
        let mut block = vec![0; BLOCK.min(self.len)];
        for start in (0..self.len).step_by(BLOCK) {
            let block = &mut block[..BLOCK.min(self.len - start)];
            watch::advance(block.len())?;
            (self.read)(start, block)?;
            for (sample, &label) in (start..).zip(&*block) {
                see(sample, label).ok_or_else(changed)?;
            }
        }
        Ok(())
    }

    fn extremes(&mut self) -> Result<Option<(i64, i64)>> {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        self.each(|_, label| {
            (low, high) = (low.min(label), high.max(label));
            Some(())
        })?;
        Ok((self.len > 0).then_some((low, high)))
    }

    /// Runs the last pass of the counting sort, which stores every sample in its class. `classes` holds the labels in
    /// ascending order, each with its position in `counts`, which `place_of` returns.
    fn sort(
        &mut self,
        classes: Vec<(i64, usize)>,
        counts: Vec<u64>,
        place_of: impl Fn(i64) -> Option<usize>,
    ) -> Result<ClassIndex> {
        let mut starts = CompactNumbers::zeros(classes.len() + 1, self.len, "labels")?;
        let mut samples = CompactNumbers::zeros(self.len, self.len, "labels")?;
        let mut next = counts;
        let mut start = 0;
        for (class, &(_, place)) in classes.iter().enumerate() {
            starts.set(class, start);
            start += std::mem::replace(&mut next[place], start as u64) as usize;
        }
        starts.set(classes.len(), start);
        let mut take = |label| {
            let next = next.get_mut(place_of(label)?)?;
            *next += 1;
            Some(*next as usize - 1)
        };
        match &mut samples {
            CompactNumbers::Narrow(samples) => {
                self.each(|sample, label| samples.get_mut(take(label)?).map(|into| *into = sample as u32))?;
            }
            CompactNumbers::Wide(samples) => {
                self.each(|sample, label| samples.get_mut(take(label)?).map(|into| *into = sample as u64))?;
            }
        }
        // If a class is not full, some label occurred more often than it was counted and overwrote other samples.
        let filled = classes.iter().enumerate().all(|(class, &(_, place))| next[place] == starts.get(class + 1) as u64);
        if !filled {
            return Err(changed());
        }
        Ok(ClassIndex { classes: classes.into_iter().map(|(label, _)| label).collect(), starts, samples })
    }
}

fn changed() -> Error {
    Error::invalid("labels", "they changed while they were being read; do not modify them until the sampler is made")
}

/// Labels are not chosen by an attacker, so one multiplication spreads them well enough.
#[derive(Default)]
struct LabelHasher(u64);

impl Hasher for LabelHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_i64(i64::from(byte)));
    }

    fn write_i64(&mut self, label: i64) {
        // Use both halves: labels that are multiples of a power of two leave the lower one empty.
        let product = u128::from(self.0 ^ label as u64) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> u64::BITS) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
