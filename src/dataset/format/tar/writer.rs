//! [`TarWriter`]: an archive that appears under its name when it is complete.

use std::path::Path;

use super::header::{BLOCK, checksums};
use crate::dataset::format::shard::file::ShardFile;
use crate::dataset::format::shard::threads::ShardWriter;
use crate::{Error, Result};

/// The largest size that fits in a header; larger ones go in a pax record.
const LARGEST_OCTAL: u64 = (1 << 33) - 1;

/// Writes a tar archive of regular files in POSIX format, with pax records if names or sizes need them. Its bytes
/// depend only on names and contents: times and owners are zero.
///
/// The file has a temporary name that ends in `.unfinished` until [`finish`](Self::finish) renames it; if dropped
/// before that, it is removed.
///
/// # Example
/// ```
/// use sluicegate::internal::TarWriter;
/// # let folder = tempfile::TempDir::new().unwrap();
/// # let path = folder.path().join("a.tar");
/// let mut shard = TarWriter::create(&path).unwrap();
/// shard.append(b"0001.txt", b"a text").unwrap();
/// assert!(!path.exists());
/// assert_eq!(shard.finish().unwrap(), 2048);
/// assert!(path.exists());
/// ```
pub struct TarWriter {
    file: ShardFile,
    member: Vec<u8>,
}

impl TarWriter {
    /// Begins the archive that will be at `path`. An existing one is replaced at the end.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { file: ShardFile::create(path.as_ref().to_path_buf())?, member: Vec::new() })
    }

    /// Appends a file.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the name is empty or contains a NUL; [`Error::Io`].
    pub fn append(&mut self, name: &[u8], contents: &[u8]) -> Result<()> {
        self.member.clear();
        push_member(&mut self.member, name, contents)?;
        self.file.write(&self.member)
    }

    /// Ends the archive, waits until it is on disk, and gives it its name. Returns its size.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<u64> {
        self.file.write(&[0; 2 * BLOCK])?;
        self.file.finish()
    }
}

/// Writes members made by [`push_member`].
impl ShardWriter<Vec<u8>> for TarWriter {
    fn write(&mut self, members: Vec<u8>) -> Result<()> {
        self.file.write(&members)
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        TarWriter::finish(*self)
    }
}

/// Pushes header, contents and padding of a regular file.
pub(super) fn push_member(into: &mut Vec<u8>, name: &[u8], contents: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&0) {
        return Err(Error::invalid("name", format!("`{}` is not a valid file name", name.escape_ascii())));
    }
    let bytes = contents.len() as u64;
    let mut records = Vec::new();
    let (prefix, base) = split(name).unwrap_or_else(|| {
        push_record(&mut records, b"path", name);
        (b"", &name[..name.len().min(100)])
    });
    if bytes > LARGEST_OCTAL {
        push_record(&mut records, b"size", bytes.to_string().as_bytes());
    }
    if !records.is_empty() {
        push_header(into, b'x', (b"", b"pax"), records.len() as u64);
        push_padded(into, &records);
    }
    push_header(into, b'0', (prefix, base), if bytes > LARGEST_OCTAL { 0 } else { bytes });
    push_padded(into, contents);
    Ok(())
}

/// Splits a name into prefix and name for a header; `None` if they do not fit.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if name.len() <= 100 {
        return Some((b"", name));
    }
    let fits = |&slash: &usize| slash > 0 && slash <= 155 && (1..=100).contains(&(name.len() - slash - 1));
    let slashes = name.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(place, _)| place);
    slashes.into_iter().find(fits).map(|slash| (&name[..slash], &name[slash + 1..]))
}

fn push_header(into: &mut Vec<u8>, kind: u8, (prefix, name): (&[u8], &[u8]), bytes: u64) {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name);
    put(100, b"0000644\x000000000\x000000000\0");
    put(124, format!("{bytes:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(345, prefix);
    let sum = checksums(&block).0;
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    into.extend(block);
}

fn push_padded(into: &mut Vec<u8>, contents: &[u8]) {
    into.extend(contents);
    into.resize(into.len() + contents.len().next_multiple_of(BLOCK) - contents.len(), 0);
}

/// `length key=value\n`, where the length counts itself.
fn push_record(into: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length += 1;
    }
    into.extend(length.to_string().into_bytes());
    into.extend([b" ", key, b"=", value, b"\n"].concat());
}
