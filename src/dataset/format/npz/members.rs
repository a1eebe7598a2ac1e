//! The arrays in a NumPy archive: their names, and their locations or decompressed contents.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use zip::read::ZipFile;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::dataset::format::array::header::LONGEST_START;
use crate::dataset::format::file::known_format::foreign;
use crate::{Error, Result};

/// Deflate expands data about a thousand times at most: memory for larger arrays is not allocated.
const LARGEST_RATIO: u64 = 1 << 10;

/// The contents of a `.npy` file in an archive, whose checksum was verified.
pub(super) enum Contents {
    /// Bytes of the archive itself, at offset `start`; `head` is a copy of the first ones.
    Stored { start: u64, bytes: u64, head: Vec<u8> },
    /// Decompressed contents.
    Unpacked(Vec<u8>),
}

/// An opened archive.
pub(super) struct Members {
    archive: ZipArchive<BufReader<File>>,
    /// The name of each array, without `.npy`, and its index in the archive.
    names: Vec<(String, usize)>,
}

impl Members {
    /// Reads the list of the files in `file`, which was opened at `path`.
    ///
    /// # Errors
    /// [`Error::Format`] when it is not a zip archive, or two arrays have the same name.
    pub(super) fn open(path: &Path, file: File) -> Result<Self> {
        let refuse = |reason| Error::Format { path: path.to_path_buf(), offset: 0, reason };
        let archive = match ZipArchive::new(BufReader::new(file.try_clone().map_err(|error| io_error(path, error))?)) {
            Ok(archive) => archive,
            Err(error) => return Err(not_an_archive(path, &file, &error)),
        };
        let mut names: Vec<(String, usize)> = Vec::new();
        for place in 0..archive.len() {
            let entry = archive.by_index_data(place).map_err(|error| refuse(words(&error)))?;
            let name = entry.name().map_err(|error| refuse(words(&error)))?;
            let Some(name) = name.strip_suffix(".npy") else { continue };
            if names.iter().any(|(other, _)| other == name) {
                return Err(refuse(format!("two arrays are named `{name}`; write the file again")));
            }
            names.push((name.to_owned(), place));
        }
        Ok(Self { archive, names })
    }

    /// Returns the names of the arrays, in the order of the archive.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| &name[..])
    }

    /// Reads the array `name` in full, which verifies its checksum. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error::Format`] when it is damaged, encrypted, or compressed by a method that NumPy does not use.
    pub(super) fn contents(&mut self, path: &Path, name: &str) -> Result<Option<Contents>> {
        let Some(&(_, place)) = self.names.iter().find(|(other, _)| other == name) else { return Ok(None) };
        let refuse =
            |reason| Error::Format { path: path.to_path_buf(), offset: 0, reason: format!("array `{name}`: {reason}") };
        let mut entry = self.archive.by_index(place).map_err(|error| refuse(words(&error)))?;
        let contents = match entry.compression() {
            CompressionMethod::Stored => stored(&mut entry),
            CompressionMethod::Deflated => unpacked(&mut entry),
            other => {
                return Err(refuse(format!(
                    "it is compressed with {other}, which is not supported; save it with NumPy"
                )));
            }
        };
        contents.map(Some).map_err(|error| refuse(error.to_string()))
    }
}

fn stored(entry: &mut ZipFile<'_, BufReader<File>>) -> io::Result<Contents> {
    let start = entry.data_start().ok_or_else(|| io::Error::other("the archive does not declare where it starts"))?;
    let mut head = Vec::new();
    entry.by_ref().take(LONGEST_START as u64).read_to_end(&mut head)?;
    let bytes = head.len() as u64 + io::copy(entry, &mut io::sink())?;
    Ok(Contents::Stored { start, bytes, head })
}

fn unpacked(entry: &mut ZipFile<'_, BufReader<File>>) -> io::Result<Contents> {
    let (packed, bytes) = (entry.compressed_size(), entry.size());
    let longest = packed.saturating_mul(LARGEST_RATIO).saturating_add(LARGEST_RATIO);
    if bytes > longest {
        return Err(io::Error::other(format!(
            "it declares {bytes} bytes, but {packed} compressed bytes can't decompress to that many"
        )));
    }
    let mut contents = Vec::new();
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    contents.try_reserve_exact(size).map_err(|_| io::Error::other(format!("no memory for its {bytes} bytes")))?;
    entry.read_to_end(&mut contents)?;
    Ok(Contents::Unpacked(contents))
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_path_buf(), source }
}

/// The error of a file that is not a complete archive, and perhaps has another format.
fn not_an_archive(path: &Path, file: &File, error: &ZipError) -> Error {
    use std::os::unix::fs::FileExt;

    let mut start = [0; 64];
    let found = file.read_at(&mut start, 0).unwrap_or(0);
    let plain = || format!("not an .npz file, or a damaged one ({}); write or copy it again", words(error));
    let reason = foreign(&start[..found], "a zip archive").unwrap_or_else(plain);
    Error::Format { path: path.to_path_buf(), offset: 0, reason }
}

fn words(error: &ZipError) -> String {
    match error {
        ZipError::UnsupportedArchive(reason) => (*reason).to_owned(),
        other => other.to_string(),
    }
}
