//! [`FilePool`]: open files, limited in number.

#[cfg(feature = "parquet")]
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, getrlimit};

use super::open_file::OpenFile;
use super::page_cache::PageCache;
#[cfg(feature = "parquet")]
use super::source_files::FileFacts;
use super::source_files::SourceFiles;
use crate::memory::PerProcess;
use crate::{Error, Result};

/// Default limit of open files: far below the usual limit of 1,024 per process.
pub(crate) const OPEN_FILES: usize = 64;

/// The files of a dataset, opened on first use in the process that reads them. Of the files that are not in use, the
/// most recently read ones stay open.
///
/// A forked child opens its own files; it neither locks nor closes what it inherits.
pub(crate) struct FilePool {
    files: Arc<SourceFiles>,
    limit: usize,
    open: PerProcess<Mutex<Vec<Open>>>,
    page_cache: PageCache,
}

struct Open {
    number: usize,
    file: Arc<OpenFile>,
}

impl FilePool {
    /// A pool of `files`, at most `limit` of which (at least one) stay open; fewer if the process limit is low.
    pub(crate) fn new(files: Arc<SourceFiles>, limit: usize) -> Self {
        let allowed = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |all| (all / 8) as usize);
        Self { files, limit: limit.min(allowed).max(1), open: PerProcess::new(), page_cache: PageCache::new() }
    }

    /// The number of files that may stay open.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn files(&self) -> &SourceFiles {
        &self.files
    }

    /// The files, as a shared reference.
    pub(crate) fn shared_files(&self) -> Arc<SourceFiles> {
        Arc::clone(&self.files)
    }

    /// Tracks whether the files are in memory.
    pub(crate) fn page_cache(&self) -> &PageCache {
        &self.page_cache
    }

    /// Returns file `number`, opened. Call it once per batch for all samples in the file: each call asks the operating
    /// system whether the file has changed.
    ///
    /// # Errors
    /// [`Error::Io`] if it can't be opened; [`Error::Changed`] if it was written to or replaced since it was listed.
    pub(crate) fn file(&self, number: usize) -> Result<Arc<OpenFile>> {
        match self.take_open(number) {
            Some(file) => self.check_open(number, &file).map(|()| file),
            None => self.open(number),
        }
    }

    /// As [`file`](Self::file), for callers that call [`check_open`](Self::check_open) after reading.
    pub(super) fn unchecked_file(&self, number: usize) -> Result<Arc<OpenFile>> {
        self.take_open(number).map_or_else(|| self.open(number), Ok)
    }

    /// Fails if `file`, which is file `number`, has changed; it is then opened again on next use.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub(super) fn check_open(&self, number: usize, file: &OpenFile) -> Result<()> {
        file.check().inspect_err(|_| self.lock().retain(|open| open.number != number))
    }

    fn open(&self, number: usize) -> Result<Arc<OpenFile>> {
        // Without holding the lock: opening is slow on slow storage, and opening a file twice does no harm.
        let file = match OpenFile::open(self.files.files()[number].clone()) {
            Err(error) if is_too_many_files(&error) => {
                // Close the cached files, so that the requested one can be opened.
                drop(std::mem::take(&mut *self.lock()));
                OpenFile::open(self.files.files()[number].clone())
            }
            opened => opened,
        };
        let file = Arc::new(file?);
        let surplus = {
            let mut open = self.lock();
            open.retain(|other| other.number != number);
            open.push(Open { number, file: Arc::clone(&file) });
            let surplus = open.len().saturating_sub(self.limit);
            open.drain(..surplus).collect::<Vec<_>>()
        };
        drop(surplus);
        Ok(file)
    }

    /// Fails if file `number`, whose contents the caller has cached, has changed. Opens no file. A file that was only
    /// removed is unchanged.
    ///
    /// # Errors
    /// [`Error::Io`] if its metadata can't be read; [`Error::Changed`] if it was written to or replaced.
    #[cfg(feature = "parquet")]
    pub(crate) fn check(&self, number: usize) -> Result<()> {
        if let Some(file) = self.take_open(number) {
            return file.check();
        }
        let source = &self.files.files()[number];
        match std::fs::metadata(&source.path) {
            Ok(found) => source.check(&FileFacts::of(&found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::Io { path: source.path.clone(), source: error }),
        }
    }

    /// Returns file `number` if it is open, and marks it as the most recently read one.
    fn take_open(&self, number: usize) -> Option<Arc<OpenFile>> {
        let mut open = self.lock();
        let place = open.iter().rposition(|open| open.number == number)?;
        open[place..].rotate_left(1);
        open.last().map(|open| Arc::clone(&open.file))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if opening failed because too many files are open.
fn is_too_many_files(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::thread;

    use tempfile::TempDir;

    use super::*;

    fn pool(folder: &TempDir, files: usize, limit: usize) -> FilePool {
        let paths: Vec<PathBuf> = (0..files).map(|number| folder.path().join(number.to_string())).collect();
        paths.iter().enumerate().for_each(|(number, path)| fs::write(path, vec![number as u8; 100]).unwrap());
        FilePool::new(Arc::new(SourceFiles::look(paths).unwrap()), limit)
    }

    #[test]
    fn many_threads_read_many_files_with_few_open() {
        let folder = TempDir::new().unwrap();
        let pool = pool(&folder, 40, 3);
        thread::scope(|scope| {
            for start in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    for number in (0..200).map(|step| (start * 7 + step * 3) % 40) {
                        let mut into = [255; 10];
                        pool.file(number).unwrap().read_at(90, &mut into).unwrap();
                        assert_eq!(into, [number as u8; 10]);
                    }
                });
            }
        });
        assert_eq!(pool.lock().len(), 3);
        let newest = pool.file(5).unwrap();
        pool.file(6).unwrap();
        assert!(Arc::ptr_eq(&newest, &pool.file(5).unwrap()));
    }

    #[test]
    fn a_changed_file_is_named_with_the_reason() {
        let folder = TempDir::new().unwrap();
        let path = |number: usize| folder.path().join(number.to_string());
        type Change<'a> = (&'a dyn Fn(), &'a str);
        let changes: [Change<'_>; 4] = [
            (&|| fs::write(path(0), [1; 99]).unwrap(), "100 bytes, but has 99 now"),
            (&|| fs::write(path(0), [2; 100]).unwrap(), "it was modified"),
            (&|| fs::rename(path(1), path(0)).unwrap(), "it was replaced by a different file"),
            (&|| fs::File::options().write(true).open(path(0)).unwrap().set_len(0).unwrap(), "has 0 now"),
        ];
        for (change, words) in changes {
            for is_open in [true, false] {
                let pool = pool(&folder, 2, 4);
                let file = is_open.then(|| pool.file(0).unwrap());
                // Two writes within one clock tick of the file system could not be told apart.
                thread::sleep(std::time::Duration::from_millis(20));
                change();
                for _ in 0..2 {
                    let error = pool.file(0).map(drop).unwrap_err();
                    assert!(matches!(&error, Error::Changed { path: of, .. } if *of == path(0)), "{error}");
                    assert!(error.to_string().contains(words), "{error}");
                }
                drop(file);
            }
        }
    }

    #[test]
    fn an_open_file_is_readable_after_its_removal() {
        let folder = TempDir::new().unwrap();
        let pool = pool(&folder, 1, 1);
        pool.file(0).unwrap();
        fs::remove_file(folder.path().join("0")).unwrap();
        pool.file(0).unwrap().read_at(0, &mut [0; 100]).unwrap();
    }

    #[test]
    fn reads_outside_a_file_fail() {
        let folder = TempDir::new().unwrap();
        let pool = pool(&folder, 1, 1);
        let file = pool.file(0).unwrap();
        for offset in [1, 100, 1000, u64::MAX - 10, u64::MAX] {
            let error = file.read_at(offset, &mut [0; 100]).unwrap_err();
            assert!(matches!(error, Error::Format { offset: at, .. } if at == offset), "{error}");
        }
        file.read_at(100, &mut []).unwrap();
        assert_eq!((file.bytes(), file.source().path.file_name().unwrap().to_str()), (100, Some("0")));
        fs::File::options().write(true).open(folder.path().join("0")).unwrap().set_len(50).unwrap();
        let error = file.read_at(0, &mut [0; 100]).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
        assert!(matches!(SourceFiles::look(vec![folder.path().into()]), Err(Error::Io { .. })));
        assert!(matches!(SourceFiles::look(vec!["/dev/null".into()]), Err(Error::Format { .. })));
    }
}
