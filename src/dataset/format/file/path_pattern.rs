//! [`matching_paths`]: the paths that match a pattern.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::name_pattern::{Letter, letters, name_matches};
use crate::watch;
use crate::{Error, Result};

/// Errors that a shell skips, too: the path is gone, not a folder, or not permitted.
const SKIPPED: [i32; 6] = [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::EPERM, libc::ELOOP, libc::ENAMETOOLONG];

/// Returns the paths that `pattern` matches, in no particular order; some occur twice if `**` does.
///
/// The result is that of Python's `glob.glob(pattern, recursive=True)`, except that glob silently skips folders that it
/// fails to read: a process that has run out of file descriptors would get a shorter dataset without an error.
///
/// `*`, `?` and `[...]` match within one name, and `**` matches any number of folders. A name that begins with a dot is
/// matched only by a pattern that begins with one. Folders without read permission are skipped. The search ends after
/// `most` paths.
///
/// # Errors
/// [`Error::Io`] if a folder can't be read for another reason: no file descriptors are left, or the disk is failing.
pub fn matching_paths(pattern: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
    let mut names: Vec<&[u8]> = pattern.split(|byte| *byte == b'/').collect();
    // Consecutive slashes count as one, except at the end: a slash there asks for folders.
    let last = names.pop().unwrap_or_default();
    let names = names.into_iter().filter(|name| !name.is_empty()).chain([last]);
    let start = if pattern.starts_with(b"/") { b"/".as_slice() } else { b"" };
    let mut search = Search { above: Vec::new(), found: Vec::new(), most };
    search.below(start, &names.map(Part::of).collect::<Vec<_>>())?;
    Ok(search.found)
}

/// The part of a pattern between two slashes.
enum Part {
    AnyFolders,
    Name(Vec<u8>),
    Pattern(Vec<Letter>),
}

impl Part {
    fn of(name: &[u8]) -> Self {
        match name {
            b"**" => Self::AnyFolders,
            _ if name.iter().any(|byte| b"*?[".contains(byte)) => Self::Pattern(letters(name)),
            _ => Self::Name(name.to_vec()),
        }
    }
}

struct Search {
    /// The device and inode of each folder that `**` has entered, outermost first.
    above: Vec<(u64, u64)>,
    found: Vec<Vec<u8>>,
    most: usize,
}

impl Search {
    /// Searches for matches of `parts` in `folder`.
    fn below(&mut self, folder: &[u8], parts: &[Part]) -> Result<()> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        match part {
            Part::AnyFolders => self.at_any_depth(folder, rest)?,
            Part::Pattern(pattern) => {
                for (name, kind) in entries(folder, |name| name_matches(pattern, &letters(name)))? {
                    let path = join(folder, &name);
                    if rest.is_empty() {
                        self.add(path);
                    } else if is_folder(&path, kind)? {
                        self.below(&path, rest)?;
                    }
                    if self.found.len() >= self.most {
                        break;
                    }
                }
            }
            Part::Name(name) => {
                let path = join(folder, name);
                if !rest.is_empty() {
                    self.below(&path, rest)?;
                } else if !path.is_empty() && look(&path)?.is_some() {
                    // With nothing after the last slash it is a folder, as `look` has shown.
                    self.add(path);
                }
            }
        }
        Ok(())
    }

    fn at_any_depth(&mut self, folder: &[u8], rest: &[Part]) -> Result<()> {
        let Some(about) = look(&join(folder, b""))? else { return Ok(()) };
        let identity = (about.dev(), about.ino());
        // A link to a folder that contains it would recurse forever.
        if self.above.contains(&identity) {
            return Ok(());
        }
        if !rest.is_empty() {
            self.below(folder, rest)?;
        } else if !folder.is_empty() {
            self.add(folder.to_vec());
        }
        for (name, kind) in entries(folder, |name| !name.starts_with(b"."))? {
            if self.found.len() >= self.most {
                break;
            }
            let path = join(folder, &name);
            if is_folder(&path, kind)? {
                self.above.push(identity);
                self.at_any_depth(&path, rest)?;
                self.above.pop();
            } else if rest.is_empty() {
                self.add(path);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: Vec<u8>) {
        if self.found.len() < self.most {
            self.found.push(path);
        }
    }
}

/// Returns the path of `name` in `folder`; with an empty name, `folder` with a slash at its end.
fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if folder.is_empty() || folder.ends_with(b"/") { b"" } else { b"/" };
    [folder, separator, name].concat()
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(if bytes.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(bytes) })
}

