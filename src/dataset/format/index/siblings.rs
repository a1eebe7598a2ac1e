//! [`Siblings`]: indices of the same kind, whose files need not be scanned again.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::columns::{ColumnRole, IndexColumn, Piece, join};
use super::file::IndexKey;
use super::freshness::Fit;
use super::place::{IndexPath, name_from};
use super::sample_index::SampleIndex;
use crate::Result;
use crate::dataset::format::file::source_files::{SourceFile, SourceFiles};

/// The most siblings that are opened.
const SIBLINGS: usize = 16;

#[derive(Default)]
pub(super) struct Siblings {
    found: Vec<Sibling>,
}

struct Sibling {
    index: SampleIndex,
    key: IndexKey,
    was_copied: bool,
    path: PathBuf,
}

/// The name, size and modification time of a file in a key.
type Known<'a> = (&'a [u8], u64, i64);

impl Siblings {
    /// Opens the most recent indices of this format and these parameters in the folder of `path`.
    ///
    /// # Errors
    /// The error of the watcher.
    pub(super) fn look(path: &IndexPath, (format, parameters): (&str, &str), columns: usize) -> Result<Self> {
        let is_wanted = |key: &IndexKey, _| (key.format == format && key.parameters == parameters).then_some(Fit::Same);
        let open = |path: PathBuf| {
            let Some((index, stored, _)) = SampleIndex::open(&path, columns, is_wanted)? else { return Ok(None) };
            let was_copied = stored.header.contents.inode != stored.inode;
            Ok((index.columns() == columns).then_some(Sibling { index, key: stored.header.key, was_copied, path }))
        };
        let found = path.siblings().into_iter().take(SIBLINGS).filter_map(|path| open(path).transpose());
        Ok(Self { found: found.collect::<Result<_>>()? })
    }

    /// Returns the columns of `files`, whose index is to be at `path`: copied from a sibling for unchanged files, and
    /// from `scan` for all others. Also returns the paths of the siblings all of whose files are among these.
    pub(super) fn join(
        &self,
        files: &SourceFiles,
        path: Option<&IndexPath>,
        roles: &[ColumnRole],
        scan: impl Fn(&[usize]) -> Result<Vec<Vec<IndexColumn>>>,
    ) -> Result<(Vec<IndexColumn>, Vec<PathBuf>)> {
        let all: Vec<usize> = (0..files.files().len()).collect();
        let Some(path) = path.filter(|_| !self.found.is_empty()) else {
            return Ok((join(roles, &scanned(scan(&all)?))?, Vec::new()));
        };
        let mut known: HashMap<Known<'_>, (usize, usize)> = HashMap::new();
        for (number, sibling) in self.found.iter().enumerate() {
            for (place, file) in sibling.key.files.iter().enumerate() {
                known.entry((&file.name, file.bytes, file.modified)).or_insert((number, place));
            }
        }
        let names: Vec<&[u8]> = files.files().iter().map(|file| name_from(&file.path, &path.base)).collect();
        let places: Vec<Option<(usize, usize)>> = files
            .files()
            .iter()
            .zip(&names)
            .map(|(file, name)| known.get(&(*name, file.facts.bytes, file.facts.modified)).copied())
            .zip(files.files().iter().zip(&names))
            .map(|(place, (file, name))| place.filter(|&(number, place)| self.found[number].fits(place, name, file)))
            .collect();
        let unknown: Vec<usize> = all.iter().copied().filter(|&file| places[file].is_none()).collect();
        let mut new = if unknown.is_empty() { Vec::new() } else { scan(&unknown)? }.into_iter();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        // The sibling, and the file number in it, that would extend the last piece.
        let mut next = None;
        for place in &places {
            match (place, pieces.last_mut()) {
                (Some(_), Some(Piece::Kept { files, .. })) if *place == next => files.end += 1,
                (Some((number, place)), _) => {
                    pieces.push(Piece::Kept { index: &self.found[*number].index, files: *place..place + 1 });
                }
                (None, _) => pieces.extend(new.next().map(Piece::Scanned)),
            }
            next = place.map(|(number, place)| (number, place + 1));
        }
        let Ok(columns) = join(roles, &pieces) else {
            // A damaged sibling is ignored.
            return Ok((join(roles, &scanned(scan(&all)?))?, Vec::new()));
        };
        let names: HashSet<&[u8]> = names.into_iter().collect();
        let is_covered = |sibling: &&Sibling| {
            sibling.path != path.path && sibling.key.files.iter().all(|file| names.contains(file.name.as_slice()))
        };
        Ok((columns, self.found.iter().filter(is_covered).map(|sibling| sibling.path.clone()).collect()))
    }
}

impl Sibling {
    /// True if file `place` is `file`, called `name`, and its row ends are plausible.
    fn fits(&self, place: usize, name: &[u8], file: &SourceFile) -> bool {
        self.key.files[place].fit(name, file, self.was_copied).is_some() && self.is_sound(place)
    }

    /// True if the row ends of file `place` do not decrease and are within the columns.
    fn is_sound(&self, place: usize) -> bool {
        (0..self.index.columns()).all(|column| {
            let start = if place == 0 { Ok(0) } else { self.index.file_end(column, place - 1) };
            start.is_ok_and(|start| self.index.file_end(column, place).is_ok_and(|end| start <= end))
        })
    }
}

fn scanned(columns: Vec<Vec<IndexColumn>>) -> Vec<Piece<'static>> {
    columns.into_iter().map(Piece::Scanned).collect()
}
