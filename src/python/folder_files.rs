//! `FolderFiles`: the files below a folder and the classes they are of, before any of them is read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;

use super::dataset::Dataset;
use super::detach::detach;
use super::error::to_python;
use crate::{Dataset as _, Folder, FolderClasses, FolderLinks, FolderOptions, InMemory};

/// The files of a folder with classes. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct FolderFiles(Arc<Folder>);

#[pymethods]
impl FolderFiles {
    /// The files below `root` that have one of the `extensions` (or any). Classes may be without files.
    #[new]
    fn new(py: Python<'_>, root: PathBuf, extensions: Vec<String>, follow_links: bool) -> PyResult<Self> {
        let classes = FolderClasses::FirstFolderOrEmpty;
        let links = if follow_links { FolderLinks::Anywhere } else { FolderLinks::Inside };
        let options = FolderOptions { classes, links, extensions, pattern: None };
        Ok(Self(Arc::new(detach(py, || Folder::open(root, &options))?)))
    }

    /// The names of the classes, by number.
    #[getter]
    fn class_names(&self) -> Vec<OsString> {
        self.0.class_names().iter().map(|name| OsString::from_vec(name.clone())).collect()
    }

    /// The number of files of each class.
    fn class_sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.0.class_names().len()];
        for class in (0..self.0.len()).filter_map(|index| self.0.class(index)) {
            sizes[class as usize] += 1;
        }
        sizes
    }

    /// The paths of all files, from the root.
    fn paths(&self, py: Python<'_>) -> PyResult<Vec<&OsStr>> {
        let path = |index| self.0.path(index).map(OsStr::from_bytes).map_err(|error| to_python(py, error));
        (0..self.0.len()).map(path).collect()
    }

    /// The numbers of the classes of all files.
    fn classes(&self) -> Vec<u32> {
        (0..self.0.len()).filter_map(|index| self.0.class(index)).collect()
    }

    /// The numbers of the classes of all files, as a dataset.
    fn labels(&self, py: Python<'_>) -> PyResult<Dataset> {
        let classes = (0..self.0.len()).filter_map(|index| self.0.class(index)).map(i64::from).collect();
        let labels = InMemory::from_vec("class", classes, []).map_err(|error| to_python(py, error))?;
        Ok(Dataset(Arc::new(labels)))
    }

    /// What reads the files.
    fn dataset(&self) -> Dataset {
        Dataset(Arc::clone(&self.0) as Arc<dyn crate::Dataset>)
    }
}
