//! [`Input`]: numbers and parts, cut from the front of a fuzzer's input.

/// The rest of an input. At its end, numbers are 0 and parts are empty.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub(super) fn word(&mut self) -> usize {
        usize::from(self.byte()) | usize::from(self.byte()) << 8
    }

    /// Returns one of `choices`.
    pub(super) fn choice<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// Returns a part that is preceded by its length (two bytes).
    pub(super) fn part(&mut self) -> &'a [u8] {
        let length = self.word().min(self.0.len());
        let (part, rest) = self.0.split_at(length);
        self.0 = rest;
        part
    }

    /// Returns the rest.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
