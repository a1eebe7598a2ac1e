//! [`IndexedFile`]: what an index records about a file, to detect whether it is still the file that was scanned.
//!
//! Size and modification time are not enough: a file may be replaced by one with the same values. Inode and change time
//! would detect that, but a copy of the file has new ones, and a copied data set should keep its index. So an index
//! records its own inode. If that still matches, the index was not copied, and a file that has changed in any way is
//! scanned again. An index that was itself copied is trusted if samples of the file contents match.

use std::os::unix::fs::FileExt;

use super::file::digest_of;
use crate::dataset::format::file::data_file::open_at_once;
use crate::dataset::format::file::source_files::{FileFacts, SourceFile};
use crate::{Error, Result};

/// Parts of a file that are compared, spread from its beginning to its end.
const PARTS: u64 = 16;

/// The size of each part, in bytes.
const PART: usize = 4096;

/// A file as recorded in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedFile {
    pub(crate) name: Vec<u8>,
    pub(crate) bytes: u64,
    /// Modification time.
    pub(crate) modified: i64,
    /// Change time (ctime), which programs cannot set.
    pub(crate) changed: i64,
    pub(super) inode: u64,
    /// Digest of samples of its contents.
    pub(crate) sample: u64,
}

/// How closely a recorded file matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// The very file that was scanned.
    Same,
    /// A copy of it, by its contents.
    Copy,
}

impl IndexedFile {
    /// Records `file` under the name `name`.
    ///
    /// # Errors
    /// It can't be read, or has changed since it was listed.
    pub(crate) fn of(name: &[u8], file: &SourceFile) -> Result<Self> {
        let FileFacts { bytes, modified, changed, identity, .. } = file.facts;
        Ok(Self { name: name.to_vec(), bytes, modified, changed, inode: identity.1, sample: sample_of(file)? })
    }

    /// True if `file`, called `name`, is the very file that was scanned.
    pub(crate) fn is_same(&self, name: &[u8], file: &SourceFile) -> bool {
        let facts = &file.facts;
        self.name == name
            && (self.bytes, self.modified) == (facts.bytes, facts.modified)
            && (self.changed, self.inode) == (facts.changed, facts.identity.1)
    }

    /// Returns the same record with the inode and change time that `file` has now.
    pub(super) fn renewed(&self, file: &SourceFile) -> Self {
        Self { changed: file.facts.changed, inode: file.facts.identity.1, ..self.clone() }
    }

    /// Returns how `file`, called `name`, matches the scanned file; `was_copied` if the index itself was copied.
    pub(super) fn fit(&self, name: &[u8], file: &SourceFile, was_copied: bool) -> Option<Fit> {
        let facts = &file.facts;
        if self.name != name || self.bytes != facts.bytes || self.modified != facts.modified {
            return None;
        }
        if self.is_same(name, file) {
            return Some(Fit::Same);
        }
        // Some network file systems assign new inodes at each mount.
        let may_be_copy = was_copied || self.changed == facts.changed;
        (may_be_copy && sample_of(file).is_ok_and(|sample| sample == self.sample)).then_some(Fit::Copy)
    }
}

/// Returns a digest of parts of `file`: all of a small one; 0 for a folder that stands for files.
pub(crate) fn sample_of(file: &SourceFile) -> Result<u64> {
    let io = |source| Error::Io { path: file.path.clone(), source };
    if file.facts.represents_folder() {
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
