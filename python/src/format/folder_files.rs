//! `FolderFiles`: the files below a folder and their classes, before any file is read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::BrokenImages;
use sluicegate::{Dataset as _, Folder, FolderClasses, FolderLinks, FolderOptions};

use crate::dataset::Dataset;
use crate::detach::detach_long;
use crate::error::to_python;
use crate::image::decoder::ImageDecoder;
use crate::image::pipeline::handle_signals;

/// The files of a folder, with classes or without. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct FolderFiles(Arc<Folder>);

#[pymethods]
impl FolderFiles {
    /// Lists the files below `root` with one of the `extensions` (or any): anywhere, or, if there are classes, in class
    /// folders, which may be empty. Broken links count as files if `leave_out` is set; otherwise they are an error.
    #[new]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        extensions: Vec<String>,
        has_classes: bool,
        follow_links: bool,
        leave_out: bool,
    ) -> PyResult<Self> {
        let classes = if has_classes { FolderClasses::FirstFolderOrEmpty } else { FolderClasses::None };
        let links = if follow_links { FolderLinks::Anywhere } else { FolderLinks::Inside };
        let options = FolderOptions { classes, links, extensions, pattern: None };
        let open = || if leave_out { Folder::open_damaged(root, &options) } else { Folder::open(root, &options) };
        Ok(Self(Arc::new(detach_long(py, "listing files", open)?)))
    }

    /// Returns the names of the classes, by number.
    #[getter]
    fn class_names(&self) -> Vec<OsString> {
        self.0.class_names().iter().map(|name| OsString::from_vec(name.clone())).collect()
    }

    /// Returns the paths of all files, from the root.
    fn paths(&self, py: Python<'_>) -> PyResult<Vec<&OsStr>> {
        let path = |index| self.0.path(index).map(OsStr::from_bytes).map_err(|error| to_python(py, error));
        (0..self.0.len()).map(path).collect()
    }

    /// Returns the class numbers of all files.
    fn classes(&self) -> Vec<u32> {
        (0..self.0.len()).filter_map(|index| self.0.class(index)).collect()
    }

    /// Returns which files of `indices` can't be opened or decoded, and why; the result is kept in `index_folder`.
    fn broken_images(
        &self,
        py: Python<'_>,
        indices: Vec<usize>,
        decoder: &ImageDecoder,
        index_folder: Option<PathBuf>,
    ) -> PyResult<(Vec<usize>, Vec<String>)> {
        let find = || self.0.broken_images(&indices, &decoder.options, index_folder, handle_signals);
        let BrokenImages { indices, damages } = detach_long(py, "reading images", find)?;
        Ok((indices, damages))
    }

    /// Returns the dataset that reads the files.
    fn dataset(&self) -> Dataset {
        Dataset(Arc::clone(&self.0) as Arc<dyn sluicegate::Dataset>)
    }
}
