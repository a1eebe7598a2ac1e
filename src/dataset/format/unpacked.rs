//! [`unpack`]: compressed files, unpacked once into a folder of bounded size.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use flate2::read::MultiGzDecoder;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::index_file::digest_of;
use super::index_lock::Lock;
use super::index_place::user_cache;
use super::scan::scan;
use super::source_files::{SourceFile, SourceFiles};
use super::zstd_frames::ZstdFrames;
use crate::watch;
use crate::{Error, Result};

/// So many bytes of unpacked files are kept, unless the caller says otherwise.
const UNPACKED_BYTES: u64 = 64 << 30;

/// What is unpacked at a time.
const PIECE: usize = 256 << 10;

/// Where compressed files are unpacked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackedFolder {
    /// The folder; nothing for `unpacked` in the user's cache folder (`$SLUICEGATE_CACHE`, `$XDG_CACHE_HOME/sluicegate` or
    /// `~/.cache/sluicegate`).
    pub path: Option<PathBuf>,
    /// The files in it have at most so many bytes together: those go first that were not opened for the longest.
    pub bytes: u64,
}

impl Default for UnpackedFolder {
    fn default() -> Self {
        Self { path: None, bytes: UNPACKED_BYTES }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// By the name alone: nothing is opened to find out.
    fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "gz" | "tgz" => Some(Self::Gzip),
            "zst" | "tzst" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The files to be read for those at `paths`: the same ones, but for compressed ones those that they were unpacked to. Each is
/// unpacked by the first process that needs it, under another name until it is whole, while all others wait for it.
///
/// # Errors
/// [`Error::Io`]; [`Error::Format`] when one is damaged, or larger than the folder may be.
pub(super) fn unpack(paths: &[PathBuf], folder: &UnpackedFolder) -> Result<Vec<PathBuf>> {
    let compressed: Vec<PathBuf> = paths.iter().filter(|path| Compression::of(path).is_some()).cloned().collect();
    if compressed.is_empty() {
        return Ok(paths.to_vec());
    }
    let root = folder.path.clone().or_else(|| Some(user_cache()?.join("unpacked"))).ok_or_else(|| {
        let reason = "there is no folder to unpack compressed files to: name one, or set SLUICEGATE_CACHE".to_owned();
        Error::InvalidArgument { argument: "cache_folder", reason }
    })?;
    fs::create_dir_all(&root).map_err(|source| Error::Io { path: root.clone(), source })?;
    let sources = SourceFiles::look(compressed)?;
    let needed: Vec<PathBuf> = sources.files().iter().map(|source| root.join(name_of(source))).collect();
    // A file that is named twice is unpacked once.
    let pairs: BTreeMap<&PathBuf, &SourceFile> = needed.iter().zip(sources.files()).collect();
    let pairs: Vec<(&SourceFile, &PathBuf)> = pairs.into_iter().map(|(target, source)| (source, target)).collect();
    scan(&pairs, |&(source, target)| unpack_one(source, target, &root, &needed, folder.bytes))?;
    let mut unpacked = needed.into_iter();
    let read = paths.iter().map(|path| match Compression::of(path) {
        Some(_) => unpacked.next().unwrap_or_default(),
        None => path.clone(),
    });
    Ok(read.collect())
}

/// A name that no other file has, nor the same one with other contents.
fn name_of(source: &SourceFile) -> String {
    let absolute = std::path::absolute(&source.path).unwrap_or_else(|_| source.path.clone());
    let mut all = absolute.into_os_string().into_encoded_bytes();
    all.extend(source.facts.bytes.to_le_bytes());
    all.extend(source.facts.modified.to_le_bytes());
    let stem: String =
        source.path.file_stem().map(|stem| stem.to_string_lossy().chars().take(60).collect()).unwrap_or_default();
    format!("{stem}.{:016x}.unpacked", digest_of(&all))
}

fn unpack_one(source: &SourceFile, target: &Path, root: &Path, needed: &[PathBuf], limit: u64) -> Result<()> {
    static UNPACKED: AtomicU64 = AtomicU64::new(0);
    if is_there(target) {
        return Ok(());
    }
    let _lock = Lock::at(target)?;
    if is_there(target) {
        return Ok(());
    }
    // Two threads of this process may both have the lock: with one name they would write into each other's file.
    let number = UNPACKED.fetch_add(1, Ordering::Relaxed);
    let mut unfinished = target.as_os_str().to_owned();
    unfinished.push(format!(".{}-{number}.unfinished", process::id()));
    let unfinished = PathBuf::from(unfinished);
    let result = write_unpacked(source, &unfinished, limit).and_then(|bytes| {
        make_room(root, needed, bytes, limit)?;
        put(&unfinished, target).map_err(|source| Error::Io { path: target.to_path_buf(), source })
    });
    result.inspect_err(|_| drop(fs::remove_file(&unfinished)))
}

/// Gives what is whole its name, unless another thread has been faster: whoever has opened that one's must not find another.
fn put(whole: &Path, target: &Path) -> io::Result<()> {
    match renameat_with(CWD, whole, CWD, target, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => fs::remove_file(whole),
        // A file system that does not know how.
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(whole, target),
        renamed => Ok(renamed?),
    }
}

/// Whether `target` is unpacked. If so, it is the last one that will go to make room.
fn is_there(target: &Path) -> bool {
    let Ok(file) = File::open(target) else { return false };
    // Not the time of the last change: who has the file open would take it for another. A folder that others own, or that
    // can't be written to, has no order of going.
    let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
    true
}

fn write_unpacked(source: &SourceFile, target: &Path, limit: u64) -> Result<u64> {
    let write_error = |error| Error::Io { path: target.to_path_buf(), source: error };
    let damaged = |offset: u64, reason: String| Error::Format { path: source.path.clone(), offset, reason };
    let packed = File::open(&source.path).map_err(|error| Error::Io { path: source.path.clone(), source: error })?;
    let mut into = File::create(target).map_err(write_error)?;
    let mut written = 0_u64;
    let mut piece = vec![0; PIECE];
    let mut reader = Packed::new(BufReader::with_capacity(PIECE, packed), Compression::of(&source.path));
    loop {
        let read = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                return Err(damaged(reader.taken(), error.to_string()));
            }
            Err(error) => {
                let reason = format!("after {written} unpacked bytes: {error}: the file is damaged or was cut");
                return Err(damaged(reader.taken(), reason));
            }
        };
        watch::advance(read)?;
        written += read as u64;
        if written > limit {
            let reason = format!(
                "it unpacks to more than the {limit} bytes that the folder of unpacked files may have: raise cache_bytes, \
                 or unpack it yourself"
            );
            return Err(damaged(reader.taken(), reason));
        }
        into.write_all(&piece[..read]).map_err(write_error)?;
    }
    into.sync_all().map_err(write_error)?;
    Ok(written)
}

