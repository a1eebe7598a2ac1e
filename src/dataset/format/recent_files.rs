//! [`RecentFiles`]: the files that a batch is read from.

use std::sync::Arc;

use super::file_pool::FilePool;
use super::open_file::OpenFile;
use crate::Result;

/// The files that a batch was read from so far: each is asked for once, for that takes a lock and a call of the system; and
/// no more of them stay open than if they were asked for one by one.
pub(super) struct RecentFiles<'a> {
    pool: &'a FilePool,
    files: Vec<(usize, Arc<OpenFile>)>,
}

impl<'a> RecentFiles<'a> {
    pub(super) fn of(pool: &'a FilePool) -> Self {
        Self { pool, files: Vec::new() }
    }

    /// # Errors
    /// As [`FilePool::file`].
    pub(super) fn file(&mut self, number: usize) -> Result<&OpenFile> {
        let place = match self.files.iter().rposition(|(other, _)| *other == number) {
            Some(place) => place,
            None => {
                if self.files.len() == self.pool.limit() {
                    self.files.remove(0);
                }
                self.files.push((number, self.pool.file(number)?));
                self.files.len() - 1
            }
        };
        Ok(&self.files[place].1)
    }
}
