//! [`file_parts`]: one dataset per file for many files, a limited number of which are mapped.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::data_file::MAPPED_FILES;
use super::file_identity::FileIdentity;
use crate::dataset::format::block::cache::BlockCache;
use crate::dataset::{Concat, Dataset, ReadMany, read_batch};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema};

/// Of the files that are not always mapped, the number that stay mapped: the most recently read ones.
const MAPPED_AT_A_TIME: usize = 64;

/// Concatenates the files at `paths`, each of which `open` maps. Files after the first [`MAPPED_FILES`] are mapped only
/// when a batch reads them.
///
/// Those of `open`; that of `differ` for a file whose schema is not that of the first file, called with the path, its
/// schema and that of the first file; that of [`Concat::new`].
pub(crate) fn file_parts<D: Dataset + 'static>(
    paths: &[PathBuf],
    open: impl Fn(&PathBuf) -> Result<D> + Send + Sync + 'static,
    differ: impl Fn(&PathBuf, &Schema, &Schema) -> Error,
) -> Result<Concat> {
    bounded_parts(paths, MAPPED_FILES, open, differ)
}

fn bounded_parts<D: Dataset + 'static>(
    paths: &[PathBuf],
    mapped: usize,
    open: impl Fn(&PathBuf) -> Result<D> + Send + Sync + 'static,
    differ: impl Fn(&PathBuf, &Schema, &Schema) -> Error,
) -> Result<Concat> {
    let mut parts: Vec<Arc<dyn Dataset>> = Vec::with_capacity(paths.len());
    let opened = Arc::new(Opened { open: Box::new(open), mapped: BlockCache::new(MAPPED_AT_A_TIME) });
    for (number, path) in paths.iter().enumerate() {
        let part = (opened.open)(path)?;
        if let Some(first) = parts.first().filter(|first| first.schema() != part.schema()) {
            return Err(differ(path, part.schema(), first.schema()));
        }
        parts.push(match number < mapped {
            true => Arc::new(part),
            false => Arc::new(Unmapped::of(&part, path.clone(), number, Arc::clone(&opened))?),
        });
    }
    Concat::new(parts)
}

/// Maps a file.
type Open<D> = dyn Fn(&PathBuf) -> Result<D> + Send + Sync;

/// How files are mapped, and those that are currently mapped, by number.
struct Opened<D> {
    open: Box<Open<D>>,
    mapped: BlockCache<usize, D>,
}

/// A file that is mapped only when it is read.
struct Unmapped<D> {
    path: PathBuf,
    number: usize,
    identity: FileIdentity,
    len: usize,
    schema: Schema,
    opened: Arc<Opened<D>>,
}

impl<D: Dataset> Unmapped<D> {
    fn of(part: &D, path: PathBuf, number: usize, opened: Arc<Opened<D>>) -> Result<Self> {
        // Absolute, because the working directory may change before the next check.
        let io = |source| Error::Io { path: path.clone(), source };
        let path = std::path::absolute(&path).map_err(io)?;
        let identity = FileIdentity::of(&fs::metadata(&path).map_err(io)?);
        Ok(Self { path, number, identity, len: part.len(), schema: part.schema().clone(), opened })
    }

    fn mapped(&self) -> Result<Arc<D>> {
        self.opened.mapped.get(&self.number, || {
            // Checked before opening too: if the file was replaced, that is the error to report.
            self.identity.check(&self.path)?;
            let part = (self.opened.open)(&self.path)?;
            self.identity.check(&self.path)?;
            if part.len() != self.len || *part.schema() != self.schema {
                let reason = "its samples differ in number or schema from those when it was opened".to_owned();
                return Err(Error::Changed { path: self.path.clone(), reason });
            }
            Ok((part, 1))
        })
    }
}

impl<D: Dataset> Dataset for Unmapped<D> {
    fn len(&self) -> usize {
        self.len
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.mapped()?.read(index, into)
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        self.mapped().ok()?.origin(index, field)
    }
}

impl<D: Dataset> ReadMany for Unmapped<D> {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        read_batch(&*self.mapped()?, indices, into)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{Column, DType, Field, Raw, RawField};

    fn open(path: &PathBuf) -> Result<Raw> {
        Raw::open(path, 0, 2, vec![RawField::new(Field::new("x", DType::UInt8, [2]), 0)])
    }

    fn files(count: usize) -> (TempDir, Vec<PathBuf>) {
        let folder = TempDir::new().unwrap();
        let paths: Vec<_> = (0..count).map(|number| folder.path().join(number.to_string())).collect();
        for (number, path) in paths.iter().enumerate() {
            fs::write(path, [number as u8; 6]).unwrap();
        }
        (folder, paths)
    }

    fn parts(paths: &[PathBuf], mapped: usize) -> Result<Concat> {
        let differ = |path: &PathBuf, _: &Schema, _: &Schema| Error::Changed { path: path.clone(), reason: "".into() };
        bounded_parts(paths, mapped, open, differ)
    }

    fn read(parts: &Concat, indices: &[usize]) -> Result<Vec<u8>> {
        let mut bytes = vec![0; 2 * indices.len()];
        let columns = [Column::Fixed { offset: 0, bytes_per_sample: 2 }];
        read_batch(parts, indices, &mut BatchWriter::new(&mut bytes, &columns, indices.len()))?;
        Ok(bytes)
    }

    #[test]
    fn files_beyond_the_mapping_limit_are_still_read() {
        let (folder, paths) = files(200);
        let parts = parts(&paths, 2).unwrap();
        let indices: Vec<usize> = (0..600).rev().collect();
        let expected: Vec<u8> = indices.iter().flat_map(|index| [(index / 3) as u8; 2]).collect();
        assert_eq!(read(&parts, &indices).unwrap(), expected);
        let folder = folder.path().to_str().unwrap().to_owned();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mapped = maps.lines().filter(|line| line.contains(&folder)).count();
        assert!((3..=2 + MAPPED_AT_A_TIME).contains(&mapped), "{mapped} files are mapped");
    }

    #[test]
    fn a_replaced_file_beyond_the_mapping_limit_is_named() {
        let (_folder, paths) = files(100);
        let parts = parts(&paths, 1).unwrap();
        fs::write(&paths[50], [7; 4]).unwrap();
        assert!(
            matches!(read(&parts, &[150]), Err(Error::Shrunk { path, expected: 6, found: 4 }) if path == paths[50])
        );
        fs::write(paths[60].with_extension("new"), [7; 6]).unwrap();
        fs::rename(paths[60].with_extension("new"), &paths[60]).unwrap();
        assert!(matches!(read(&parts, &[180]), Err(Error::Changed { path, .. }) if path == paths[60]));
        fs::remove_file(&paths[70]).unwrap();
        assert!(matches!(read(&parts, &[210]), Err(Error::Io { path, .. }) if path == paths[70]));
        assert_eq!(read(&parts, &[153]).unwrap(), [51; 2]);
    }
}
