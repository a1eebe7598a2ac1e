//! [`BatchWriter`] and [`SampleWriter`]: the memory that samples are read into.

use std::ops::Range;

use crate::rng::GeneratorPlace;

/// Where one field of a batch is in its slot. Distances are in bytes; offsets count from the start of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Consecutive samples of one size.
    Fixed {
        /// The offset of the first sample.
        offset: usize,
        /// The distance from one sample to the next.
        bytes_per_sample: usize,
    },
    /// Consecutive samples of any size.
    Variable {
        /// The offset of the first sample.
        offset: usize,
        /// The size of one element.
        bytes_per_element: usize,
        /// The offset of the `int64` offsets, one more than there are samples, starting at 0 and never decreasing: row
        /// `row` spans the elements from `offsets[row]` to `offsets[row + 1]`, counted from the first sample (like
        /// Arrow's lists).
        offsets: usize,
    },
    /// Samples of any size, each in as much room as the longest one needs.
    Padded {
        /// The offset of the first sample.
        offset: usize,
        /// The size of one element.
        bytes_per_element: usize,
        /// The distance from one sample to the next.
        bytes_per_sample: usize,
        /// The offset of the `int64` lengths, in elements, one for each sample.
        lengths: usize,
        /// True if a sample ends at the end of its room, with the padding before it; false if it begins at its start.
        at_end: bool,
    },
}

impl Column {
    /// Returns the offset of the first sample.
    #[must_use]
    pub fn offset(&self) -> usize {
        let (Self::Fixed { offset, .. } | Self::Variable { offset, .. } | Self::Padded { offset, .. }) = *self;
        offset
    }

    /// Returns the range of row `row` in `bytes`, the slot.
    #[inline]
    #[must_use]
    pub fn sample(&self, bytes: &[u8], row: usize) -> Range<usize> {
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

    /// Returns the end of the last of `rows` samples.
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

/// Returns number `place` of the `int64` numbers at `start`.
pub(crate) fn number_at(bytes: &[u8], start: usize, place: usize) -> usize {
    let start = start + place * size_of::<i64>();
    let number = bytes[start..start + size_of::<i64>()].try_into().expect("eight bytes");
    i64::from_ne_bytes(number) as usize
}

/// Memory for the samples of one batch: a window of rows and fields on the bytes of a slot.
/// A dataset that can read many samples at once writes whole columns; others write to [`BatchWriter::sample`], the
/// window of one sample.
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

/// The source of random values, by row of the whole batch; combinators pass it on together with the room.
#[derive(Debug, Clone, Copy)]
enum Randomness<'a> {
    Unknown,
    Keys(&'a [u64]),
    /// Positions of a generator, from this row of the whole batch on.
    Places(&'a [GeneratorPlace], usize),
}

impl<'a> Randomness<'a> {
    fn key(self, row: usize) -> Option<u64> {
        match self {
            Self::Keys(keys) => keys.get(row).copied(),
            Self::Unknown | Self::Places(..) => None,
        }
    }

    fn place(self, row: usize) -> Option<&'a GeneratorPlace> {
        match self {
            Self::Places(places, first) => places.get(row.checked_sub(first)?),
            Self::Unknown | Self::Keys(_) => None,
        }
    }
}

impl<'a> BatchWriter<'a> {
    /// Returns room for `rows` samples, laid out in `bytes` according to `columns`. Offsets and lengths must be written
    /// already.
    ///
    /// # Panics
    /// If a column extends past the end of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a mut [u8], columns: &'a [Column], rows: usize) -> Self {
        for column in columns {
            assert!(column.end(bytes, rows) <= bytes.len(), "a column reaches past its slot");
        }
        Self { bytes, columns, rows: 0..rows, randomness: Randomness::Unknown }
    }

    /// Returns the same room, for samples that have these keys, by row.
    #[must_use]
    pub fn with_keys(self, keys: &'a [u64]) -> Self {
        Self { randomness: Randomness::Keys(keys), ..self }
    }

    /// Returns the same room, for samples that draw from these positions of a generator, by row.
    #[doc(hidden)]
    #[must_use]
    pub fn with_places(self, places: &'a [GeneratorPlace]) -> Self {
        Self { randomness: Randomness::Places(places, self.rows.start), ..self }
    }

    /// Returns the key of the sample in row `row`, like [`SampleWriter::key`].
    #[must_use]
    pub fn key(&self, row: usize) -> Option<u64> {
        self.randomness.key(self.rows.start + row)
    }

    /// Returns the position of the generator that the sample in row `row` draws from, like [`SampleWriter::place`].
    #[doc(hidden)]
    #[must_use]
    pub fn place(&self, row: usize) -> Option<&GeneratorPlace> {
        self.randomness.place(self.rows.start + row)
    }

    /// Returns the number of samples that fit.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns all rows of field `field`, consecutively.
    ///
    /// # Panics
    /// If it is a variable field, whose samples may have gaps between them: write those one by one.
    pub fn field(&mut self, field: usize) -> &mut [u8] {
        let Column::Fixed { offset, bytes_per_sample } = self.columns[field] else {
            panic!("field {field} is variable; write it sample by sample");
        };
        &mut self.bytes[offset + self.rows.start * bytes_per_sample..offset + self.rows.end * bytes_per_sample]
    }

    /// Returns all rows of field `field`, if there are no gaps between them; a padded field has gaps.
    ///
    /// # Panics
    /// If there is no such field.
    pub fn contiguous(&mut self, field: usize) -> Option<&mut [u8]> {
        let column = self.columns[field];
        if matches!(column, Column::Padded { .. }) {
            return None;
        }
        let start = column.end(self.bytes, self.rows.start);
        let end = column.end(self.bytes, self.rows.end);
        Some(&mut self.bytes[start..end])
    }

    /// Returns the room of the sample in row `row`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn sample(&mut self, row: usize) -> SampleWriter<'_> {
        assert!(row < self.rows.len(), "row {row} of a batch of {}", self.rows.len());
        SampleWriter {
            bytes: self.bytes,
            columns: self.columns,
            row: self.rows.start + row,
            randomness: self.randomness,
        }
    }

