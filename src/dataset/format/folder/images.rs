//! [`Folder::broken_images`]: finds the files of a folder that are not images, or can't be decoded.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::dataset::Folder;
use super::walk::FolderOptions;
use crate::dataset::format::file::data_file::open_regular;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::source_files::{FileFacts, SourceFiles};
use crate::dataset::format::image::broken_images::{BrokenImages, kept_or_found, parameters, undecoded};
use crate::dataset::format::index::broken::{Broken, is_file_error};
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::file::digest_of;
use crate::rng::digest;
use crate::transform::{DecodeOptions, Image};
use crate::{Error, Result};

/// The number of files that a task opens.
const PART: usize = 1024;

/// Larger files are not considered images.
const LARGEST_FILE: u64 = 4 << 30;

/// A file that could be opened.
struct Opened {
    index: usize,
    path: PathBuf,
    facts: FileFacts,
}

impl Folder {
    /// As [`open`](Self::open), but dangling links are listed as files that can't be opened.
    ///
    /// # Errors
    /// As [`open`](Self::open), except for dangling links.
    pub fn open_damaged(root: impl AsRef<Path>, options: &FolderOptions) -> Result<Self> {
        Self::open_with(root.as_ref(), &[PathBuf::new()], options, Damages::LeaveOut)
    }

    /// Finds the files among `indices`, which must be ascending, that can't be opened or decoded as images with
    /// `options`.
    ///
    /// Opens all files, and decodes each once, in parallel. If they have 4 MiB or more, the result is kept in
    /// `index_folder`, or in the user's cache folder (`$SLUICEGATE_CACHE`, `$XDG_CACHE_HOME/sluicegate` or
    /// `~/.cache/sluicegate`), and used until the size or a timestamp of a file changes. `check_interrupt` is
    /// called about once a second while images are decoded.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that was opened but can't be read, or if no more files can be opened at all;
    /// [`Error::IndexOutOfRange`]; the error of `check_interrupt`.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{DecodeOptions, Folder, FolderOptions};
    /// # let folder = tempfile::TempDir::new().unwrap();
    /// # std::fs::write(folder.path().join("a.jpg"), "letters").unwrap();
    /// # std::fs::write(folder.path().join("b.pgm"), b"P5 1 1 255 \x07").unwrap();
    /// let files = Folder::open_damaged(folder.path(), &FolderOptions::default()).unwrap();
    /// let broken = files.broken_images(&[0, 1], &DecodeOptions::default(), None, || Ok(())).unwrap();
    /// assert_eq!(broken.indices, [0]);
    /// ```
    #[doc(hidden)]
    pub fn broken_images(
        &self,
        indices: &[usize],
        options: &DecodeOptions,
        index_folder: Option<PathBuf>,
        check_interrupt: impl FnMut() -> Result<()>,
    ) -> Result<BrokenImages> {
        let (files, unopened) = self.open_each(indices)?;
        let undecoded = self.undecoded(&files, options, index_folder, check_interrupt)?;
        let not_decoded = undecoded.runs().iter().flat_map(|run| run.clone().map(|place| files[place].index));
        let not_opened = unopened.runs().iter().flat_map(|run| run.clone().map(|place| indices[place]));
        let mut found: Vec<usize> = not_opened.chain(not_decoded).collect();
        found.sort_unstable();
        let mut damages = unopened;
        damages.append_texts(undecoded);
        Ok(BrokenImages { indices: found, damages: damages.into_texts() })
    }

    /// Returns the files that can be opened, and those that can't, by their position in `indices`.
    fn open_each(&self, indices: &[usize]) -> Result<(Vec<Opened>, Broken)> {
        let parts: Vec<&[usize]> = indices.chunks(PART).collect();
        let opened = scan(&parts, |part| {
            let open = |&index: &usize| {
                let path = self.place(index)?;
                match facts_of(&path) {
                    Ok(found) => Ok(Ok(Opened { index, path, facts: FileFacts::of(&found) })),
                    Err(error) if is_file_error(&error) => Ok(Err(error)),
                    Err(error) => Err(error),
                }
            };
            part.iter().map(open).collect::<Result<Vec<_>>>()
        })?;
        let (mut files, mut unopened) = (Vec::with_capacity(indices.len()), Broken::default());
        for (place, file) in opened.into_iter().flatten().enumerate() {
            match file {
                Ok(file) => files.push(file),
                Err(error) => unopened.push(place..place + 1, || error),
            }
        }
        Ok((files, unopened))
    }

    /// Returns which of `files` can't be decoded, from the index if possible.
    fn undecoded(
        &self,
        files: &[Opened],
        options: &DecodeOptions,
        index_folder: Option<PathBuf>,
        check_interrupt: impl FnMut() -> Result<()>,
    ) -> Result<Broken> {
        let bytes = files.iter().map(|file| file.facts.bytes).fold(0, u64::saturating_add);
        let kind = ("images 1", &parameters(options)[..]);
        kept_or_found(
            (files.len(), bytes),
            || self.combined_facts(files, bytes),
            kind,
            index_folder,
            || undecoded(files.len(), |place| decode_error(&files[place], options), check_interrupt),
        )
    }

    /// Returns one entry that stands for all files, which may be millions; it changes if any of them does.
    fn combined_facts(&self, files: &[Opened], bytes: u64) -> Result<SourceFiles> {
        let root = std::path::absolute(self.root()).map_err(|source| Error::Io { path: self.root().into(), source })?;
        let names = files.iter().map(|file| Ok(digest_of(self.path(file.index)?))).collect::<Result<Vec<_>>>()?;
        let facts = files
            .iter()
            .zip(names)
            .flat_map(|(file, name)| [name, file.facts.bytes, file.facts.modified as u64, file.facts.changed as u64]);
        let facts = FileFacts::of_many(files.iter().map(|file| file.facts), bytes, digest(facts));
        let facts = facts.ok_or_else(|| Error::Io { path: root.clone(), source: io::ErrorKind::NotFound.into() })?;
        Ok(SourceFiles::of_one(root, facts))
    }
}

/// Returns why a file can't be decoded, if it can't.
fn decode_error(file: &Opened, options: &DecodeOptions) -> Result<Option<String>> {
    let size = file.facts.bytes;
    if size > LARGEST_FILE {
        return Ok(Some(format!("it has {size} bytes, but an image may have at most {LARGEST_FILE}")));
    }
    let io = |source| Error::Io { path: file.path.clone(), source };
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size as usize).map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
    open_regular(&file.path)?.take(size).read_to_end(&mut bytes).map_err(io)?;
    Ok(Image::decode(&bytes, options).err().map(|reason| format!("{}: {reason}", file.path.display())))
}

/// Opens a file and returns its metadata.
fn facts_of(path: &Path) -> Result<Metadata> {
    let file: File = open_regular(path)?;
    file.metadata().map_err(|source| Error::Io { path: path.to_path_buf(), source })
}
