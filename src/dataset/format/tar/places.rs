//! [`TarPlaces`]: the positions of the samples of a batch.

use super::index::TarPlace;
use crate::Result;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::recent_files::RecentFiles;

/// The positions of the samples of a batch, looked up in the index once, for both their sizes and their contents.
pub(super) struct TarPlaces {
    fields: usize,
    /// Per row: the number of its sample in the index, and that of its archive.
    rows: Vec<(usize, usize)>,
    /// Per row and field; `None` if there is no such member.
    members: Vec<Option<TarPlace>>,
}

impl TarPlaces {
    /// Reserves space for `rows` samples of `fields` fields.
    pub(super) fn new(fields: usize, rows: usize) -> Self {
        Self { fields, rows: Vec::with_capacity(rows), members: Vec::with_capacity(rows.saturating_mul(fields)) }
    }

    /// Begins the next row; [`push_member`](Self::push_member) must then be called for each field.
    pub(super) fn push(&mut self, sample: usize, file: usize) {
        self.rows.push((sample, file));
    }

    pub(super) fn push_member(&mut self, place: Option<TarPlace>) {
        self.members.push(place);
    }

    pub(super) fn sample(&self, row: usize) -> usize {
        self.rows[row].0
    }

    pub(super) fn file(&self, row: usize) -> usize {
        self.rows[row].1
    }

    /// The members of row `row`, by field.
    pub(super) fn members(&self, row: usize) -> &[Option<TarPlace>] {
        &self.members[row * self.fields..(row + 1) * self.fields]
    }

    /// Asks the operating system to start reading the whole batch.
    ///
    /// # Errors
    /// A file can't be opened, or has changed.
    pub(super) fn announce(&self, pool: &FilePool) -> Result<()> {
        let mut files = RecentFiles::of(pool);
        for row in 0..self.rows.len() {
            let file = files.file(self.file(row))?;
            self.members(row).iter().flatten().for_each(|place| file.will_read(place.data, place.bytes));
        }
        Ok(())
    }
}
