//! [`CsvParse`]: rows of cells that are read sequentially.

use super::dataset::{CsvHeader, INFERRED_FROM, check_delimiter};
use super::fields::{CsvFields, names_of};
use super::quotes::Place;
use super::row::Cells;
use super::types::Inference;
use crate::Result;
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::sequential::StreamFormat;
use crate::dataset::format::sequential::byte_stream::ByteStream;
use crate::dataset::format::sequential::parse::{Found, LOOK, Parse, Sample, Step, Trouble};
use crate::dataset::format::sequential::text_parse::{LineCount, begin_text};

/// Parses the same rows as [`Csv`](crate::Csv).
struct CsvParse {
    fields: Option<Vec<TypedField>>,
    defaults: Vec<(String, String)>,
    header: CsvHeader,
    delimiter: u8,
    largest: usize,
    /// Set once the first rows were read.
    row: Option<CsvFields>,
    lines: LineCount,
}

/// Where a row ends in the window: the size of its text, and of everything to consume.
struct RowEnd {
    text: usize,
    taken: usize,
}

impl StreamFormat {
    /// Rows of cells, separated by `delimiter`.
    ///
    /// The fields are the columns in `fields`; with `None`, all columns, whose types are inferred from the first 1,000
    /// rows. In that case, `defaults` has the text to use for empty cells, by column.
    #[must_use]
    pub fn csv(
        fields: Option<Vec<TypedField>>,
        defaults: Vec<(String, String)>,
        header: CsvHeader,
        delimiter: u8,
    ) -> Self {
        Self::new("CSV", move |largest| CsvParse::new(fields.clone(), defaults.clone(), header, delimiter, largest))
    }
}

impl CsvParse {
    fn new(
        fields: Option<Vec<TypedField>>,
        defaults: Vec<(String, String)>,
        header: CsvHeader,
        delimiter: u8,
        largest: u64,
    ) -> Result<Self> {
        check_delimiter(delimiter)?;
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        Ok(Self { fields, defaults, header, delimiter, largest, row: None, lines: LineCount::default() })
    }

    /// Finds the end of the next row that is not empty; `None` at the end.
    fn row(&mut self, bytes: &mut ByteStream) -> Found<Option<RowEnd>> {
        let (mut at, mut place, mut quote) = (0, Place::Plain, 0);
        'window: loop {
            let window = bytes.window();
            while at < window.len() {
                if place != Place::Plain {
                    at = place.skip_quoted(window, at);
                    continue;
                }
                match memchr::memchr3(b'"', b'\n', b'\r', &window[at..]) {
                    Some(found) if window[at + found] != b'"' => {
                        let text = at + found;
                        if text > 0 && text <= self.largest {
                            return Ok(Some(RowEnd { text, taken: text + 1 }));
                        }
                        if text > 0 {
                            return Err(self.long(bytes, text + 1));
                        }
                        // An empty row, such as the one between a carriage return and its line feed.
                        self.take(bytes, 1);
                        at = 0;
                        continue 'window;
                    }
                    Some(found) => {
                        at += found + 1;
                        if at == 1 || window[at - 2] == self.delimiter {
                            (place, quote) = (Place::Quoted, at - 1);
                        }
                    }
                    None => at = window.len(),
                }
            }
            if at > self.largest {
                let reason = format!(
                    "a row has more than {} bytes; raise max_sample_bytes, or close an open quote",
                    self.largest
                );
                return Err(Trouble::Rest { offset: bytes.offset(), reason });
            }
            if bytes.more()? {
                continue;
            }
            if place == Place::Quoted {
                let reason = (quote, "a quote is opened here and never closed".to_owned());
                return Err(rest(self.lines.refuse(bytes.offset(), bytes.window(), reason)));
            }
            let text = bytes.window().len();
            return Ok((text > 0).then_some(RowEnd { text, taken: text }));
        }
    }

    fn take(&mut self, bytes: &mut ByteStream, taken: usize) {
        self.lines.pass(&bytes.window()[..taken]);
        bytes.consume(taken);
    }

    /// Skips a row that is too long.
    fn long(&mut self, bytes: &mut ByteStream, taken: usize) -> Trouble {
        let reason = format!("a row has more than {} bytes; raise max_sample_bytes", self.largest);
        let trouble = self.lines.refuse(bytes.offset(), b"", (0, reason));
        self.take(bytes, taken);
        trouble
    }

    /// Reads and consumes the header; returns its names, which must be those of the sources before it.
    fn header(&mut self, bytes: &mut ByteStream) -> Found<Option<Vec<String>>> {
        let Some(end) = self.row(bytes)? else { return Ok(None) };
        let (offset, row) = (bytes.offset(), &bytes.window()[..end.text]);
        let names = names_of(row, self.delimiter).map_err(|refusal| rest(self.lines.refuse(offset, row, refusal)))?;
        self.take(bytes, end.taken);
        match &self.row {
            Some(row) if row.names() != names => {
                let reason = format!("the header is {names:?}, but that of the first file is {:?}", row.names());
                Err(Trouble::Rest { offset, reason })
            }
            _ => Ok(Some(names)),
        }
    }

    /// Calls `see` with the column number and text of each cell of the next row; returns false if there is none.
    fn visit_row(&mut self, bytes: &mut ByteStream, mut see: impl FnMut(usize, &[u8])) -> Found<bool> {
        let Some(end) = self.row(bytes)? else { return Ok(false) };
        let (offset, row) = (bytes.offset(), &bytes.window()[..end.text]);
        for (column, cell) in Cells::new(row, self.delimiter).enumerate() {
            let (_, cell) = cell.map_err(|refusal| rest(self.lines.refuse(offset, row, refusal)))?;
            see(column, &cell);
        }
        self.take(bytes, end.taken);
        Ok(true)
    }
}