/// Returns the names and file types of the matching entries of `folder`. It reads all entries before returning, so that
/// only one folder is open at a time.
fn entries(folder: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> Result<Vec<(Vec<u8>, Option<FileType>)>> {
    let list = || -> io::Result<Vec<DirEntry>> { fs::read_dir(path_of(folder))?.collect() };
    let mut found = Vec::new();
    for entry in none_if_skipped(folder, list())?.unwrap_or_default() {
        watch::advance(1)?;
        let name = entry.file_name().into_vec();
        if is_wanted(&name) {
            let kind = entry.file_type().ok();
            found.push((name, kind));
        }
    }
    Ok(found)
}

/// True if there is a folder at `path`, or a link to one; `kind` is its file type, if known.
fn is_folder(path: &[u8], kind: Option<FileType>) -> Result<bool> {
    match kind {
        Some(kind) if !kind.is_symlink() => Ok(kind.is_dir()),
        _ => Ok(none_if_skipped(path, fs::metadata(path_of(path)))?.is_some_and(|about| about.is_dir())),
    }
}

/// Returns the metadata of `path`, if it exists; a link is followed only if a folder is required.
fn look(path: &[u8]) -> Result<Option<Metadata>> {
    let follows = path.is_empty() || path.ends_with(b"/");
    let found = if follows { fs::metadata(path_of(path)) } else { fs::symlink_metadata(path_of(path)) };
    none_if_skipped(path, found)
}

fn none_if_skipped<T>(path: &[u8], found: io::Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_skipped(&error) => Ok(None),
        Err(source) => Err(Error::Io { path: path_of(path).to_path_buf(), source }),
    }
}

fn is_skipped(error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(number) => SKIPPED.contains(&number),
        // The path contains a null byte, so it cannot exist.
        None => error.kind() == io::ErrorKind::InvalidInput,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_folders_are_skipped_but_disk_errors_are_not() {
        let skipped = |number| is_skipped(&io::Error::from_raw_os_error(number));
        assert!(skipped(libc::EACCES) && skipped(libc::ENOENT));
        assert!(!skipped(libc::EIO) && !skipped(libc::EMFILE));
        assert!(look(b"a\0b").unwrap().is_none());
    }

    #[test]
    fn names_after_a_pattern_are_looked_for_in_all_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a1/b", "a2/c", "a3/b"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("a1/b/x"), b"").unwrap();
        fs::write(folder.path().join("a2/c/x"), b"").unwrap();
        let found = |pattern: &str| {
            let pattern = folder.path().join(pattern).into_os_string().into_vec();
            let mut found = matching_paths(&pattern, usize::MAX).unwrap();
            found.sort();
            let name = |path: Vec<u8>| String::from_utf8(path).unwrap();
            let start = folder.path().to_str().unwrap().len() + 1;
            found.into_iter().map(|path| name(path)[start..].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("a*/b/x"), ["a1/b/x"]);
        assert_eq!(found("a*/b"), ["a1/b", "a3/b"]);
        assert_eq!(found("a*/b/"), ["a1/b/", "a3/b/"]);
        assert_eq!(found("a1/b/x"), ["a1/b/x"]);
        assert_eq!(found("a1/*/x"), ["a1/b/x"]);
        assert_eq!(found("a1/x"), [""; 0]);
    }
}
