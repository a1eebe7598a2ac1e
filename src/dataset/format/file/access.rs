//! [`FileAccess`]: the permissions of a file.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Gid, Mode, fchmod, fchown};
use rustix::process::geteuid;

/// Who may read and write a file: files derived from it must not be more widely readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileAccess {
    /// The permission bits except those for execution.
    mode: u32,
    group: u32,
}

const GROUP: u32 = 0o060;

impl FileAccess {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { mode: metadata.mode() & 0o666, group: metadata.gid() }
    }

    /// Returns what both files allow. Different groups have different members, so if the groups differ, the group gets
    /// no permissions.
    pub(crate) fn and(self, other: Self) -> Self {
        let mut mode = self.mode & other.mode;
        if self.group != other.group {
            mode &= !GROUP;
        }
        Self { mode, group: self.group }
    }

    /// Gives `file`, which only its owner may read so far, these permissions. The owner always keeps read permission.
    ///
    /// # Errors
    /// The operating system refuses. If the file can't be given the group, the group's permissions are left out.
    pub(crate) fn apply(self, file: &File) -> io::Result<()> {
        let mut mode = self.mode | 0o400;
        if file.metadata()?.gid() != self.group && fchown(file, None, Some(Gid::from_raw(self.group))).is_err() {
            mode &= !GROUP;
        }
        Ok(fchmod(file, Mode::from_raw_mode(mode))?)
    }
}

/// Creates the folder at `path` and its missing parents, for this user only, since what is cached in them may be
/// private.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns the folder that the file at `path` is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    // A bare name has an empty parent, which cannot be opened.
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// True if `file` is the one at `path` itself, not the target of a link there.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(current)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (current.dev(), current.ino())
}

/// True if the file at `path`, in a folder that everyone may write to, is owned by someone other than this user, root
/// or the owner of the folder.
pub(crate) fn is_owned_by_others(metadata: &Metadata, path: &Path) -> bool {
    let Ok(folder) = fs::metadata(folder_of(path)) else { return true };
    let known = [geteuid().as_raw(), 0, folder.uid()];
    folder.mode() & 0o002 != 0 && !known.contains(&metadata.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn access_to_two_files_is_what_both_allow() {
        let access = |mode, group| FileAccess { mode, group };
        assert_eq!(access(0o644, 7).and(access(0o640, 7)), access(0o640, 7));
        assert_eq!(access(0o640, 7).and(access(0o640, 8)), access(0o600, 7));
        assert_eq!(access(0o600, 7).and(access(0o666, 7)).mode, 0o600);
    }

    #[test]
    fn files_of_this_user_are_trusted_in_folders_that_everyone_may_write_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, b"x").unwrap();
        for mode in [0o700, 0o1777] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert!(!is_owned_by_others(&fs::metadata(&path).unwrap(), &path), "{mode:o}");
        }
    }
}
