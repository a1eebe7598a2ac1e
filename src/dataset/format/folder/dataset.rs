//! [`Folder`]: one file per sample.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::walk::{FolderClasses, FolderOptions, first_component, join, walk};
use crate::dataset::format::file::data_file::open_regular;
use crate::dataset::format::index::broken::{Broken, is_file_error};
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::whole_samples::WholeSamples;
use crate::dataset::{Dataset, VariableSize};
use crate::local_path::check_readable;
use crate::{DType, Error, Field, Result, SampleWriter, Schema, SizesWriter};

/// The files below a folder, each a sample of two or three fields: `bytes`, its contents; `path`, its path relative to
/// the folder, as bytes; and, if requested, `class`, the number of the top-level folder that contains it.
///
/// The order is that of torchvision's `ImageFolder`, by bytes. Files are listed when the dataset is opened, and opened
/// when they are read. A file whose size changes while it is read is [`Error::Changed`].
///
/// # Example
/// ```
/// use sluicegate::{Dataset, Folder, FolderOptions};
/// # let folder = tempfile::TempDir::new().unwrap();
/// # std::fs::write(folder.path().join("a.txt"), "letters").unwrap();
/// let files = Folder::open(folder.path(), &FolderOptions::default()).unwrap();
/// assert_eq!(files.schema().to_string(), "(bytes: uint8[*], path: uint8[*])");
/// # assert_eq!(files.len(), 1);
/// ```
pub struct Folder {
    root: PathBuf,
    /// The paths from the root, concatenated, and the end offset of each.
    paths: Vec<u8>,
    ends: Vec<usize>,
    /// One per sample; empty if there are no classes.
    classes: Vec<u32>,
    class_names: Vec<Vec<u8>>,
    schema: Schema,
}

/// The number of files per task when searching for files that can't be opened.
const PART: usize = 1024;

impl Folder {
    /// Finds the files below the folder `root` that match `options`.
    ///
    /// # Errors
    /// [`Error::Io`] if a folder can't be listed, or a link is dangling; [`Error::InvalidArgument`] if a link leads out
    /// of the root, or to a folder that contains it, or if a class has no files.
    pub fn open(root: impl AsRef<Path>, options: &FolderOptions) -> Result<Self> {
        Self::open_all(root, &[PathBuf::new()], options)
    }