/// Removes what was not opened for the longest, and is not needed now, until `bytes` more fit.
fn make_room(root: &Path, needed: &[PathBuf], bytes: u64, limit: u64) -> Result<()> {
    let io = |source| Error::Io { path: root.to_path_buf(), source };
    let (mut total, mut others) = (bytes, Vec::new());
    for entry in fs::read_dir(root).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let is_unpacked = path.extension().is_some_and(|extension| extension == "unpacked");
        // Another process may remove it meanwhile.
        let Some(metadata) = is_unpacked.then(|| fs::metadata(&path).ok()).flatten() else { continue };
        total += metadata.len();
        if !needed.contains(&path) {
            others.push((metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), path));
        }
    }
    others.sort_unstable_by(|a, b| b.cmp(a));
    while total > limit {
        let Some((_, bytes, path)) = others.pop() else {
            let reason = format!(
                "the files of this dataset unpack to {total} bytes or more, but {limit} are allowed in {}: raise cache_bytes",
                root.display()
            );
            return Err(Error::InvalidArgument { argument: "cache_bytes", reason });
        };
        let _ = fs::remove_file(path);
        total -= bytes;
    }
    Ok(())
}

/// A compressed file that is unpacked as it is read.
enum Packed {
    Gzip(Box<MultiGzDecoder<Counted>>),
    Zstd(Box<ZstdFrames<Counted>>),
}

impl Packed {
    fn new(file: BufReader<File>, compression: Option<Compression>) -> Self {
        let counted = Counted { file, taken: 0 };
        match compression {
            Some(Compression::Zstd) => Self::Zstd(Box::new(ZstdFrames::new(counted))),
            _ => Self::Gzip(Box::new(MultiGzDecoder::new(counted))),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(into),
            Self::Zstd(frames) => frames.read(into),
        }
    }

    /// How many bytes of the file were taken.
    fn taken(&self) -> u64 {
        match self {
            Self::Gzip(decoder) => decoder.get_ref().taken,
            Self::Zstd(frames) => frames.get_ref().taken,
        }
    }
}

/// A file that knows how far it was read.
struct Counted {
    file: BufReader<File>,
    taken: u64,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.taken += read as u64;
        Ok(read)
    }
}
