//! [`KeptValues`]: values stored by number, each written once, shared by threads and forked processes.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};

use super::Segment;
use super::sync::{AtomicU64, Ordering, Words};
use crate::local_path::check_writable;
use crate::{Error, Result};

/// Alignment of values, in bytes.
const UNIT: usize = 64;

/// Number of low bits of an entry that hold the value's length; the high bits hold its start, in units.
const LENGTH_BITS: u32 = 32;

/// Values stored by number, each written once and kept as long as this object exists, in memory or in a file, with
/// bounded size. Threads and forked processes share it without waiting for each other; a process that dies while it
/// writes leaves no value.
///
/// # Example
/// ```
/// use sluicegate::internal::KeptValues;
/// let values = KeptValues::in_memory(10, 1 << 20)?;
/// assert!(values.keep(3, b"three"));
/// assert_eq!(values.get(3, Vec::new()).as_deref(), Some(&b"three"[..]));
/// assert_eq!(values.get(4, Vec::new()), None);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct KeptValues {
    segment: Arc<Segment>,
    /// The end of the allocated room in bytes, then one entry per number: 0 where there is no value.
    words: Words<AtomicU64>,
    numbers: usize,
    /// True once the operating system has refused more memory, so that it is not asked again for each value.
    is_full: AtomicBool,
}

impl KeptValues {
    /// Returns room for values numbered below `numbers`, of `bytes` bytes in total. Memory for the values is taken as
    /// they arrive; the entries, 8 bytes per number, are allocated now.
    ///
    /// # Errors
    /// [`Error::SharedMemory`] if the operating system refuses.
    pub fn in_memory(numbers: usize, bytes: usize) -> Result<Self> {
        let len = Self::len(numbers, bytes)?;
        let (segment, _file) = Segment::shared(len)?;
        let refused = |source| Error::SharedMemory {
            operation: "memory for the entries of a cache",
            bytes: len,
            limit: "the size of /dev/shm and ulimit -v",
            source,
        };
        Self::new(segment, numbers).map_err(refused)
    }

    /// Like [`in_memory`](Self::in_memory), but in a nameless file of `folder` that disappears with the last process
    /// that uses it.
    ///
    /// # Errors
    /// [`Error::Io`] if no file can be created there; [`Error::SharedMemory`] if it cannot be large enough.
    pub fn in_folder(folder: &Path, numbers: usize, bytes: usize) -> Result<Self> {
        let len = Self::len(numbers, bytes)?;
        check_writable("cache_folder", folder)?;
        let file = nameless(folder).map_err(|source| Error::Io { path: folder.to_path_buf(), source })?;
        let refused =
            |source| Error::SharedMemory { operation: "a file of that size", bytes: len, limit: "ulimit -f", source };
        // Exceeding this limit causes both an error and a signal that ends the process.
        if getrlimit(Resource::Fsize).current.is_some_and(|most| len as u64 > most) {
            return Err(refused(io::ErrorKind::FileTooLarge.into()));
        }
        file.set_len(len as u64).map_err(refused)?;
        let kept = Self::new(Segment::map_shared(file, len)?, numbers);
        kept.map_err(|source| Error::Io { path: folder.to_path_buf(), source })
    }

    fn len(numbers: usize, bytes: usize) -> Result<usize> {
        let words = numbers.checked_add(1).and_then(|words| words.checked_mul(size_of::<u64>()));
        let len =
            words.and_then(|words| words.checked_next_multiple_of(UNIT)).and_then(|words| words.checked_add(bytes));
        len.filter(|&len| len / UNIT < 1 << (u64::BITS - LENGTH_BITS)).ok_or_else(|| {
            Error::invalid("cache_bytes", format!("{bytes} bytes for {numbers} values are more than can be addressed"))
        })
    }

    fn new(segment: Segment, numbers: usize) -> io::Result<Self> {
        let segment = Arc::new(segment);
        let words = Words::<AtomicU64>::new(Arc::clone(&segment), 0, numbers + 1);
        let kept = Self { segment, words, numbers, is_full: AtomicBool::new(false) };
        // Populate all entries now: if memory ran out later, writing an entry (or even reading one, on an in-memory
        // file system) would end the process.
        kept.segment.populate(0..kept.first())?;
        kept.words[0].store(kept.first() as u64, Ordering::Relaxed);
        Ok(kept)
    }

    /// Returns the offset of the first value.
    fn first(&self) -> usize {
        ((self.numbers + 1) * size_of::<u64>()).next_multiple_of(UNIT)
    }

