//! [`RecentFiles`]: the files that a batch is read from.

use std::sync::Arc;

use super::open_file::OpenFile;
use super::pool::FilePool;
use crate::Result;

/// The files that a batch was read from so far. Each is requested from the pool only once, since that takes a lock, and
/// no more of them are held open than the pool would keep.
///
/// What was read is valid only if [`checked`](Self::checked) succeeds afterward: a mapped file that is truncated within
/// a page has zeros there, without any other sign.
pub(crate) struct RecentFiles<'a> {
    pool: &'a FilePool,
    files: Vec<(usize, Arc<OpenFile>)>,
}

impl<'a> RecentFiles<'a> {
    pub(crate) fn of(pool: &'a FilePool) -> Self {
        Self { pool, files: Vec::new() }
    }

    /// Returns file `number`, opened.
    ///
    /// # Errors
    /// It can't be opened; one of the files that were read has changed.
    pub(crate) fn file(&mut self, number: usize) -> Result<&OpenFile> {
        let place = match self.files.iter().rposition(|(other, _)| *other == number) {
            Some(place) => place,
            None => {
                if self.files.len() == self.pool.limit() {
                    let (number, file) = self.files.remove(0);
                    self.pool.check_open(number, &file)?;
                }
                self.files.push((number, self.pool.unchecked_file(number)?));
                self.files.len() - 1
            }
        };
        Ok(&self.files[place].1)
    }

    /// Returns the result `read`, unless one of the files has changed, which would explain any other error.
    ///
    /// # Errors
    /// As [`FilePool::file`], and that of `read`.
    pub(crate) fn checked<T>(&self, read: Result<T>) -> Result<T> {
        self.files.iter().try_for_each(|(number, file)| self.pool.check_open(*number, file))?;
        read
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::super::source_files::SourceFiles;
    use super::*;
    use crate::Error;

    #[test]
    fn bytes_read_while_a_file_is_truncated_are_rejected() {
        let folder = TempDir::new().unwrap();
        let paths: Vec<_> = (0..3).map(|number| folder.path().join(number.to_string())).collect();
        paths.iter().for_each(|path| fs::write(path, [7; 3000]).unwrap());
        // At most two files stay open.
        let pool = FilePool::new(Arc::new(SourceFiles::look(paths.clone()).unwrap()), 2);
        let read = |files: &mut RecentFiles<'_>, number| {
            let mut into = [0; 100];
            files.file(number)?.copy_at(2000, &mut into).map(|()| into)
        };
        for _ in 0..20 {
            let mut files = RecentFiles::of(&pool);
            assert_eq!(read(&mut files, 0).unwrap(), [7; 100]);
            files.checked(Ok(())).unwrap();
        }
        let mut files = RecentFiles::of(&pool);
        read(&mut files, 0).unwrap();
        fs::File::options().write(true).open(&paths[0]).unwrap().set_len(1000).unwrap();
        assert_eq!(read(&mut files, 0).unwrap(), [0; 100], "by itself the mapping tells nothing");
        let other = || Error::invalid("sample", "zeros");
        for read in [Ok(()), Err(other())] {
            assert!(matches!(files.checked(read), Err(Error::Changed { path, .. }) if path == paths[0]));
        }
        read(&mut files, 1).unwrap();
        assert!(matches!(read(&mut files, 2), Err(Error::Changed { path, .. }) if path == paths[0]), "it has to go");
        assert!(matches!(RecentFiles::of(&pool).file(0).map(drop), Err(Error::Changed { .. })), "it is opened again");
    }
}