    /// Finds the files below several `folders`, given relative to `root`, one folder after the other. Paths of files
    /// are relative to `root`; classes are the top-level folders within each of the `folders`, and those of the same
    /// name are one class.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_all(root: impl AsRef<Path>, folders: &[PathBuf], options: &FolderOptions) -> Result<Self> {
        Self::open_with(root.as_ref(), folders, options, Damages::Refuse)
    }

    /// The same without files that can't be opened for reading, and without dangling links. This opens each file, every
    /// time, but does not read it.
    ///
    /// # Errors
    /// As [`open_all`](Self::open_all), except for dangling links; [`Error::Io`] if no file can be opened at the
    /// moment, for example because too many are open.
    pub fn open_whole(
        root: impl AsRef<Path>,
        folders: &[PathBuf],
        options: &FolderOptions,
    ) -> Result<WholeSamples<Self>> {
        let files = Self::open_with(root.as_ref(), folders, options, Damages::LeaveOut)?;
        let broken = files.find_broken()?;
        Ok(WholeSamples::new(files, broken))
    }

    fn find_broken(&self) -> Result<Broken> {
        let parts: Vec<usize> = (0..self.len()).step_by(PART).collect();
        Broken::find(&parts, |&start| {
            let mut broken = Broken::default();
            for index in start..(start + PART).min(self.len()) {
                let path = self.place(index)?;
                match open_regular(&path) {
                    Ok(_) => {}
                    Err(error) if is_file_error(&error) => broken.push(index..index + 1, || error),
                    Err(error) => return Err(error),
                }
            }
            Ok(broken)
        })
    }

    pub(crate) fn open_with(
        root: &Path,
        folders: &[PathBuf],
        options: &FolderOptions,
        damages: Damages,
    ) -> Result<Self> {
        check_readable("root", root)?;
        let has_classes = options.classes != FolderClasses::None;
        let (mut paths, mut ends, mut classes) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Vec::with_capacity(folders.len());
        for folder in folders {
            let place = if folder.as_os_str().is_empty() { root.to_path_buf() } else { root.join(folder) };
            found.push((folder.as_os_str().as_bytes(), walk(&place, options, damages)?));
        }
        // By name: the number of the class, and the number of its samples.
        let mut of_classes: BTreeMap<Vec<u8>, (u32, usize)> = BTreeMap::new();
        if has_classes {
            let below = found.iter().flat_map(|(_, files)| files).filter(|folder| !folder.path.is_empty());
            for folder in below {
                of_classes.entry(first_component(&folder.path).to_vec()).or_default().1 += folder.names.len();
            }
            for (number, (name, class)) in of_classes.iter_mut().enumerate() {
                if options.classes == FolderClasses::FirstFolder {
                    refuse_empty(name, class.1)?;
                }
                class.0 = u32::try_from(number).unwrap_or(u32::MAX);
            }
        }
        for (prefix, files) in &found {
            for folder in files {
                if has_classes && folder.path.is_empty() {
                    continue;
                }
                for name in &folder.names {
                    let path = join(&folder.path, name);
                    paths.extend(join(prefix, &path));
                    ends.push(paths.len());
                }
                if let Some((class, _)) = of_classes.get(first_component(&folder.path)) {
                    classes.resize(ends.len(), *class);
                }
            }
        }
        let class_names = of_classes.into_keys().collect();
        let mut fields = vec![Field::variable("bytes", DType::UInt8, []), Field::variable("path", DType::UInt8, [])];
        fields.extend(has_classes.then(|| Field::new("class", DType::Int64, [])));
        Ok(Self { root: root.to_path_buf(), paths, ends, classes, class_names, schema: Schema::new(fields) })
    }

    #[cfg(feature = "image")]
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of file `index` relative to the root, as bytes.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    pub fn path(&self, index: usize) -> Result<&[u8]> {
        let len = self.ends.len();
        let end = *self.ends.get(index).ok_or(Error::IndexOutOfRange { index, len })?;
        Ok(&self.paths[if index == 0 { 0 } else { self.ends[index - 1] }..end])
    }

    /// Returns the number of the class of file `index`; `None` if there are no classes.
    #[must_use]
    pub fn class(&self, index: usize) -> Option<u32> {
        self.classes.get(index).copied()
    }

    /// The names of the classes, by number; empty if there are no classes.
    #[must_use]
    pub fn class_names(&self) -> &[Vec<u8>] {
        &self.class_names
    }

    pub(crate) fn place(&self, index: usize) -> Result<PathBuf> {
        Ok(self.root.join(OsStr::from_bytes(self.path(index)?)))
    }
}

/// Fails if the class `name` has no files, like torchvision.
fn refuse_empty(name: &[u8], samples: usize) -> Result<()> {
    match samples {
        0 => Err(Error::invalid(
            "classes",
            format!(
                "the folder `{}` has no file that matches pattern and extensions, so its class would have no samples; \
                 remove the folder, or change pattern or extensions",
                String::from_utf8_lossy(name)
            ),
        )),
        _ => Ok(()),
    }
}

impl Dataset for Folder {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        let path = self.place(index)?;
        let io = |source| Error::Io { path: path.clone(), source };
        let mut file = File::open(&path).map_err(io)?;
        let (found, room) = (file.metadata().map_err(io)?.len(), into.field(0));
        if found != room.len() as u64 {
            let reason = format!("it had {} bytes, but has {found} now", room.len());
            return Err(Error::Changed { path, reason });
        }
        file.read_exact(room).map_err(io)?;
        into.field(1).copy_from_slice(self.path(index)?);
        if let Some(class) = self.classes.get(index) {
            into.field(2).copy_from_slice(&i64::from(*class).to_ne_bytes());
        }
        Ok(())
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        Some(self)
    }

    fn origin(&self, index: usize, _field: usize) -> Option<String> {
        Some(self.place(index).ok()?.display().to_string())
    }
}

impl VariableSize for Folder {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        for (row, &index) in indices.iter().enumerate() {
            let path = self.place(index)?;
            let found = fs::metadata(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
            if !found.is_file() {
                // Opening a pipe would wait for a writer.
                return Err(Error::Changed { path, reason: "it is no longer a regular file".into() });
            }
            into.set(row, 0, usize::try_from(found.len()).unwrap_or(usize::MAX));
            into.set(row, 1, self.path(index)?.len());
        }
        Ok(())
    }
}
