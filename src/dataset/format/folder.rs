//! [`Folder`]: one file a sample.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::folder_walk::{FolderClasses, FolderOptions, first_component, join, walk};
use crate::dataset::{Dataset, VariableSize};
use crate::{DType, Error, Field, Result, SampleWriter, Schema, SizesWriter};

/// The files below a folder, each a sample of two fields or three: `bytes`, all of its contents; `path`, its path from the
/// folder, as bytes; and `class`, the number of the folder at the top that it lies in, where that is asked for.
///
/// The order is that of torchvision's `ImageFolder`, by bytes. The files are found when it is opened, and opened when they
/// are read. One that has another size by then than a moment before is [`Error::Changed`].
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
    /// The paths from the root, one after the other, and where each one ends.
    paths: Vec<u8>,
    ends: Vec<usize>,
    /// By sample; empty where there are no classes.
    classes: Vec<u32>,
    class_names: Vec<Vec<u8>>,
    schema: Schema,
}

impl Folder {
    /// Finds the files below the folder `root` that `options` mean.
    ///
    /// # Errors
    /// [`Error::Io`] when a folder can't be listed, or a link leads nowhere; [`Error::InvalidArgument`] when a link leads out
    /// of the root, or to where it lies itself, or when a class has no file.
    pub fn open(root: impl AsRef<Path>, options: &FolderOptions) -> Result<Self> {
        let root = root.as_ref();
        let has_classes = options.classes == FolderClasses::FirstFolder;
        let (mut paths, mut ends, mut classes) = (Vec::new(), Vec::new(), Vec::new());
        let mut class_names: Vec<Vec<u8>> = Vec::new();
        let mut samples_before_class = 0;
        for folder in walk(root, options)? {
            if has_classes && folder.path.is_empty() {
                continue;
            }
            let class = first_component(&folder.path);
            if has_classes && class_names.last().is_none_or(|last| last != class) {
                refuse_empty(&class_names, ends.len() - samples_before_class)?;
                samples_before_class = ends.len();
                class_names.push(class.to_vec());
            }
            for name in &folder.names {
                paths.extend(join(&folder.path, name));
                ends.push(paths.len());
            }
            if has_classes {
                let class = u32::try_from(class_names.len() - 1).unwrap_or(u32::MAX);
                classes.resize(ends.len(), class);
            }
        }
        refuse_empty(&class_names, ends.len() - samples_before_class)?;
        let mut fields = vec![Field::variable("bytes", DType::UInt8, []), Field::variable("path", DType::UInt8, [])];
        fields.extend(has_classes.then(|| Field::new("class", DType::Int64, [])));
        Ok(Self { root: root.to_path_buf(), paths, ends, classes, class_names, schema: Schema::new(fields) })
    }

    /// The path of file `index` from the root, as bytes.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    pub fn path(&self, index: usize) -> Result<&[u8]> {
        let len = self.ends.len();
        let end = *self.ends.get(index).ok_or(Error::IndexOutOfRange { index, len })?;
        Ok(&self.paths[if index == 0 { 0 } else { self.ends[index - 1] }..end])
    }

    /// The names of the classes, by number; none where there are no classes.
    #[must_use]
    pub fn class_names(&self) -> &[Vec<u8>] {
        &self.class_names
    }

    fn place(&self, index: usize) -> Result<PathBuf> {
        Ok(self.root.join(OsStr::from_bytes(self.path(index)?)))
    }
}

/// Fails when the last class has no file, as torchvision does.
fn refuse_empty(class_names: &[Vec<u8>], samples: usize) -> Result<()> {
    match class_names.last() {
        Some(name) if samples == 0 => Err(Error::InvalidArgument {
            argument: "classes",
            reason: format!(
                "the folder `{}` has no file that is meant, so that there is no sample of that class: remove the folder, or \
                 see whether pattern and extensions are right",
                String::from_utf8_lossy(name)
            ),
        }),
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
            let reason = format!("it had {} bytes, and has {found} now", room.len());
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
}

impl VariableSize for Folder {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        for (row, &index) in indices.iter().enumerate() {
            let path = self.place(index)?;
            let found = fs::metadata(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
            if !found.is_file() {
                // Opening a pipe would wait until somebody writes to it.
                return Err(Error::Changed { path, reason: "it is no regular file any more".into() });
            }
            into.set(row, 0, usize::try_from(found.len()).unwrap_or(usize::MAX));
            into.set(row, 1, self.path(index)?.len());
        }
        Ok(())
    }
}
