//! [`BatchWriter`] and [`SampleWriter`]: the room that samples are read into.

use std::ops::Range;

use crate::GeneratorPlace;

/// Where one field of a batch lies in its slot. Distances are in bytes, places count from the start of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Samples of one size, one after the other.
    Fixed {
        /// The first byte of the first sample.
        offset: usize,
        /// The distance from one sample to the next.
        bytes_per_sample: usize,
    },
    /// Samples of any size, one after the other.
    Variable {
        /// The first byte of the first sample.
        offset: usize,
        /// The size of one element.
        bytes_per_element: usize,
        /// The place of the `int64` offsets, one more than there are samples, from 0 on and never decreasing: the samples
        /// from `offsets[row]` to `offsets[row + 1]` elements after the first are row `row` (as Arrow's lists have it).
        offsets: usize,
    },
    /// Samples of any size, each in as much room as the longest one needs.
    Padded {
        /// The first byte of the first sample.
        offset: usize,
        /// The size of one element.
        bytes_per_element: usize,
        /// The distance from one sample to the next.
        bytes_per_sample: usize,
        /// The place of the `int64` lengths, in elements, one for each sample.
        lengths: usize,
        /// True if a sample ends where its room ends, with the padding before it; false if it begins where that begins.
        at_end: bool,
    },
}

impl Column {
    /// The place of the first sample.
    #[must_use]
    pub fn offset(&self) -> usize {
        let (Self::Fixed { offset, .. } | Self::Variable { offset, .. } | Self::Padded { offset, .. }) = *self;
        offset
    }

    /// Where row `row` lies in `bytes`, the slot.
    #[inline]
    pub(crate) fn sample(&self, bytes: &[u8], row: usize) -> Range<usize> {
        match *self {
            Self::Fixed { offset, bytes_per_sample } => {
                let start = offset + row * bytes_per_sample;
                start..start + bytes_per_sample
            }
            Self::Variable { offset, bytes_per_element, offsets } => {
                let at = |row| offset + number_at(bytes, offsets, row) * bytes_per_element;
                at(row)..at(row + 1)
            }
            Self::Padded { offset, bytes_per_element, bytes_per_sample, lengths, at_end } => {
                let (start, end) = (offset + row * bytes_per_sample, offset + (row + 1) * bytes_per_sample);
                let size = number_at(bytes, lengths, row) * bytes_per_element;
                if at_end { end - size..end } else { start..start + size }
            }
        }
    }

    /// The end of the last of `rows` samples.
    fn end(&self, bytes: &[u8], rows: usize) -> usize {
        match *self {
            Self::Fixed { offset, bytes_per_sample } | Self::Padded { offset, bytes_per_sample, .. } => {
                offset + bytes_per_sample * rows
            }
            Self::Variable { offset, bytes_per_element, offsets } => {
                offset + number_at(bytes, offsets, rows) * bytes_per_element
            }
        }
    }
}

/// Number `place` of the `int64` numbers at `start`.
pub(crate) fn number_at(bytes: &[u8], start: usize, place: usize) -> usize {
    let start = start + place * size_of::<i64>();
    let number = bytes[start..start + size_of::<i64>()].try_into().expect("eight bytes");
    i64::from_ne_bytes(number) as usize
}

/// Room for the samples of one batch: a window of rows and fields on the bytes of a slot.
///
/// A dataset that can read many samples at once writes whole columns; [`BatchWriter::sample`] is the window of one.
///
/// # Example
/// ```
/// use sluicegate::{BatchWriter, Column};
/// let (mut bytes, columns) = ([0; 6], [Column::Fixed { offset: 0, bytes_per_sample: 2 }]);
/// let mut writer = BatchWriter::new(&mut bytes, &columns, 3);
/// writer.sample(1).field(0).copy_from_slice(&[7, 8]);
/// assert_eq!(bytes, [0, 0, 7, 8, 0, 0]);
/// ```
#[derive(Debug)]
pub struct BatchWriter<'a> {
    bytes: &'a mut [u8],
    columns: &'a [Column],
    rows: Range<usize>,
    randomness: Randomness<'a>,
}

