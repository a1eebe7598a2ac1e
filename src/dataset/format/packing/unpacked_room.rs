//! [`Room`]: which files in a folder of unpacked files are in use, and which may be removed.
//!
//! Each process that reads unpacked files has a lease: a file that lists them, and that it keeps locked (`flock`) while
//! it may open them. The kernel releases the lock when the last process that holds it ends, for any reason. To free
//! space, a process removes only files that no lease lists, and leases that are no longer locked.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock};
use rustix::io::Errno;

use crate::dataset::format::file::new_file::{NewFile, RANDOM, UNFINISHED, random_number};
use crate::dataset::format::file::notices::notice;
use crate::dataset::format::index::lock::Lock;
use crate::memory::PerProcess;
use crate::{Error, Result};

/// The suffixes of the names of copies, of their checksums, and of leases.
pub(super) const UNPACKED: &str = ".unpacked";
const SUMS: &str = ".sums";
const LEASE: &str = ".lease";

/// The exclusive right to change which files exist, held by one thread of one process, for a few milliseconds.
pub(super) struct Room<'a> {
    root: &'a Path,
    _lock: Option<Lock>,
    _thread: MutexGuard<'static, ()>,
}

/// Keeps files from being removed to free space while any process, including a forked child, holds it.
pub(crate) struct Lease {
    path: PathBuf,
    file: Option<File>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.file = None;
        // Fails if a forked process still holds it.
        remove_unlocked(&self.path);
    }
}

impl<'a> Room<'a> {
    /// Waits for exclusive access.
    ///
    /// # Errors
    /// [`Error::Io`] if another process holds it for too long.
    pub(super) fn enter(root: &'a Path) -> Result<Self> {
        static THREADS: PerProcess<Mutex<()>> = PerProcess::new();
        let thread = THREADS.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Self { root, _lock: Lock::at(&root.join("room"))?, _thread: thread })
    }

    /// Returns a lease of the files with these names; `None` if that is impossible, as on a file system without locks.
    pub(super) fn lease(&self, names: &[OsString]) -> Option<Lease> {
        let mut text = names.iter().fold(Vec::new(), |mut text, name| {
            text.extend(name.as_bytes());
            text.push(b'\n');
            text
        });
        text.extend(format!("{:08x}", crc32c::crc32c(&text)).into_bytes());
        let path = self.root.join(format!("{:016x}{LEASE}", random_number()));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).ok()?);
        // Readable by all: it lists only names that users of the folder can see, and they must test its lock.
        let readable = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let written = flock(&file, FlockOperation::NonBlockingLockShared)
            .and_then(|()| fchmod(&file, readable))
            .map_err(io::Error::from)
            .and_then(|()| (&file).write_all(&text));
        if written.is_err() {
            let _ = fs::remove_file(&path);
            return None;
        }
        Some(Lease { path, file: Some(file) })
    }

    /// Begins the copy that will be at `target`; it counts as abandoned once this process has ended.
    pub(super) fn begin(&self, target: &Path) -> io::Result<NewFile> {
        let new = NewFile::create(target)?;
        // Without locks, abandoned copies are not removed.
        let _ = flock(new.file(), FlockOperation::NonBlockingLockShared);
        Ok(new)
    }

    /// Removes files that no process is using, least recently opened first, until `bytes` more fit into `limit`. If too
    /// much is in use, the folder exceeds the limit, with a notice. The files `needed` are the caller's, which holds
    /// `lease` for them. Without a lease, other processes may have none either, so nothing is removed.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder can't be listed.
    pub(super) fn make(&self, lease: Option<&Lease>, needed: &[OsString], bytes: u64, limit: u64) -> Result<()> {
        let io = |source| Error::Io { path: self.root.to_path_buf(), source };
        let names: Vec<OsString> = fs::read_dir(self.root)
            .map_err(io)?
            .map(|entry| Ok(entry.map_err(io)?.file_name()))
            .collect::<Result<_>>()?;
        let used = self.used(&names).filter(|_| lease.is_some());
        let (mut own, mut total, mut others) = (bytes, bytes, Vec::new());
        for name in names.iter().filter(|name| name.as_bytes().ends_with(UNPACKED.as_bytes())) {
            // Another process may have removed it.
            let Ok(metadata) = fs::symlink_metadata(self.root.join(name)) else { continue };
            total += metadata.len();
            if needed.contains(name) {
                own += metadata.len();
            } else if used.as_ref().is_some_and(|used| !used.contains(name)) {
                others.push((metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), name));
            }
        }
        others.sort_unstable_by(|a, b| b.cmp(a));
        while total > limit {
            let Some((_, bytes, name)) = others.pop() else {
                // If the caller's own files exceed the limit, `unpack` issues a single notice at the end.
                if own <= limit {
                    notice(self.too_full(limit, lease.is_some()));
                }
                break;
            };
            // In this order: a copy without checksums would be considered damaged.
            let _ =
                fs::remove_file(self.root.join(name)).and_then(|()| fs::remove_file(sums_of(&self.root.join(name))));
            total -= bytes;
        }
        Ok(())
    }

    /// Without the size, which grows with each archive, so that the notice is not repeated.
    fn too_full(&self, limit: u64, has_locks: bool) -> String {
        let why = if has_locks {
            "other processes use files in it; raise cache_bytes, or give each job its own folder"
        } else {
            "files can't be locked there (flock), so none are removed; delete those that no job uses, or set \
             cache_folder to a local disk"
        };
        format!("cache_bytes: {} has more than the {limit} bytes allowed, because {why}", self.root.display())
    }

    /// Returns the names of all files in use; `None` if that is unknown, so nothing may be removed. Removes the
    /// leftovers of processes that have ended.
    fn used(&self, names: &[OsString]) -> Option<HashSet<OsString>> {
        let mut used = Some(HashSet::new());
        for name in names {
            let path = self.root.join(name);
            let bytes = name.as_bytes();
            if is_unfinished(bytes, UNPACKED) {
                remove_unlocked(&path);
            } else if bytes.ends_with(LEASE.as_bytes()) && !remove_unlocked(&path) {
                used = match (used, read_lease(&path)) {
                    (Some(mut used), Some(names)) => {
                        used.extend(names);
                        Some(used)
                    }
                    _ => None,
                };
            }
        }
        used
    }
}

/// True if this is the name of an unfinished file whose final name ends in `ending`.
fn is_unfinished(name: &[u8], ending: &str) -> bool {
    let own = name
        .strip_suffix(UNFINISHED.as_bytes())
        .and_then(|name| name.len().checked_sub(RANDOM).map(|end| &name[..end]));
    own.is_some_and(|own| own.ends_with(ending.as_bytes()))
}

/// Returns the path of the checksums of the copy at `copy`.
pub(super) fn sums_of(copy: &Path) -> PathBuf {
    let mut path = copy.as_os_str().to_owned();
    path.push(SUMS);
    path.into()
}

/// Removes a file unless a process has locked it; returns true if it no longer exists.
fn remove_unlocked(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(error) => return error == Errno::NOENT,
    };
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && fs::remove_file(path).is_ok()
}

/// Returns the names in a lease; `None` if it is damaged.
fn read_lease(path: &Path) -> Option<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut text = Vec::new();
    File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?).read_to_end(&mut text).ok()?;
    let (names, sum) = text.split_last_chunk::<8>()?;
    (format!("{:08x}", crc32c::crc32c(names)).as_bytes() == sum).then(|| {
        let names = names.split(|&byte| byte == b'\n').filter(|name| !name.is_empty());
        names.map(|name| OsString::from_vec(name.to_vec())).collect()
    })
}