    /// Keeps `value` under `number` unless a value is already there, `value` is empty, or there is no room. Returns
    /// true if this call stored it.
    ///
    /// # Panics
    /// If `number` is not below the number of entries.
    pub fn keep(&self, number: usize, value: &[u8]) -> bool {
        assert!(number < self.numbers, "number {number} of {}", self.numbers);
        if u32::try_from(value.len()).is_err()
            || value.is_empty()
            || self.words[number + 1].load(Ordering::Relaxed) != 0
        {
            return false;
        }
        let Some(start) = self.take(value.len()) else { return false };
        // Writing to a page that cannot be allocated would end the process.
        if self.segment.populate(start..start + value.len()).is_err() {
            self.is_full.store(true, Ordering::Relaxed);
            self.give_back(start, value.len());
            return false;
        }
        // SAFETY: the range is inside the segment, after all words, and `take` assigned it to this call alone; no
        // reader accesses it before the entry below is published. `value` is borrowed memory elsewhere: no safe
        // reference to this segment exists.
        unsafe { self.segment.at(start).as_ptr().copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        let entry = ((start / UNIT) as u64) << LENGTH_BITS | value.len() as u64;
        // If another writer was first, this copy is unused.
        self.words[number + 1].compare_exchange(0, entry, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Returns room that was taken, unless more was taken since.
    fn give_back(&self, start: usize, bytes: usize) {
        let end = (start + bytes).next_multiple_of(UNIT);
        let _ = self.words[0].compare_exchange(end as u64, start as u64, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes `bytes` bytes of room, or returns None if there is less.
    fn take(&self, bytes: usize) -> Option<usize> {
        let mut start = self.words[0].load(Ordering::Relaxed);
        if self.is_full.load(Ordering::Relaxed) {
            return None;
        }
        loop {
            let end = usize::try_from(start).ok()?.checked_add(bytes)?.checked_next_multiple_of(UNIT)?;
            if end > self.segment.len() {
                return None;
            }
            match self.words[0].compare_exchange(start, end as u64, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return usize::try_from(start).ok(),
                Err(now) => start = now,
            }
        }
    }

    /// True if a value is kept under `number`.
    #[must_use]
    pub fn has(&self, number: usize) -> bool {
        number < self.numbers && self.words[number + 1].load(Ordering::Relaxed) != 0
    }

    /// Returns a copy of the value under `number` in `room`, or None if there is none.
    #[must_use]
    pub fn get(&self, number: usize, mut room: Vec<u8>) -> Option<Vec<u8>> {
        let entry = if number < self.numbers { self.words[number + 1].load(Ordering::Acquire) } else { 0 };
        if entry == 0 {
            return None;
        }
        room.resize((entry & u64::from(u32::MAX)) as usize, 0);
        self.segment.copy_to((entry >> LENGTH_BITS) as usize * UNIT, &mut room);
        Some(room)
    }

    /// Returns the number of bytes taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.words[0].load(Ordering::Relaxed)).unwrap_or(usize::MAX) - self.first()
    }
}

/// Creates a nameless file in `folder`.
fn nameless(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        return Ok(file.into());
    }
    // Some file systems cannot create nameless files; unlinking a named file immediately is equivalent.
    let number = RandomState::new().build_hasher().finish();
    let path = folder.join(format!(".sluicegate-{number:016x}"));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn each_number_keeps_one_value_whichever_thread_stores_it() {
        let values = KeptValues::in_memory(100, 1 << 20).unwrap();
        let value = |number: usize, thread: usize| vec![(number + thread) as u8; number + 1];
        thread::scope(|scope| {
            for thread in 0..4 {
                let values = &values;
                scope.spawn(move || {
                    for number in 0..100 {
                        values.keep(number, &value(number, thread));
                    }
                });
            }
        });
        for number in 0..100 {
            let kept = values.get(number, Vec::new()).unwrap();
            assert!((0..4).any(|thread| kept == value(number, thread)), "{number}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_not_kept() {
        let values = KeptValues::in_memory(10, 128).unwrap();
        assert!(!values.keep(0, &[1; 129]));
        assert!(values.keep(1, &[1; 65]));
        assert_eq!(values.bytes(), 128);
        assert!(!values.keep(2, &[1]));
        assert!(!values.keep(1, &[2]));
        assert!(values.has(1) && !values.has(2) && !values.has(10));
        assert_eq!(values.get(1, vec![9; 3]), Some(vec![1; 65]));
        assert_eq!(values.get(10, Vec::new()), None);
        assert!(KeptValues::in_memory(usize::MAX, 1).is_err());
    }

    #[test]
    fn values_are_also_kept_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let values = KeptValues::in_folder(folder.path(), 3, 4096).unwrap();
        assert!(values.keep(2, b"two"));
        assert_eq!(values.get(2, Vec::new()).as_deref(), Some(&b"two"[..]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let missing = KeptValues::in_folder(&folder.path().join("none"), 3, 4096);
        assert!(matches!(missing, Err(Error::Io { .. })));
    }
}
