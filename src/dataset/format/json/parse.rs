//! [`JsonParse`]: lines of JSON that are read sequentially.

use super::fields::read_fields;
use crate::dataset::format::field::decoding::Decoded;
use crate::dataset::format::field::json_text::{Refusal, check};
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::sequential::StreamFormat;
use crate::dataset::format::sequential::byte_stream::ByteStream;
use crate::dataset::format::sequential::parse::{Found, Parse, Sample, Step};
use crate::dataset::format::sequential::text_parse::{LineCount, begin_text};

/// Parses the same lines as [`JsonLines`](crate::JsonLines): as a whole, or the fields of their objects.
struct JsonParse {
    fields: Vec<TypedField>,
    is_whole: bool,
    largest: usize,
    lines: LineCount,
}

impl StreamFormat {
    /// Lines of JSON: these fields of their objects; with `None` whole lines, as one field of JSON text.
    #[must_use]
    pub fn json_lines(fields: Option<Vec<TypedField>>) -> Self {
        Self::new("JSON lines", move |largest| Ok(JsonParse::new(fields.clone(), largest)))
    }
}

impl JsonParse {
    fn new(fields: Option<Vec<TypedField>>, largest: u64) -> Self {
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        let is_whole = fields.is_none();
        let fields = fields.unwrap_or_else(|| vec![TypedField::json("json")]);
        Self { fields, is_whole, largest, lines: LineCount::default() }
    }

    /// Goes to the next line that is not blank; returns where its text and the line itself end in the window.
    fn line(&mut self, bytes: &mut ByteStream) -> Found<Option<(usize, usize)>> {
        let mut seen = 0;
        loop {
            let window = bytes.window();
            let newline = memchr::memchr(b'\n', &window[seen..]).map(|found| seen + found);
            let is_long = newline.unwrap_or(window.len()) > self.largest;
            if newline.is_none() && !is_long {
                seen = window.len();
                if bytes.more()? {
                    continue;
                }
            }
            let window = bytes.window();
            let taken = newline.map_or(window.len(), |newline| newline + 1);
            let text = &window[..newline.unwrap_or(window.len())];
            if is_long {
                return self.pass_long_line(bytes).map(|()| None);
            }
            if let Some(last) = text.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) {
                return Ok(Some((last + 1, taken)));
            }
            if taken == 0 {
                return Ok(None);
            }
            self.lines.pass(&window[..taken]);
            bytes.consume(taken);
            seen = 0;
        }
    }

    /// Skips a line that is too long, and returns its error.
    fn pass_long_line(&mut self, bytes: &mut ByteStream) -> Found<()> {
        let reason = format!("a line has more than {} bytes; raise max_sample_bytes", self.largest);
        let trouble = self.lines.refuse(bytes.offset(), b"", (0, reason));
        loop {
            let newline = memchr::memchr(b'\n', bytes.window());
            let taken = newline.map_or(bytes.window().len(), |newline| newline + 1);
            self.lines.pass(&bytes.window()[..taken]);
            bytes.consume(taken);
            if newline.is_some() || !bytes.more()? {
                return Err(trouble);
            }
        }
    }

    fn decode(&self, line: &[u8], into: &mut Decoded) -> Result<(), Refusal> {
        let text = std::str::from_utf8(line).map_err(|error| (error.valid_up_to(), "not UTF-8 text".to_owned()))?;
        if !self.is_whole {
            return read_fields(text, &self.fields, into);
        }
        check(text)?;
        into.column(0).bytes.extend(line);
        Ok(())
    }
}

impl Parse for JsonParse {
    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn begin(&mut self, bytes: &mut ByteStream) -> Found<()> {
        self.lines.begin();
        begin_text(bytes)
    }

    fn next(&mut self, bytes: &mut ByteStream, sample: Sample<'_>) -> Found<Step> {
        let Some((end, taken)) = self.line(bytes)? else { return Ok(Step::End) };
        let (offset, line) = (bytes.offset(), &bytes.window()[..end]);
        let decoded = match sample {
            Sample::Decode(into) => self.decode(line, into),
            Sample::PassOver => Ok(()),
        };
        let decoded = decoded.map_err(|refusal| self.lines.refuse(offset, line, refusal));
        self.lines.pass(&bytes.window()[..taken]);
        bytes.consume(taken);
        decoded.map(|()| Step::Sample)
    }

    fn go_to(&mut self, bytes: &mut ByteStream, place: u64) -> Found<()> {
        self.lines.lose();
        bytes.seek(place)
    }
}
