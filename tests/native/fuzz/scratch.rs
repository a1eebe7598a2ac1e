//! [`scratch`]: a folder for the files of one input.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder that cannot be created: an index that should be stored there stays in memory.
pub(super) const NOWHERE: &str = "/proc/no-folder";

const PREFIX: &str = "sluicegate-fuzz-";

thread_local! {
    static FOLDER: TempDir = {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        remove_left(&parent);
        TempDir::with_prefix_in(format!("{PREFIX}{}-", std::process::id()), parent).unwrap()
    };
}

/// Removes the folders of processes that have ended: a fuzzer ends without cleaning up.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the path of `name` in a folder of this thread.
pub(super) fn scratch(name: &str) -> PathBuf {
    FOLDER.with(|folder| folder.path().join(name))
}

/// Writes a file with that name and contents.
pub(super) fn file(name: &str, contents: &[u8]) -> PathBuf {
    let path = scratch(name);
    fs::write(&path, contents).unwrap();
    path
}
