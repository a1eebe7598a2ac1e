//! [`Folder::broken_images`]: which files of a folder are not images that can be decoded.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::dataset::Folder;
use super::walk::FolderOptions;
use crate::dataset::format::file::data_file::open_regular;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::source_files::{FileFacts, SourceFiles};
use crate::dataset::format::image::broken_images::{BrokenImages, kept_or_found, parameters, undecoded};
use crate::dataset::format::index::broken::{Broken, is_of_the_file};
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::file::digest_of;
use crate::rng::digest;
use crate::transform::{DecodeOptions, decode_image};
use crate::{Error, Result};

/// So many files are opened one after the other.
const PART: usize = 1024;

/// Larger files are not images that can be decoded.
const LARGEST_FILE: u64 = 4 << 30;

/// A file that can be opened.
struct Opened {
    index: usize,
    path: PathBuf,
    facts: FileFacts,
}

impl Folder {
    /// As [`open`](Self::open), but links that lead nowhere are files that can't be opened.
    ///
    /// # Errors
    /// As [`open`](Self::open), except those.
    pub fn open_damaged(root: impl AsRef<Path>, options: &FolderOptions) -> Result<Self> {
        Self::open_with(root.as_ref(), &[PathBuf::new()], options, Damages::LeaveOut)
    }

    /// Which of the files `indices`, in ascending order, can't be opened, or are not images that can be decoded with
    /// `options`.
    ///
    /// All are opened, and each is decoded once, side by side. For 4 MiB and more what was found is kept in `index_folder`, or
    /// in the user's cache folder (`$SLUICEGATE_CACHE`, `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`), for as long as
    /// the files have the sizes and the times of their last change that they had. `go_on` is called about once a second
    /// while images are decoded.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that was opened and can't be read, or where no more files can be opened at all;
    /// [`Error::IndexOutOfRange`]; that of `go_on`.
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
    pub fn broken_images(
        &self,
        indices: &[usize],
        options: &DecodeOptions,
        index_folder: Option<PathBuf>,
        go_on: impl FnMut() -> Result<()>,
    ) -> Result<BrokenImages> {
        let (files, unopened) = self.open_each(indices)?;
        let undecoded = self.undecoded(&files, options, index_folder, go_on)?;
        let not_decoded = undecoded.runs().iter().flat_map(|run| run.clone().map(|place| files[place].index));
        let not_opened = unopened.runs().iter().flat_map(|run| run.clone().map(|place| indices[place]));
        let mut found: Vec<usize> = not_opened.chain(not_decoded).collect();
        found.sort_unstable();
        let mut damages = unopened;
        damages.append_texts(undecoded);
        Ok(BrokenImages { indices: found, damages: damages.into_texts() })
    }

    /// Those of the files that can be opened; and which can't, by their place in `indices`.
    fn open_each(&self, indices: &[usize]) -> Result<(Vec<Opened>, Broken)> {
        let parts: Vec<&[usize]> = indices.chunks(PART).collect();
        let opened = scan(&parts, |part| {
            let open = |&index: &usize| {
                let path = self.place(index)?;
                match facts_of(&path) {
                    Ok(found) => Ok(Ok(Opened { index, path, facts: FileFacts::of(&found) })),
                    Err(error) if is_of_the_file(&error) => Ok(Err(error)),
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

    /// Which of `files` can't be decoded, as it was found out before or is found out now.
    fn undecoded(
        &self,
        files: &[Opened],
        options: &DecodeOptions,
        index_folder: Option<PathBuf>,
        go_on: impl FnMut() -> Result<()>,
    ) -> Result<Broken> {
        let bytes = files.iter().map(|file| file.facts.bytes).fold(0, u64::saturating_add);
        let kind = ("images 1", &parameters(options)[..]);
        kept_or_found(
            (files.len(), bytes),
            || self.stand_in(files, bytes),
            kind,
            index_folder,
            || undecoded(files.len(), |place| why_not(&files[place], options), go_on),
        )
    }

    /// The folder in the place of its files, which may be millions: another when one of them is.
    fn stand_in(&self, files: &[Opened], bytes: u64) -> Result<SourceFiles> {
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

/// Why a file can't be decoded, if it can't.
fn why_not(file: &Opened, options: &DecodeOptions) -> Result<Option<String>> {
    let size = file.facts.bytes;
    if size > LARGEST_FILE {
        return Ok(Some(format!("it has {size} bytes, and images have {LARGEST_FILE} at most")));
    }
    let io = |source| Error::Io { path: file.path.clone(), source };
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size as usize).map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
    open_regular(&file.path)?.take(size).read_to_end(&mut bytes).map_err(io)?;
    Ok(decode_image(&bytes, options).err().map(|reason| format!("{}: {reason}", file.path.display())))
}

/// What is found of a file that can be opened.
fn facts_of(path: &Path) -> Result<Metadata> {
    let file: File = open_regular(path)?;
    file.metadata().map_err(|source| Error::Io { path: path.to_path_buf(), source })
}
