//! [`Place`]: the state of the search for the end of a row, with respect to quotes.

/// The state of the search for the end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a cell without quotes, or after the closing quote.
    Plain,
    /// Inside quotes.
    Quoted,
    /// After a quote inside quotes: the closing one, or the first of two that represent one.
    QuoteInQuotes,
}

impl Place {
    /// Skips quoted text from byte `at` of `text` on, which must not be its end. Returns where to continue.
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
