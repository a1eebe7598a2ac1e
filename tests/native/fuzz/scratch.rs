//! [`scratch`]: a folder for the files of one input.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder that can't be made: an index that is to be put there stays in memory.
pub(super) const NOWHERE: &str = "/proc/no-folder";

thread_local! {
    static FOLDER: TempDir = {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        TempDir::with_prefix_in("sluicegate-fuzz-", parent).unwrap()
    };
}

/// The path of `name` in a folder of this thread.
pub(super) fn scratch(name: &str) -> PathBuf {
    FOLDER.with(|folder| folder.path().join(name))
}

/// A file of that name and contents.
pub(super) fn file(name: &str, contents: &[u8]) -> PathBuf {
    let path = scratch(name);
    fs::write(&path, contents).unwrap();
    path
}
