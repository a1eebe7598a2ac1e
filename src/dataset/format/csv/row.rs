//! The cells of a row of a CSV file.

use std::borrow::Cow;

/// A cell: its offset in the row, and its text without quotes.
pub(crate) type Cell<'a> = (usize, Cow<'a, [u8]>);

/// The remaining cells of a row.
pub(super) struct Cells<'a> {
    row: &'a [u8],
    /// Offset of the next cell; `None` if there are no more.
    next: Option<usize>,
    delimiter: u8,
}

impl<'a> Cells<'a> {
    pub(super) fn new(row: &'a [u8], delimiter: u8) -> Self {
        Self { row, next: Some(0), delimiter }
    }
}

/// Fails, with the offset, if a closing quote is followed by text; nothing follows that.
impl<'a> Iterator for Cells<'a> {
    type Item = Result<Cell<'a>, (usize, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.next.take()?;
        let rest = &self.row[start..];
        if rest.first() != Some(&b'"') {
            let length = memchr::memchr(self.delimiter, rest);
            self.next = length.map(|length| start + length + 1);
            return Some(Ok((start, Cow::Borrowed(&rest[..length.unwrap_or(rest.len())]))));
        }
        let mut text: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        let mut at = 1;
        loop {
            let Some(found) = memchr::memchr(b'"', &rest[at..]) else {
                return Some(Err((start, "a quote is opened here and never closed".into())));
            };
            let (part, after) = (&rest[at..at + found], at + found + 1);
            match &mut text {
                Cow::Borrowed([]) => text = Cow::Borrowed(part),
                text => text.to_mut().extend(part),
            }
            if rest.get(after) == Some(&b'"') {
                // Two quotes represent one.
                text.to_mut().push(b'"');
                at = after + 1;
                continue;
            }
            match rest.get(after) {
                None => {}
                Some(&byte) if byte == self.delimiter => self.next = Some(start + after + 1),
                Some(_) => {
                    let reason = "unexpected text after a closing quote; double a quote inside quotes";
                    return Some(Err((start + after, reason.into())));
                }
            }
            return Some(Ok((start, text)));
        }
    }
}
