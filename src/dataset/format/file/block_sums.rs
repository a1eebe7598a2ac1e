//! [`BlockSums`]: checksums of the blocks of a copy, each verified when its block is first read.
//!
//! ```text
//! magic (8 bytes), version (u32), length of the name (u32), name of the copy, its size (u64)
//! CRC-32C of each block of 64 KiB (u32)
//! CRC-32C of all before (u32)
//! ```
//! All numbers are little-endian.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::access::FileAccess;
use super::data_file::open_at_once;
use super::new_file::NewFile;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"SLUICESU";
const VERSION: u32 = 1;

/// The least that Linux reads ahead of a file.
const BLOCK: usize = 64 << 10;

/// Checksums of a copy whose original is not read again. Shared by threads, and by all descriptors of the copy.
#[derive(Debug)]
pub(crate) struct BlockSums {
    path: PathBuf,
    bytes: u64,
    sums: Vec<u32>,
    /// One bit per block, set once the block was verified.
    compared: Vec<AtomicU64>,
}

impl BlockSums {
    /// Reads the checksums at `path`, if they belong to a copy of this name.
    pub(crate) fn read(path: &Path, name: &[u8]) -> Option<Self> {
        let mut file = open_at_once(path).ok()?;
        file.metadata().ok().filter(fs::Metadata::is_file)?;
        let mut all = Vec::new();
        file.read_to_end(&mut all).ok()?;
        let (body, sum) = all.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let rest = body.strip_prefix(&head(name)[..])?;
        let (bytes, sums) = rest.split_first_chunk::<8>()?;
        let (bytes, (sums, [])) = (u64::from_le_bytes(*bytes), sums.as_chunks::<4>()) else { return None };
        let sums: Vec<u32> = sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
        let compared = (0..sums.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        (sums.len() as u64 == bytes.div_ceil(BLOCK as u64)).then_some(Self { path: path.into(), bytes, sums, compared })
    }

    /// The size of the copy.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Verifies the blocks of `file`, the copy at `copy`, that contain `bytes` bytes from `offset` on, each only once.
    ///
    /// # Errors
    /// [`Error::Changed`] if a block is not what was written: these checksums are then removed, so that the copy is
    /// made again when it is next opened.
    pub(crate) fn compare(&self, file: &File, copy: &Path, offset: u64, bytes: usize) -> Result<()> {
        if bytes == 0 || offset >= self.bytes {
            return Ok(());
        }
        let last = (offset.saturating_add(bytes as u64).min(self.bytes) - 1) / BLOCK as u64;
        for block in (offset / BLOCK as u64) as usize..=last as usize {
            let (word, bit) = (&self.compared[block / 64], 1 << (block % 64));
            if word.load(Ordering::Relaxed) & bit != 0 {
                continue;
            }
            let start = block as u64 * BLOCK as u64;
            let mut read = vec![0; BLOCK.min((self.bytes - start) as usize)];
            let is_sound = file.read_exact_at(&mut read, start).map(|()| crc32c::crc32c(&read) == self.sums[block]);
            match is_sound {
                Ok(true) => word.fetch_or(bit, Ordering::Relaxed),
                Err(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
                    return Err(Error::Io { path: copy.into(), source });
                }
                _ => {
                    let _ = fs::remove_file(&self.path);
                    let reason = format!(
                        "this decompressed copy of an archive is damaged from byte {start} on; the archive is not \
                         affected, and is decompressed again the next time it is opened"
                    );
                    return Err(Error::Changed { path: copy.into(), reason });
                }
            };
        }
        Ok(())
    }
}

/// The checksums of a file that is being written.
#[derive(Default)]
pub(crate) struct NewBlockSums {
    bytes: u64,
    sums: Vec<u32>,
}

impl NewBlockSums {
    /// Adds the next written bytes.
    pub(crate) fn push(&mut self, mut written: &[u8]) {
        while !written.is_empty() {
            let in_block = (self.bytes % BLOCK as u64) as usize;
            if in_block == 0 {
                self.sums.push(0);
            }
            let (part, rest) = written.split_at(written.len().min(BLOCK - in_block));
            if let Some(sum) = self.sums.last_mut() {
                *sum = crc32c::crc32c_append(*sum, part);
            }
            self.bytes += part.len() as u64;
            written = rest;
        }
    }

    /// The number of bytes added so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes them to `path`, as the checksums of the copy of this name.
    pub(crate) fn put(&self, path: &Path, name: &[u8], access: FileAccess) -> io::Result<()> {
        let mut all = head(name);
        all.extend(self.bytes.to_le_bytes());
        self.sums.iter().for_each(|sum| all.extend(sum.to_le_bytes()));
        let sum = crc32c::crc32c(&all);
        all.extend(sum.to_le_bytes());
        let new = NewFile::create(path)?;
        new.file().write_all(&all)?;
        new.put(path.file_name().unwrap_or_default(), access)
    }
}

fn head(name: &[u8]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend((name.len() as u32).to_le_bytes());
    head.extend(name);
    head
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_changed_block_fails_only_its_own_reads() {
        let folder = TempDir::new().unwrap();
        let (copy, path) = (folder.path().join("copy"), folder.path().join("sums"));
        let contents: Vec<u8> = (0..3 * BLOCK + 100).map(|number| (number % 251) as u8).collect();
        let mut new = NewBlockSums::default();
        contents.chunks(1000).for_each(|part| new.push(part));
        for place in [0, BLOCK - 1, BLOCK, 3 * BLOCK + 99] {
            fs::write(&copy, &contents).unwrap();
            new.put(&path, b"copy", FileAccess::of(&fs::metadata(&copy).unwrap())).unwrap();
            let mut damaged = contents.clone();
            damaged[place] ^= 4;
            fs::write(&copy, damaged).unwrap();
            let (file, sums) = (File::open(&copy).unwrap(), BlockSums::read(&path, b"copy").unwrap());
            for block in (0..4).filter(|block| *block != place / BLOCK) {
                sums.compare(&file, &copy, (block * BLOCK + 50) as u64, 1).unwrap();
            }
            let found = sums.compare(&file, &copy, 0, contents.len());
            assert!(matches!(found, Err(Error::Changed { path: of, .. }) if of == copy));
            assert!(!path.exists());
        }
    }

    #[test]
    fn damaged_or_foreign_checksums_are_ignored() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("sums");
        let mut new = NewBlockSums::default();
        new.push(&[7; 100]);
        fs::write(&path, []).unwrap();
        new.put(&path, b"copy", FileAccess::of(&fs::metadata(&path).unwrap())).unwrap();
        assert_eq!(BlockSums::read(&path, b"copy").unwrap().bytes(), 100);
        assert!(BlockSums::read(&path, b"cop").is_none() && BlockSums::read(&path, b"copies").is_none());
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert!(BlockSums::read(&path, b"copy").is_none(), "byte {place}");
            fs::write(&path, &whole[..place]).unwrap();
            assert!(BlockSums::read(&path, b"copy").is_none(), "cut at {place}");
        }
    }
}
