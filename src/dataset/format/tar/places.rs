//! [`TarPlaces`]: where the samples of a batch lie.

use super::index::TarPlace;
use crate::Result;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::recent_files::RecentFiles;

/// Where the samples of a batch lie, found in the index once: for their sizes, and for reading them.
pub(super) struct TarPlaces {
    fields: usize,
    /// By row: the number of its sample in the index, and that of its archive.
    rows: Vec<(usize, usize)>,
    /// By row and field; nothing where there is no such member.
    members: Vec<Option<TarPlace>>,
}

impl TarPlaces {
    /// Room for `rows` samples of so many `fields`.
    pub(super) fn new(fields: usize, rows: usize) -> Self {
        Self { fields, rows: Vec::with_capacity(rows), members: Vec::with_capacity(rows.saturating_mul(fields)) }
    }

    /// Begins the next row, of which each field must be pushed by [`push_member`](Self::push_member).
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

    /// By field.
    pub(super) fn members(&self, row: usize) -> &[Option<TarPlace>] {
        &self.members[row * self.fields..(row + 1) * self.fields]
    }

    /// Has the operating system begin to read all of it.
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