/// What random values of samples follow from, by row of the whole batch: combinators pass it on with the room.
#[derive(Debug, Clone, Copy)]
enum Randomness<'a> {
    Unknown,
    Keys(&'a [u64]),
    Places(&'a [GeneratorPlace]),
}

impl<'a> Randomness<'a> {
    fn key(self, row: usize) -> Option<u64> {
        match self {
            Self::Keys(keys) => keys.get(row).copied(),
            Self::Unknown | Self::Places(_) => None,
        }
    }

    fn place(self, row: usize) -> Option<&'a GeneratorPlace> {
        match self {
            Self::Places(places) => places.get(row),
            Self::Unknown | Self::Keys(_) => None,
        }
    }
}

impl<'a> BatchWriter<'a> {
    /// Room for `rows` samples, laid out in `bytes` as `columns` say. Offsets and lengths are there already.
    ///
    /// # Panics
    /// When a column reaches past the end of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a mut [u8], columns: &'a [Column], rows: usize) -> Self {
        for column in columns {
            assert!(column.end(bytes, rows) <= bytes.len(), "a column reaches past its slot");
        }
        Self { bytes, columns, rows: 0..rows, randomness: Randomness::Unknown }
    }

    /// The same room, for samples that have these keys, by row.
    #[must_use]
    pub fn with_keys(self, keys: &'a [u64]) -> Self {
        Self { randomness: Randomness::Keys(keys), ..self }
    }

    /// The same room, for samples that draw from these places of a generator, by row.
    #[must_use]
    pub fn with_places(self, places: &'a [GeneratorPlace]) -> Self {
        Self { randomness: Randomness::Places(places), ..self }
    }

    /// The key of the sample in row `row`: as [`SampleWriter::key`].
    #[must_use]
    pub fn key(&self, row: usize) -> Option<u64> {
        self.randomness.key(self.rows.start + row)
    }

    /// Where the generator stands that the sample in row `row` draws from: as [`SampleWriter::place`].
    #[must_use]
    pub fn place(&self, row: usize) -> Option<&GeneratorPlace> {
        self.randomness.place(self.rows.start + row)
    }

    /// The number of samples that fit.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// All rows of field `field`, one after the other.
    ///
    /// # Panics
    /// When it is a variable field, whose samples may have gaps between them: those are written one by one.
    pub fn field(&mut self, field: usize) -> &mut [u8] {
        let Column::Fixed { offset, bytes_per_sample } = self.columns[field] else {
            panic!("field {field} is variable: write sample by sample");
        };
        &mut self.bytes[offset + self.rows.start * bytes_per_sample..offset + self.rows.end * bytes_per_sample]
    }

    /// All rows of field `field`, one after the other, if there are no gaps between them: those of a padded field have some.
    pub fn contiguous(&mut self, field: usize) -> Option<&mut [u8]> {
        let column = self.columns[field];
        if matches!(column, Column::Padded { .. }) {
            return None;
        }
        let start = column.end(self.bytes, self.rows.start);
        let end = column.end(self.bytes, self.rows.end);
        Some(&mut self.bytes[start..end])
    }

    /// The room of the sample in row `row`.
    pub fn sample(&mut self, row: usize) -> SampleWriter<'_> {
        assert!(row < self.rows.len(), "row {row} of a batch of {}", self.rows.len());
        SampleWriter {
            bytes: self.bytes,
            columns: self.columns,
            row: self.rows.start + row,
            randomness: self.randomness,
        }
    }

    /// The columns of [`split_rows`](Self::split_rows): with `parts` rows in the place of each, from this window's first on.
    ///
    /// # Panics
    /// When a field is variable: its rows have no parts of one size.
    pub(crate) fn split_columns(&self, parts: usize) -> Vec<Column> {
        let split = |column: &Column| match *column {
            Column::Fixed { offset, bytes_per_sample } => {
                let offset = offset + self.rows.start * bytes_per_sample;
                Column::Fixed { offset, bytes_per_sample: bytes_per_sample / parts }
            }
            _ => panic!("a variable field has no parts of one size"),
        };
        self.columns.iter().map(split).collect()
    }

    /// The same room with `parts` rows in the place of each, as `columns` have them.
    pub(crate) fn split_rows<'b>(&'b mut self, parts: usize, columns: &'b [Column]) -> BatchWriter<'b> {
        BatchWriter { bytes: self.bytes, columns, rows: 0..self.rows.len() * parts, randomness: Randomness::Unknown }
    }

    /// The window on some of the rows.
    pub fn rows_mut(&mut self, rows: Range<usize>) -> BatchWriter<'_> {
        assert!(rows.end <= self.rows.len(), "rows {rows:?} of a batch of {}", self.rows.len());
        let rows = self.rows.start + rows.start..self.rows.start + rows.end;
        BatchWriter { bytes: self.bytes, columns: self.columns, rows, randomness: self.randomness }
    }

    /// The window on some of the fields.
    pub fn fields_mut(&mut self, fields: Range<usize>) -> BatchWriter<'_> {
        BatchWriter {
            bytes: self.bytes,
            columns: &self.columns[fields],
            rows: self.rows.clone(),
            randomness: self.randomness,
        }
    }

    /// The rooms of `fields`, which have samples of one size, row by row: apart from each other, so that threads may fill them
    /// side by side.
    ///
    /// # Panics
    /// When one of them is variable, or stands there twice.
    pub fn rooms(&mut self, fields: &[usize]) -> Vec<Vec<&mut [u8]>> {
        let mut places: Vec<(usize, usize, usize)> = fields
            .iter()
            .enumerate()
            .map(|(place, &field)| {
                let Column::Fixed { offset, bytes_per_sample } = self.columns[field] else {
                    panic!("field {field} is variable: its rooms have no size of their own");
                };
                (offset + self.rows.start * bytes_per_sample, bytes_per_sample, place)
            })
            .collect();
        places.sort_unstable();
        let mut rooms: Vec<Vec<&mut [u8]>> = Vec::new();
        rooms.resize_with(self.rows.len(), || fields.iter().map(|_| Default::default()).collect());
        let (mut rest, mut at) = (&mut *self.bytes, 0);
        for (start, size, place) in places {
            let (_, behind) = rest.split_at_mut(start - at);
            let (column, behind) = behind.split_at_mut(size * self.rows.len());
            for (row, room) in rooms.iter_mut().zip(column.chunks_exact_mut(size.max(1))) {
                row[place] = room;
            }
            (rest, at) = (behind, start + size * self.rows.len());
        }
        rooms
    }
}

