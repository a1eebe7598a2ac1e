//! [`Segment`]: one mapping.

use std::any::Any;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::claims::Claims;
use super::fault;
use crate::{Element, Error, Result};

/// Size of a huge page in bytes on machines that have this size; on others it only serves as an alignment.
const HUGE_PAGE: usize = 2 << 20;

/// One contiguous range of addresses and the right to use it.
///
/// # Example
/// ```
/// use sluicegate::internal::Segment;
/// assert_eq!(Segment::anonymous(4096).unwrap().len(), 4096);
/// ```
pub struct Segment {
    address: NonNull<u8>,
    len: usize,
    backing: Backing,
}

pub(super) enum Backing {
    /// Private memory that this segment mapped. The range to unmap may be wider than the range in use.
    Anonymous { start: NonNull<u8>, len: usize },
    /// A file that this segment mapped, and whether it was truncated during a copy.
    File { len: usize, lost_pages: AtomicBool },
    /// An in-memory file that other processes also map.
    Shared { len: usize, claims: Claims },
    /// Foreign memory, valid as long as the owner exists.
    Foreign { owner: Box<dyn Any + Send + Sync> },
}

// SAFETY: a segment is an address range that is valid until drop on any thread; the slab or the arena decides who may
// write to which part of it when (see README), and the owner of foreign memory is `Send + Sync` itself.
unsafe impl Send for Segment {}
// SAFETY: as for `Send`: a shared segment exposes only its address and copies of its bytes.
unsafe impl Sync for Segment {}

