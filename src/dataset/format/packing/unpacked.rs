//! [`unpack`]: unpacks compressed files once, into a folder of bounded size.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, FileTimes};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use flate2::read::MultiGzDecoder;

use super::unpacked_room::{Lease, Room, UNPACKED, sums_of};
use super::zstd_frames::ZstdFrames;
use crate::dataset::format::file::access::{is_owned_by_others, make_private_folder};
use crate::dataset::format::file::block_sums::{BlockSums, NewBlockSums};
use crate::dataset::format::file::data_file::open_at_once;
use crate::dataset::format::file::notices::notice;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::source_files::{FileFacts, SourceFile, SourceFiles};
use crate::dataset::format::index::file::digest_of;
use crate::dataset::format::index::freshness::sample_of;
use crate::dataset::format::index::lock::Lock;
use crate::dataset::format::index::place::user_cache;
use crate::local_path::check_writable;
use crate::watch;
use crate::{Error, Result};

/// Default limit on the bytes of unpacked files in the folder.
const UNPACKED_BYTES: u64 = 64 << 30;

/// Bytes that are unpacked at a time.
const PIECE: usize = 256 << 10;

/// Where compressed files are unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackedFolder {
    /// The folder; `None` for `unpacked` in the user's cache folder (`$SLUICEGATE_CACHE`, `$XDG_CACHE_HOME/sluicegate`
    /// or `~/.cache/sluicegate`).
    pub path: Option<PathBuf>,
    /// Limit on the total bytes of the files in it: the least recently opened ones are removed first. Files in use
    /// stay, so the folder may exceed the limit, with a notice. A single archive that unpacks to more is an error.
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
    /// Determined from the name alone, without opening the file.
    fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "gz" | "tgz" => Some(Self::Gzip),
            "zst" | "tzst" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The files to read in place of those that were named.
pub(crate) struct Unpacked {
    pub(crate) paths: Vec<PathBuf>,
    /// Per file, its checksums if it is a copy.
    pub(crate) sums: Vec<Option<Arc<BlockSums>>>,
    /// While this is kept, no process removes the copies to free space.
    pub(crate) lease: Option<Lease>,
}

/// Returns the files to read for those at `paths`: the same ones, with compressed files replaced by their unpacked
/// copies. The first process that needs a copy makes it, under another name until it is complete; all others wait for
/// it.
///
/// # Errors
/// [`Error::Io`]; [`Error::Format`] if a file is damaged, or alone unpacks to more than the limit of the folder.
pub(crate) fn unpack(paths: &[PathBuf], folder: &UnpackedFolder) -> Result<Unpacked> {
    folder.path.iter().try_for_each(|folder| check_writable("cache_folder", folder))?;
    let compressed: Vec<PathBuf> = paths.iter().filter(|path| Compression::of(path).is_some()).cloned().collect();
    if compressed.is_empty() {
        return Ok(Unpacked { paths: paths.to_vec(), sums: vec![None; paths.len()], lease: None });
    }
    let root = match &folder.path {
        Some(root) => root.clone(),
        None => {
            let cache = user_cache().ok_or_else(|| {
                let reason =
                    "there is no folder for decompressed files; pass cache_folder, or set SLUICEGATE_CACHE".to_owned();
                Error::invalid("cache_folder", reason)
            })?;
            check_writable("SLUICEGATE_CACHE", &cache)?;
            cache.join("unpacked")
        }
    };
    make_private_folder(&root).map_err(|source| Error::Io { path: root.clone(), source })?;
    let sources = SourceFiles::look(compressed)?;
    let names = scan(sources.files(), name_of)?;
    let lease = Room::enter(&root)?.lease(&names);
    // A file that is named twice is unpacked once.
    let pairs: BTreeMap<&OsString, &SourceFile> = names.iter().zip(sources.files()).collect();
    let pairs: Vec<(&OsString, &SourceFile)> = pairs.into_iter().collect();
    let copies = scan(&pairs, |&(name, source)| {
        let sums = unpack_one(source, &root.join(name), &root, (lease.as_ref(), &names), folder.bytes)?;
        Ok((name, Arc::new(sums)))
    })?;
    let copies: BTreeMap<&OsString, Arc<BlockSums>> = copies.into_iter().collect();
    let bytes: u64 = copies.values().map(|sums| sums.bytes()).sum();
    if bytes > folder.bytes {
        notice(format!(
            "cache_bytes: the archives of this dataset decompress to {bytes} bytes, more than the {} allowed in {}, \
             where all are kept while they are in use; raise cache_bytes, decompress them yourself, or read them with \
             TarStream",
            folder.bytes,
            root.display()
        ));
    }
    let mut names = names.iter();
    let (paths, sums) = paths
        .iter()
        .map(|path| match Compression::of(path).and_then(|_| names.next()) {
            Some(name) => (root.join(name), copies.get(name).map(Arc::clone)),
            None => (path.clone(), None),
        })
        .unzip();
    Ok(Unpacked { paths, sums, lease })
}

