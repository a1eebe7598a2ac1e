//! [`PythonGenerator`]: the generator of Python's `random`.

use super::TorchGenerator;
use super::generator_words::{GENERATOR_WORDS, GeneratorStream, generator_words};

/// The same generator as a `random.Random`, number for number.
///
/// Source: Matsumoto and Nishimura, as for [`TorchGenerator`]: only the numbers made of its words differ.
///
/// # Example
/// ```
/// use sluicegate::internal::PythonGenerator;
///
/// let mut words = [0; 624];
/// words[0] = 1;
/// // random.setstate((3, (1, *[0] * 623, 0), None)); random.random()
/// assert_eq!(PythonGenerator::from_parts(words, 0).random(), 0.000_976_592_302_322_387_7);
/// ```
#[derive(Clone, Debug)]
pub struct PythonGenerator {
    pub(super) words: TorchGenerator,
}

impl PythonGenerator {
    /// Returns the generator whose next draws are `words` from `next` on.
    #[must_use]
    pub fn from_parts(words: [u32; GENERATOR_WORDS], next: usize) -> Self {
        Self { words: TorchGenerator::from_parts(words, next, None) }
    }

    /// Returns the arguments from which [`from_parts`](Self::from_parts) creates the same generator.
    #[must_use]
    pub fn parts(&self) -> (&[u32; GENERATOR_WORDS], usize) {
        let (words, next, _) = self.words.parts();
        (words, next)
    }

    /// Returns Python's global generator as it is while a Python dataset fetches the sample with this `key`.
    pub(crate) fn of_global_key(key: u64) -> Self {
        let mut words = [0; GENERATOR_WORDS];
        generator_words(key, GeneratorStream::GlobalPython, &mut words);
        Self::from_parts(words, 0)
    }

    /// Returns `random.random()`: a multiple of 2^-53 below 1.
    pub fn random(&mut self) -> f64 {
        let [high, low] = [self.words.random_u32() >> 5, self.words.random_u32() >> 6];
        (f64::from(high) * f64::from(1_u32 << 26) + f64::from(low)) * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns the index of the element that `random.choices` chooses among `len` with equal weights.
    pub fn choice(&mut self, len: usize) -> usize {
        (self.random() * len as f64) as usize
    }

    /// Returns the index of the element that `random.choices` chooses with these cumulative weights, one for each.
    pub fn weighted_choice(&mut self, cumulative: &[f64]) -> usize {
        let drawn = self.random() * cumulative.last().copied().unwrap_or_default();
        // Python's bisection: with a negative weight, sums are not sorted, and another search would differ.
        let (mut low, mut high) = (0, cumulative.len().saturating_sub(1));
        while low < high {
            let middle = usize::midpoint(low, high);
            if drawn < cumulative[middle] {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Returns the numbers below `len` in the order that `random.shuffle` puts them.
    pub fn shuffled(&mut self, len: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len as usize).collect();
        for last in (1..len).rev() {
            order.swap(last as usize, self.below(last + 1) as usize);
        }
        order
    }

    fn below(&mut self, range: u32) -> u32 {
        loop {
            let drawn = self.words.random_u32() >> range.leading_zeros();
            if drawn < range {
                return drawn;
            }
        }
    }
}
