//! [`Place`]: where in the quotes of a row the search for its end is.

/// What the search for the end of a row is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A cell without quotes, or after the closing one.
    Plain,
    /// A cell in quotes.
    Quoted,
    /// After a quote in quotes: the closing one, or the first of two that represent one.
    QuoteInQuotes,
}

impl Place {
    /// Skips text in quotes from byte `at` of `text` on, where there must be some. Returns where to continue.
    pub(super) fn skip_quoted(&mut self, text: &[u8], at: usize) -> usize {
        if *self == Self::QuoteInQuotes {
            let is_doubled = text[at] == b'"';
            *self = if is_doubled { Self::Quoted } else { Self::Plain };
            return at + usize::from(is_doubled);
        }
        let Some(found) = memchr::memchr(b'"', &text[at..]) else { return text.len() };
        *self = Self::QuoteInQuotes;
        at + found + 1
    }
}
