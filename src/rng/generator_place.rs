//! [`GeneratorPlace`]: a saved position of a generator.

use std::sync::Arc;

use super::mt19937::STATE_WORDS;
use super::{PythonGenerator, TorchGenerator};

/// The position of a [`TorchGenerator`] between two draws: the generator can continue from there, on any thread.
///
/// Consecutive positions share the words of the generator until it refills them, so each takes only a few dozen bytes.
///
/// # Example
/// ```
/// use sluicegate::TorchGenerator;
/// let mut generator = TorchGenerator::new(0);
/// let place = generator.place(None);
/// let first = generator.random_u32();
/// assert_eq!(TorchGenerator::at(&place).random_u32(), first);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratorPlace {
    pub(super) words: Arc<[u32; STATE_WORDS]>,
    pub(super) next: usize,
    /// The bits of a normal deviate that was generated together with another one.
    pub(super) kept_normal: Option<u64>,
    /// The position of Python's generator, if the generator has one.
    python: Option<Box<GeneratorPlace>>,
}

impl TorchGenerator {
    /// Returns the generator's position. It shares the words of `before`, an earlier position, if they are the same.
    #[doc(hidden)]
    #[must_use]
    pub fn place(&self, before: Option<&GeneratorPlace>) -> GeneratorPlace {
        let words = match before {
            Some(before) if *before.words == self.state => Arc::clone(&before.words),
            _ => Arc::new(self.state),
        };
        let pythons = before.and_then(|before| before.python.as_deref());
        let python = self.python.as_ref().map(|python| Box::new(python.words.place(pythons)));
        GeneratorPlace { words, next: self.next, kept_normal: self.kept_normal.map(f64::to_bits), python }
    }

    /// Returns the generator at `place`.
    #[doc(hidden)]
    #[must_use]
    pub fn at(place: &GeneratorPlace) -> Self {
        let kept_normal = place.kept_normal.map(f64::from_bits);
        let python = place.python.as_ref().map(|python| Box::new(PythonGenerator { words: Self::at(python) }));
        Self { state: *place.words, next: place.next, kept_normal, python }
    }
}