/// Returns a name that is unique to the file and its contents.
fn name_of(source: &SourceFile) -> Result<OsString> {
    let absolute = std::path::absolute(&source.path).unwrap_or_else(|_| source.path.clone());
    let mut all = absolute.into_os_string().into_encoded_bytes();
    all.extend(source.facts.bytes.to_le_bytes());
    all.extend(source.facts.modified.to_le_bytes());
    all.extend(source.facts.changed.to_le_bytes());
    all.extend(sample_of(source)?.to_le_bytes());
    let stem = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let stem: String = stem.chars().take(40).map(|letter| if letter.is_control() { '_' } else { letter }).collect();
    Ok(format!("{stem}.{:016x}{UNPACKED}", digest_of(&all)).into())
}

fn unpack_one(
    source: &SourceFile,
    target: &Path,
    root: &Path,
    (lease, needed): (Option<&Lease>, &[OsString]),
    limit: u64,
) -> Result<BlockSums> {
    if let Copy::Whole(sums) = look_for(target) {
        return Ok(sums);
    }
    let _lock = Lock::at(target)?;
    let write_error = |error| Error::Io { path: target.to_path_buf(), source: error };
    let new = {
        let room = Room::enter(root)?;
        match look_for(target) {
            Copy::Whole(sums) => return Ok(sums),
            Copy::Damaged => {
                notice(format!("{}: this decompressed copy is damaged and is created again", target.display()));
                fs::remove_file(target).map_err(write_error)?;
            }
            Copy::Missing => {}
        }
        room.begin(target).map_err(write_error)?
    };
    let written = write_unpacked(source, target, new.file(), limit)?;
    // Before locking the folder, so that others do not wait for the disk.
    new.file().sync_all().map_err(write_error)?;
    // Held until the copy has its name, so that copies made at the same time count it.
    let room = Room::enter(root)?;
    room.make(lease, needed, written.bytes(), limit)?;
    let name = target.file_name().unwrap_or_default();
    // Before the copy: a copy without checksums would be considered damaged.
    written.put(&sums_of(target), name.as_bytes(), source.facts.access).map_err(write_error)?;
    // Another thread may have been faster, and its copy must not be replaced under readers that have opened it.
    new.put_first(name, source.facts.access).map_err(write_error)?;
    drop(room);
    match look_for(target) {
        Copy::Whole(sums) => Ok(sums),
        _ => Err(Error::Changed {
            path: target.into(),
            reason: "it was removed or written to by another program".into(),
        }),
    }
}

/// What is found in the place of a copy.
enum Copy {
    Missing,
    Damaged,
    Whole(BlockSums),
}

/// Looks for the copy at `target`. A complete one is marked as the most recently used.
fn look_for(target: &Path) -> Copy {
    let Ok(file) = open_at_once(target) else { return Copy::Missing };
    let Ok(metadata) = file.metadata() else { return Copy::Missing };
    // Read after opening the copy, because its checksums are written first.
    let sums = BlockSums::read(&sums_of(target), target.file_name().unwrap_or_default().as_bytes());
    match sums {
        Some(sums)
            if metadata.is_file() && metadata.len() == sums.bytes() && !is_owned_by_others(&metadata, target) =>
        {
            // Not the modification time: processes that have the file open would report a change. This fails in a
            // folder that others own or that is read-only; the order of removal is then not maintained.
            let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
            Copy::Whole(sums)
        }
        _ => Copy::Damaged,
    }
}

fn write_unpacked(source: &SourceFile, target: &Path, mut into: &File, limit: u64) -> Result<NewBlockSums> {
    let write_error = |error| Error::Io { path: target.to_path_buf(), source: error };
    let damaged = |offset: u64, reason: String| Error::Format { path: source.path.clone(), offset, reason };
    let io = |error| Error::Io { path: source.path.clone(), source: error };
    let packed = open_at_once(&source.path).map_err(io)?;
    source.check(&FileFacts::of(&packed.metadata().map_err(io)?))?;
    let mut written = NewBlockSums::default();
    let mut piece = vec![0; PIECE];
    let mut reader = Packed::new(BufReader::with_capacity(PIECE, packed), Compression::of(&source.path));
    loop {
        let read = match reader.read(&mut piece) {
            Ok(0) => return Ok(written),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                return Err(damaged(reader.taken(), error.to_string()));
            }
            Err(error) => {
                let reason =
                    format!("after {} decompressed bytes: {error}; the file is damaged or truncated", written.bytes());
                return Err(damaged(reader.taken(), reason));
            }
        };
        watch::advance(read)?;
        written.push(&piece[..read]);
        if written.bytes() > limit {
            let reason = format!(
                "it decompresses to more than the {limit} bytes that cache_bytes allows; raise cache_bytes, or \
                 decompress it yourself"
            );
            return Err(damaged(reader.taken(), reason));
        }
        into.write_all(&piece[..read]).map_err(write_error)?;
    }
}

/// A compressed file that is decompressed as it is read.
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

    /// The number of compressed bytes that were consumed.
    fn taken(&self) -> u64 {
        match self {
            Self::Gzip(decoder) => decoder.get_ref().taken,
            Self::Zstd(frames) => frames.get_ref().taken,
        }
    }
}

/// A file that counts the bytes read from it.
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
