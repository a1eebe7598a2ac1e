//! [`IndexedFile`]: what an index keeps of a file, to tell whether it still is the file that was scanned.
//!
//! Size and time of the last write are not enough: a file may be replaced by one that has the same. Inode and time of the last
//! change of status tell, but a copy of the file has others, and a copy of a data set should keep its index. So an index knows
//! its own inode: as long as it has that, it was not copied, and a file that has changed in any way is scanned again. An index
//! that was copied itself is believed if parts of the file are what they were.

use std::os::unix::fs::FileExt;

use super::file::digest_of;
use crate::dataset::format::file::data_file::open_at_once;
use crate::dataset::format::file::source_files::{FileFacts, SourceFile};
use crate::{Error, Result};

/// So many parts of a file are compared, from its beginning to its end.
const PARTS: u64 = 16;

/// The size of each, in bytes.
const PART: usize = 4096;

/// A file as an index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedFile {
    pub(in crate::dataset::format) name: Vec<u8>,
    pub(in crate::dataset::format) bytes: u64,
    /// When it was last written to.
    pub(in crate::dataset::format) modified: i64,
    /// When its status last changed, which no program can set.
    pub(in crate::dataset::format) changed: i64,
    pub(super) inode: u64,
    /// Digest of parts of its contents.
    pub(in crate::dataset::format) sample: u64,
}

/// How far an index fits a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// The very file that was scanned.
    Same,
    /// A copy of it, by its contents.
    Copy,
}

impl IndexedFile {
    /// `file`, which an index calls `name`.
    ///
    /// # Errors
    /// It can't be read, or is another than it was.
    pub(in crate::dataset::format) fn of(name: &[u8], file: &SourceFile) -> Result<Self> {
        let FileFacts { bytes, modified, changed, identity, .. } = file.facts;
        Ok(Self { name: name.to_vec(), bytes, modified, changed, inode: identity.1, sample: sample_of(file)? })
    }

    /// True if `file`, called `name`, is the very one that was scanned.
    pub(in crate::dataset::format) fn is_same(&self, name: &[u8], file: &SourceFile) -> bool {
        let facts = &file.facts;
        self.name == name
            && (self.bytes, self.modified) == (facts.bytes, facts.modified)
            && (self.changed, self.inode) == (facts.changed, facts.identity.1)
    }

    /// The same, which knows `file` as it is now.
    pub(super) fn renewed(&self, file: &SourceFile) -> Self {
        Self { changed: file.facts.changed, inode: file.facts.identity.1, ..self.clone() }
    }

    /// True if `file`, called `name`, is the one that was scanned, by an index that `was_copied` or not.
    pub(super) fn fit(&self, name: &[u8], file: &SourceFile, was_copied: bool) -> Option<Fit> {
        let facts = &file.facts;
        if self.name != name || self.bytes != facts.bytes || self.modified != facts.modified {
            return None;
        }
        if self.is_same(name, file) {
            return Some(Fit::Same);
        }
        // Some network file systems give a file another inode each time they are mounted.
        let may_be_copy = was_copied || self.changed == facts.changed;
        (may_be_copy && sample_of(file).is_ok_and(|sample| sample == self.sample)).then_some(Fit::Copy)
    }
}

/// Digest of parts of `file`: all of a small one; 0 of a folder that stands for files.
pub(in crate::dataset::format) fn sample_of(file: &SourceFile) -> Result<u64> {
    let io = |source| Error::Io { path: file.path.clone(), source };
    if file.facts.stands_for_many() {
        return Ok(0);
    }
    let open = open_at_once(&file.path).map_err(io)?;
    file.check(&FileFacts::of(&open.metadata().map_err(io)?))?;
    let bytes = file.facts.bytes;
    let mut read = vec![0; (PART as u64 * PARTS).min(bytes) as usize];
    if bytes <= PART as u64 * PARTS {
        open.read_exact_at(&mut read, 0).map_err(io)?;
    } else {
        let last = bytes - PART as u64;
        for (number, part) in read.chunks_mut(PART).enumerate() {
            let offset = (u128::from(last) * number as u128 / u128::from(PARTS - 1)) as u64;
            open.read_exact_at(part, offset).map_err(io)?;
        }
    }
    Ok(digest_of(&read))
}