    /// Returns the columns for [`split_rows`](Self::split_rows): each row becomes `parts` rows, starting at this
    /// window's first row.
    ///
    /// # Panics
    /// If a field is variable, because its rows have no parts of one size.
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

    /// Returns the same room with each row split into `parts` rows, laid out according to `columns`.
    pub(crate) fn split_rows<'b>(&'b mut self, parts: usize, columns: &'b [Column]) -> BatchWriter<'b> {
        BatchWriter { bytes: self.bytes, columns, rows: 0..self.rows.len() * parts, randomness: Randomness::Unknown }
    }

    /// Returns the window on some of the rows.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn rows_mut(&mut self, rows: Range<usize>) -> BatchWriter<'_> {
        assert!(rows.end <= self.rows.len(), "rows {rows:?} of a batch of {}", self.rows.len());
        let rows = self.rows.start + rows.start..self.rows.start + rows.end;
        BatchWriter { bytes: self.bytes, columns: self.columns, rows, randomness: self.randomness }
    }

    /// Returns the window on some of the fields.
    ///
    /// # Panics
    /// If there are no such fields.
    pub fn fields_mut(&mut self, fields: Range<usize>) -> BatchWriter<'_> {
        BatchWriter {
            bytes: self.bytes,
            columns: &self.columns[fields],
            rows: self.rows.clone(),
            randomness: self.randomness,
        }
    }

    /// Returns the rooms of `fields`, which must have samples of one size, row by row: they are disjoint, so that
    /// threads may fill them in parallel.
    ///
    /// # Panics
    /// If one of them is variable, or occurs twice.
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
            let (_, after) = rest.split_at_mut(start - at);
            let (column, after) = after.split_at_mut(size * self.rows.len());
            for (row, room) in rooms.iter_mut().zip(column.chunks_exact_mut(size.max(1))) {
                row[place] = room;
            }
            (rest, at) = (after, start + size * self.rows.len());
        }
        rooms
    }
}

/// Room for one sample: [`Dataset::read`](crate::Dataset::read) must fill every field of it.
#[derive(Debug)]
pub struct SampleWriter<'a> {
    bytes: &'a mut [u8],
    columns: &'a [Column],
    row: usize,
    randomness: Randomness<'a>,
}

impl SampleWriter<'_> {
    /// Returns this room as a batch of one sample.
    pub fn as_batch(&mut self) -> BatchWriter<'_> {
        BatchWriter {
            bytes: self.bytes,
            columns: self.columns,
            rows: self.row..self.row + 1,
            randomness: self.randomness,
        }
    }

    /// Returns the key of this sample, from which its randomness must be derived: a function of the loader's seed, the
    /// epoch, and the index with which the sample was requested ([`sample_key`](crate::sample_key)). None without a
    /// seed.
    #[must_use]
    pub fn key(&self) -> Option<u64> {
        self.randomness.key(self.row)
    }

    /// Returns the position of the generator that this sample draws from, in a batch whose samples draw from one
    /// generator in sequence (`Drawing`). None in other batches.
    #[doc(hidden)]
    #[must_use]
    pub fn place(&self) -> Option<&GeneratorPlace> {
        self.randomness.place(self.row)
    }

    /// Returns the bytes of field `field`, in C order; for a variable field, as many as the dataset has declared.
    pub fn field(&mut self, field: usize) -> &mut [u8] {
        let range = self.columns[field].sample(self.bytes, self.row);
        &mut self.bytes[range]
    }

    /// Returns the window on some of the fields.
    ///
    /// # Panics
    /// If there are no such fields.
    pub fn fields_mut(&mut self, fields: Range<usize>) -> SampleWriter<'_> {
        SampleWriter { bytes: self.bytes, columns: &self.columns[fields], row: self.row, randomness: self.randomness }
    }
}
