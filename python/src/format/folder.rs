//! Folders of files.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::{Folder, FolderClasses, FolderLinks, FolderOptions};

use crate::dataset::Dataset;
use crate::detach::opening;

/// Opens the files below the `folders` of `root` with one of the `extensions` (or any) that match `pattern` (or
/// anything). Returns the dataset, the class names, and the files that can't be opened, which only `leave_out` allows.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as many as Python's constructor has")]
pub(crate) fn folder_dataset(
    py: Python<'_>,
    root: PathBuf,
    folders: Vec<PathBuf>,
    pattern: Option<OsString>,
    extensions: Vec<String>,
    has_classes: bool,
    follow_links: bool,
    leave_out: bool,
) -> PyResult<(Dataset, Vec<OsString>, Vec<String>)> {
    let classes = if has_classes { FolderClasses::FirstFolder } else { FolderClasses::None };
    let links = if follow_links { FolderLinks::Anywhere } else { FolderLinks::Inside };
    let options = FolderOptions { classes, links, extensions, pattern };
    let names =
        |folder: &Folder| folder.class_names().iter().map(|name| OsString::from_vec(name.clone())).collect::<Vec<_>>();
    if leave_out {
        let folder = opening(py, || Folder::open_whole(root, &folders, &options))?;
        let names = names(folder.dataset());
        let (folder, damages) = Dataset::whole(folder);
        return Ok((folder, names, damages));
    }
    let folder = opening(py, || Folder::open_all(root, &folders, &options))?;
    let names = names(&folder);
    Ok((Dataset(Arc::new(folder)), names, Vec::new()))
}
