//! [`NewFile`]: a file that is written under a random name, and renamed when it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::access::{FileAccess, folder_of};

/// The number of random names that are tried.
const ATTEMPTS: usize = 16;

/// The suffix of the names of unfinished files.
pub(crate) const UNFINISHED: &str = ".unfinished";

/// The length of the random part of such a name, including the dot before it.
pub(crate) const RANDOM: usize = 9;

/// A file that only its owner may read until it is complete; dropped before that, it is removed. Nothing that others put
/// in the folder is opened or written: the name is random, links are not followed, the folder is not looked up again.
pub(crate) struct NewFile {
    folder: OwnedFd,
    name: OsString,
    file: File,
    has_own_name: bool,
}

impl NewFile {
    /// Creates the file that will be at `path`, in an existing folder.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let folder = openat(CWD, folder_of(path), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for _ in 0..ATTEMPTS {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{:08x}{UNFINISHED}", random_number() as u32));
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok(Self { folder, name, file: file.into(), has_own_name: false }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Sets the permissions of `access`, waits until all data is on the disk, and renames the file to `name`, replacing
    /// any file of that name.
    pub(crate) fn put(mut self, name: &OsStr, access: FileAccess) -> io::Result<()> {
        self.finish(access)?;
        renameat(&self.folder, &self.name, &self.folder, name)?;
        self.has_own_name = true;
        Ok(())
    }

    /// As [`put`](Self::put), unless a file of that name exists, which is then kept.
    pub(crate) fn put_first(mut self, name: &OsStr, access: FileAccess) -> io::Result<()> {
        self.finish(access)?;
        match renameat_with(&self.folder, &self.name, &self.folder, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => return Ok(()),
            // The file system does not support `RENAME_NOREPLACE`.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(&self.folder, &self.name, &self.folder, name)?,
            renamed => renamed?,
        }
        self.has_own_name = true;
        Ok(())
    }

    fn finish(&self, access: FileAccess) -> io::Result<()> {
        access.apply(&self.file)?;
        self.file.sync_all()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.has_own_name {
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Returns an unpredictable number.
pub(crate) fn random_number() -> u64 {
    // Its keys come from the operating system.
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_complete_file_is_renamed_and_replaces_a_link_not_its_target() {
        let folder = TempDir::new().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&other, "of others").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&other, &path).unwrap();
        let access = FileAccess::of(&fs::metadata(&other).unwrap());
        drop(NewFile::create(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "an unfinished file is removed");
        let new = NewFile::create(&path).unwrap();
        new.file().write_all(b"new").unwrap();
        new.put(OsStr::new("file"), access).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"new".to_vec(), b"of others".to_vec()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let second = NewFile::create(&path).unwrap();
        second.put_first(OsStr::new("file"), access).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (b"new".to_vec(), 2));
    }
}
