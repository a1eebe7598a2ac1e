//! Segments that several processes map: sparse, nameless, and never shorter than when they were created.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};

use super::Segment;
use super::claims::Claims;
use super::segment::Backing;
use crate::{Error, Result};

/// The value of [`Claims::arenas_end`] in a process that must not have an arena, because the segment belongs to another
/// process.
const ARENA_ELSEWHERE: usize = usize::MAX;

impl Segment {
    /// Returns zeroed memory of `len` bytes that other processes can map through the returned file, which is nameless
    /// and has only those pages that were written to. It disappears with the last process that uses it.
    ///
    /// # Errors
    /// [`Error::SharedMemory`], which names the refused operation.
    pub fn shared(len: usize) -> Result<(Self, OwnedFd)> {
        let file = file_in_memory(len)?;
        let segment = Self::map(&file, len, 0)?;
        Ok((segment, file))
    }

    /// Returns the first `len` bytes of a file that another process got from [`shared`](Self::shared), whose length is
    /// at least `len`. That process decides the layout.
    ///
    /// # Errors
    /// [`Error::SharedMemory`].
    pub fn map_shared(file: impl AsFd, len: usize) -> Result<Self> {
        Self::map(file, len, ARENA_ELSEWHERE)
    }

    fn map(file: impl AsFd, len: usize, arenas_end: usize) -> Result<Self> {
        let refused =
            |source| Error::SharedMemory { operation: "address space", bytes: len, limit: "ulimit -v", source };
        // No object may be larger than `isize::MAX`.
        let mapped = isize::try_from(len).map_err(|_| refused(Errno::NOMEM.into()))?.max(1).unsigned_abs();
        // SAFETY: a new mapping at an address chosen by the kernel replaces nothing.
        let start = unsafe {
            let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
            match cfg!(miri) {
                // Miri maps no files, and its only process shares memory with no other.
                true => mmap_anonymous(ptr::null_mut(), mapped, protection, MapFlags::PRIVATE),
                false => mmap(ptr::null_mut(), mapped, protection, flags, file, 0),
            }
        }
        .map_err(|errno| refused(errno.into()))?;
        // SAFETY: the range belongs to this mapping; advice changes no contents. Without it, a core dump would touch,
        // and so allocate, every unused page. If the kernel refuses, dumps are only larger.
        let _ = (!cfg!(miri)).then(|| unsafe { madvise(start, mapped, Advice::LinuxDontDump) });
        let start = NonNull::new(start.cast::<u8>()).expect("the kernel maps nothing at address zero");
        let claims = Claims {
            words_end: AtomicUsize::new(0),
            arena: AtomicUsize::new(usize::MAX),
            arenas_end: AtomicUsize::new(arenas_end),
        };
        Ok(Self::from_mapping(start, len, Backing::Shared { len: mapped, claims }))
    }

    /// Makes the kernel allocate the pages around `range` now, so that a shortage is an error; writing to them would
    /// otherwise end the process. Kernels without this call (before 5.14) and memory that is not shared count as
    /// populated.
    ///
    /// # Errors
    /// The operating system's error.
    ///
    /// # Panics
    /// If `range` is not inside the segment.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} bytes", self.len());
        if !matches!(self.backing(), Backing::Shared { .. }) || range.is_empty() || cfg!(miri) {
            return Ok(());
        }
        let page = rustix::param::page_size();
        let pages = range.start / page * page..range.end;
        let start = self.at(pages.start).as_ptr().cast();
        // SAFETY: the pages belong to this mapping, whose last page is whole, and their contents do not change.
        match unsafe { madvise(start, pages.len().next_multiple_of(page), Advice::LinuxPopulateWrite) } {
            Err(Errno::INVAL | Errno::NOSYS) => Ok(()),
            // A write would have caused a bus error: no page is available.
            Err(Errno::FAULT) => Err(io::ErrorKind::StorageFull.into()),
            other => Ok(other?),
        }
    }

    /// Returns the whole pages inside `range` of a shared segment to the operating system; they are zero from then on,
    /// in every process. Pages that the kernel refuses remain, which only costs memory.
    pub(super) fn discard(&self, range: Range<usize>) {
        let page = rustix::param::page_size();
        let (start, end) = (range.start.next_multiple_of(page), range.end.min(self.len()) / page * page);
        if start < end && matches!(self.backing(), Backing::Shared { .. }) && !cfg!(miri) {
            // SAFETY: the pages belong to this mapping, and the arena, the only caller, has leased none of them.
            let _ = unsafe { madvise(self.at(start).as_ptr().cast(), end - start, Advice::LinuxRemove) };
        }
    }

    /// Records that `range` contains words.
    pub(super) fn claim_words(&self, range: Range<usize>) {
        assert!(range.end <= self.len(), "words in {range:?} reach past the segment of {} bytes", self.len());
        match self.backing() {
            Backing::Anonymous { .. } => {}
            Backing::Shared { claims, .. } => {
                // Each claim is written before the other is read, both in a single total order, so at least one of two
                // competing claims sees the other.
                claims.words_end.fetch_max(range.end, Ordering::SeqCst);
                let arena = claims.arena.load(Ordering::SeqCst);
                assert!(range.end <= arena, "words in {range:?} reach into the arena, which starts at {arena}");
            }
            Backing::File { .. } | Backing::Foreign { .. } => panic!("words need memory that may be written"),
        }
    }

    /// Records that leases are cut from `range`. A segment has one or more arenas, claimed from front to end.
    pub(super) fn claim_arena(&self, range: Range<usize>) {
        let Backing::Shared { claims, .. } = self.backing() else { panic!("an arena needs a shared segment") };
        let after = |end| (range.start >= end).then_some(range.end);
        let free = claims.arenas_end.fetch_update(Ordering::SeqCst, Ordering::SeqCst, after);
        assert!(free.is_ok(), "arenas do not overlap, and lie in the process that made the segment");
        claims.arena.fetch_min(range.start, Ordering::SeqCst);
        let words_end = claims.words_end.load(Ordering::SeqCst);
        assert!(words_end <= range.start, "an arena at {range:?} reaches into words, which end at {words_end}");
    }

    /// Returns a copy of `range`, which another process may be writing to: old bytes, new bytes, or a mix.
    pub(crate) fn copy_out(&self, range: Range<usize>) -> Vec<u8> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} bytes", self.len());
        let mut bytes = vec![0; range.len()];
        // SAFETY: the range is mapped, as asserted; the vector has the same length, and a new vector overlaps nothing.
        unsafe { self.at(range.start).as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }
}

#[cfg(not(miri))]
fn file_in_memory(len: usize) -> Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::process::{Resource, getrlimit};

    let refused = |operation, limit| move |source| Error::SharedMemory { operation, bytes: len, limit, source };
    let file = memfd_create("sluicegate", MemfdFlags::CLOEXEC)
        .map_err(|errno| refused("an open file", "ulimit -n")(errno.into()))?;
    let too_large = refused("a file of that size", "ulimit -f");
    // Exceeding this limit causes both an error and a signal that ends the process.
    if getrlimit(Resource::Fsize).current.is_some_and(|most| len as u64 > most) {
        return Err(too_large(Errno::FBIG.into()));
    }
    ftruncate(&file, len as u64).map_err(|errno| too_large(errno.into()))?;
    Ok(file)
}

/// Miri has no in-memory files: any file works, because it is never read.
#[cfg(miri)]
fn file_in_memory(_len: usize) -> Result<OwnedFd> {
    Ok(std::fs::File::open("/dev/null").map_err(|error| Error::User(Box::new(error)))?.into())
}