/// Turns damage to a sample into damage to everything that follows, which can't be read without this row.
fn rest(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Sample { offset, reason } => Trouble::Rest { offset, reason },
        trouble => trouble,
    }
}

impl Parse for CsvParse {
    fn fields(&self) -> &[TypedField] {
        self.row.as_ref().map_or(&[], CsvFields::typed)
    }

    fn needs_look(&self) -> bool {
        // Even if fields are given: the first file shows which columns they are.
        self.row.is_none()
    }

    fn look(&mut self, bytes: &mut ByteStream, is_last: bool) -> Found<bool> {
        self.lines.begin();
        begin_text(bytes)?;
        let names = match self.header {
            CsvHeader::FirstRow => self.header(bytes)?.unwrap_or_default(),
            CsvHeader::None => {
                let mut count = 0;
                self.visit_row(bytes, |column, _| count = column + 1)?;
                bytes.start_over();
                begin_text(bytes)?;
                (0..count).map(|column: usize| column.to_string()).collect()
            }
        };
        // Without a row in any source, the names are missing: an error if fields are given.
        if names.is_empty() && (!is_last || self.row.is_some()) {
            return Ok(false);
        }
        let mut has_samples = self.fields.is_some();
        let fields = match self.fields.clone() {
            Some(fields) => fields,
            None => {
                let defaults = self.defaults.clone();
                let mut inference = Inference::new(&names, &defaults);
                for _ in 0..INFERRED_FROM {
                    if bytes.offset() > LOOK || !self.visit_row(bytes, |column, cell| inference.see(column, cell))? {
                        break;
                    }
                    has_samples = true;
                }
                inference.fields()?
            }
        };
        self.row = Some(CsvFields::new(names, fields, self.delimiter)?);
        Ok(has_samples)
    }

    fn begin(&mut self, bytes: &mut ByteStream) -> Found<()> {
        self.lines.begin();
        begin_text(bytes)?;
        if self.header == CsvHeader::FirstRow {
            self.header(bytes)?;
        }
        Ok(())
    }

    fn next(&mut self, bytes: &mut ByteStream, sample: Sample<'_>) -> Found<Step> {
        let Some(end) = self.row(bytes)? else { return Ok(Step::End) };
        let (offset, row) = (bytes.offset(), &bytes.window()[..end.text]);
        let filled = match (sample, &self.row) {
            (Sample::Decode(into), Some(fields)) => fields.fill(row, into),
            _ => Ok(()),
        };
        let filled = filled.map_err(|refusal| self.lines.refuse(offset, row, refusal));
        self.take(bytes, end.taken);
        filled.map(|()| Step::Sample)
    }

    fn go_to(&mut self, bytes: &mut ByteStream, place: u64) -> Found<()> {
        self.lines.lose();
        bytes.seek(place)
    }
}
