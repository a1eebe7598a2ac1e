//! [`ImageLink`]: images that a table stores as paths to files instead of as bytes.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::dataset::format::file::data_file::open_regular;

/// Larger files are not read as images.
const LARGEST_FILE: u64 = 4 << 30;

/// Two fields of a dataset, as in Hugging Face's `Image` columns: the bytes of an image file, and its path. If a sample
/// has no bytes, the file at the path is read.
///
/// # Example
/// ```
/// use sluicegate::internal::ImageLink;
/// let link = ImageLink { bytes: 0, path: 1, folder: None };
/// assert!(link.read(b"").unwrap_err().contains("neither bytes nor a path"));
/// assert!(link.read(b"s3://a/b.png").unwrap_err().contains("local"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLink {
    /// The number of the field with the bytes.
    pub bytes: usize,
    /// The number of the field with the path.
    pub path: usize,
    /// The base of relative paths, or else, if no such file exists, the working directory. `None` refuses them.
    pub folder: Option<PathBuf>,
}

impl ImageLink {
    /// Returns the bytes of the file at `path`.
    ///
    /// # Errors
    /// The reason: the path is empty or does not name a local file, or the file can't be read.
    pub fn read(&self, path: &[u8]) -> Result<Vec<u8>, String> {
        if path.is_empty() {
            return Err("the image is null: it has neither bytes nor a path".into());
        }
        if path.windows(3).any(|three| three == b"://") {
            let path = String::from_utf8_lossy(path);
            return Err(format!(
                "the image has no bytes, and its path {path:?} is not a local path; download the file"
            ));
        }
        let path = Path::new(OsStr::from_bytes(path));
        if self.folder.is_none() && path.is_relative() {
            return Err(format!(
                "the image has no bytes, and its path {} is relative, but the files of the dataset are in several \
                 folders; open the files of each folder as a separate dataset, and join these with ConcatDataset",
                path.display()
            ));
        }
        let in_folder = self.folder.as_ref().map(|folder| folder.join(path)).filter(|in_folder| in_folder.exists());
        let found = in_folder.as_deref().unwrap_or(path);
        let refuse = |reason: String| {
            let problem = format!("the image has no bytes, and its path cannot be read: {reason}");
            match &self.folder {
                Some(folder) if path.is_relative() => {
                    format!(
                        "{problem}; relative paths are resolved against {}, or against the working directory",
                        folder.display()
                    )
                }
                _ => problem,
            }
        };
        let file = open_regular(found).map_err(|error| refuse(error.to_string()))?;
        let mut bytes = Vec::new();
        let read = file.take(LARGEST_FILE + 1).read_to_end(&mut bytes);
        read.map_err(|error| refuse(format!("{}: {error}", found.display())))?;
        if bytes.len() as u64 > LARGEST_FILE {
            return Err(refuse(format!("{} has more than {LARGEST_FILE} bytes", found.display())));
        }
        Ok(bytes)
    }
}