/// Room for one sample: [`Dataset::read`](crate::Dataset::read) fills every field of it.
#[derive(Debug)]
pub struct SampleWriter<'a> {
    bytes: &'a mut [u8],
    columns: &'a [Column],
    row: usize,
    randomness: Randomness<'a>,
}

impl SampleWriter<'_> {
    /// The same room, as that of a batch of one sample.
    pub fn as_batch(&mut self) -> BatchWriter<'_> {
        BatchWriter {
            bytes: self.bytes,
            columns: self.columns,
            rows: self.row..self.row + 1,
            randomness: self.randomness,
        }
    }

    /// The key of this sample, which what is random about it is drawn from: a function of the loader's seed, the epoch and the
    /// index that it was asked for by ([`sample_key`](crate::sample_key)). Nothing without a seed.
    #[must_use]
    pub fn key(&self) -> Option<u64> {
        self.randomness.key(self.row)
    }

    /// Where the generator stands that this sample draws from, in a batch whose samples draw one after the other from one
    /// generator ([`Drawing`](crate::Drawing)). Nothing in other batches.
    #[must_use]
    pub fn place(&self) -> Option<&GeneratorPlace> {
        self.randomness.place(self.row)
    }

    /// The bytes of field `field`, in C order; of a variable field as many as the dataset has said before.
    pub fn field(&mut self, field: usize) -> &mut [u8] {
        let range = self.columns[field].sample(self.bytes, self.row);
        &mut self.bytes[range]
    }

    /// The window on some of the fields.
    pub fn fields_mut(&mut self, fields: Range<usize>) -> SampleWriter<'_> {
        SampleWriter { bytes: self.bytes, columns: &self.columns[fields], row: self.row, randomness: self.randomness }
    }
}