impl Segment {
    /// Returns zeroed private memory of `len` bytes, in huge pages where it fills them.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the operating system refuses.
    pub fn anonymous(len: usize) -> Result<Self> {
        let refused = |source| Error::OutOfMemory { bytes: len, source };
        let huge = len >= HUGE_PAGE - HUGE_PAGE / 8;
        // Aligned to a huge page manually: kernels before 6.7 do not align large mappings.
        let (unit, spare) = if huge { (HUGE_PAGE, HUGE_PAGE) } else { (64, 0) };
        let mapped = len.checked_next_multiple_of(unit).and_then(|mapped| mapped.checked_add(spare));
        // No object may be larger than `isize::MAX`; a sum that wrapped would map less memory than the segment claims.
        let mapped = mapped.filter(|&mapped| isize::try_from(mapped).is_ok());
        let mapped = mapped.ok_or_else(|| refused(io::ErrorKind::OutOfMemory.into()))?.max(1);
        // Miri supports neither this flag nor advice.
        let flags = if cfg!(miri) { MapFlags::PRIVATE } else { MapFlags::PRIVATE | MapFlags::NORESERVE };
        // SAFETY: a new private mapping at an address chosen by the kernel replaces nothing.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, flags) }
            .map_err(|errno| refused(errno.into()))?;
        let start = NonNull::new(start.cast::<u8>()).expect("the kernel maps nothing at address zero");
        let skip = if huge { start.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        // SAFETY: `mapped` was widened by a huge page, so the aligned start and the `len` bytes after it are inside.
        let address = unsafe { start.add(skip) };
        if huge && !cfg!(miri) {
            // A tail that fills less than seven eighths of a huge page stays in small pages: otherwise it could double
            // the memory of a batch that is kept.
            let whole = (len + HUGE_PAGE / 8) / HUGE_PAGE * HUGE_PAGE;
            // SAFETY: the range belongs to this mapping; advice changes no contents. A kernel without huge pages
            // refuses, and small pages then work too, only slower.
            let _ = unsafe { madvise(address.as_ptr().cast(), whole, Advice::LinuxHugepage) };
        }
        Ok(Self { address, len, backing: Backing::Anonymous { start, len: mapped } })
    }

    /// Returns the first `len` bytes of `file`, mapped for reading; nothing is read yet.
    ///
    /// A file that shrinks while it is mapped takes its pages away. Callers must check the file's size before each use,
    /// and [`has_lost_pages`](Self::has_lost_pages) after it (this crate's datasets do, once per batch). Each mapping
    /// ensures that a SIGBUS handler is installed, which forwards every fault that such a copy did not cause.
    ///
    /// # Errors
    /// The operating system's error, for example if `file` is not a regular file.
    pub fn map_file(file: &File, len: usize) -> io::Result<Self> {
        let mapped = len.max(1);
        // SAFETY: a new mapping at an address chosen by the kernel replaces nothing, and it is only read, by copying.
        let start = unsafe { mmap(ptr::null_mut(), mapped, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast::<u8>()).expect("the kernel maps nothing at address zero");
        fault::install();
        Ok(Self { address: start, len, backing: Backing::File { len: mapped, lost_pages: AtomicBool::new(false) } })
    }

    /// Asks the operating system to start reading these bytes of a mapped file, because they are needed soon.
    ///
    /// # Panics
    /// If the segment does not contain these bytes.
    pub(crate) fn will_read(&self, bytes: Range<usize>) {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len, "{bytes:?} of a segment of {}", self.len);
        if let Backing::File { .. } = self.backing {
            let start = bytes.start / rustix::param::page_size() * rustix::param::page_size();
            // SAFETY: the range is inside this mapping, which begins at a page boundary; advice changes no contents. If
            // it is refused, reading takes longer.
            let _ = unsafe { madvise(self.at(start).as_ptr().cast(), bytes.end - start, Advice::WillNeed) };
        }
    }

    /// Tells the operating system not to read ahead: by default it reads up to several MiB around each page that is not
    /// in memory.
    pub(crate) fn expect_any_order(&self) {
        if let Backing::File { len, .. } = self.backing {
            // SAFETY: the range belongs to this mapping; advice changes no contents. If it is refused, more is read.
            let _ = unsafe { madvise(self.address.as_ptr().cast(), len, Advice::Random) };
        }
    }

    /// Returns the first `len` bytes of the mapping at `address` that `backing` describes.
    pub(super) fn from_mapping(address: NonNull<u8>, len: usize, backing: Backing) -> Self {
        Self { address, len, backing }
    }

    /// Returns `len` bytes at `address` that belong to `owner`, which is dropped with the segment (on any thread).
    ///
    /// # Safety
    /// The range must stay mapped and readable until `owner` is dropped. Others may write to it meanwhile: a copy then
    /// contains old or new bytes, as with any array that is changed while it is read.
    pub unsafe fn foreign(address: NonNull<u8>, len: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        Self { address, len, backing: Backing::Foreign { owner } }
    }

    /// Returns a segment of the elements of `values`, without copying them.
    #[must_use]
    pub fn from_vec<T: Element>(values: Vec<T>) -> Self {
        let len = std::mem::size_of_val(values.as_slice());
        let address = NonNull::from(values.as_slice()).cast();
        // SAFETY: the buffer of a vector stays where it is when the vector moves into the box, which is dropped last.
        unsafe { Self::foreign(address, len, Box::new(values)) }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the segment has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if pages of a mapped file were missing during a copy. Those pages were read as zeros and stay zeros; the
    /// file must be mapped again.
    #[must_use]
    pub fn has_lost_pages(&self) -> bool {
        matches!(&self.backing, Backing::File { lost_pages, .. } if lost_pages.load(Ordering::Relaxed))
    }

    pub(super) fn backing(&self) -> &Backing {
        &self.backing
    }

    /// Returns the owner of the memory, if the memory is foreign.
    pub(super) fn owner(&self) -> Option<&(dyn Any + Send + Sync)> {
        match &self.backing {
            Backing::Foreign { owner } => Some(&**owner),
            _ => None,
        }
    }

    /// Runs `copy`, which reads bytes of this segment and writes elsewhere. Truncated parts of a mapped file read as
    /// zeros.
    pub(crate) fn read_by(&self, copy: impl FnOnce()) {
        let Backing::File { lost_pages, .. } = &self.backing else { return copy() };
        if !fault::guarded(self.addresses(), copy) {
            lost_pages.store(true, Ordering::Relaxed);
        }
    }

    /// Fills `into` with the bytes that start at `offset`.
    ///
    /// # Panics
    /// If the segment has fewer bytes.
    pub(crate) fn copy_to(&self, offset: usize, into: &mut [u8]) {
        let is_inside = offset.checked_add(into.len()).is_some_and(|end| end <= self.len);
        assert!(is_inside, "{} bytes from {offset} on, of a segment of {}", into.len(), self.len);
        // SAFETY: these bytes are inside the segment, as asserted; `into` is exclusively borrowed, so the two do not
        // overlap.
        self.read_by(|| unsafe { ptr::copy_nonoverlapping(self.at(offset).as_ptr(), into.as_mut_ptr(), into.len()) });
    }

    /// Returns the address range of the bytes.
    pub(super) fn addresses(&self) -> Range<usize> {
        let start = self.address.addr().get();
        start..start + self.len
    }

    /// Returns the address of the byte at `offset`, which may be one past the end.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.len, "offset {offset} of a segment of {} bytes", self.len);
        // SAFETY: within the segment or one past its end, as asserted.
        unsafe { self.address.add(offset) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let (start, len) = match self.backing {
            Backing::Anonymous { start, len } => (start, len),
            Backing::File { len, .. } | Backing::Shared { len, .. } => (self.address, len),
            Backing::Foreign { .. } => return,
        };
        // SAFETY: this segment mapped the range, and every user of its addresses holds the segment.
        let unmapped = unsafe { munmap(start.as_ptr().cast(), len) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}
