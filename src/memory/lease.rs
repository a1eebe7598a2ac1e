//! [`Lease`]: the right to a slot.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::slot::Slot;
use super::{Segment, generation};

/// The destination of a slot when its lease is dropped: on any thread, in the process that leased it or in a forked
/// one.
pub(super) trait Home: Send + Sync {
    /// Takes back `slot`, which this object issued. A forked child must take nothing: the slot is its parent's.
    fn give_back(&self, slot: Slot);
}

/// The destination of leases on foreign memory.
struct Owners {
    generation: u64,
}

impl Home for Owners {
    fn give_back(&self, slot: Slot) {
        if self.generation == generation() {
            drop(slot);
        } else {
            // In a forked child, the memory and its allocator belong to the parent.
            std::mem::forget(slot);
        }
    }
}

/// The right to the bytes of one slot. Dropping it, on any thread, returns the slot to its [`Slab`](super::Slab) or
/// [`Arena`](super::Arena), which may no longer exist by then.
pub struct Lease {
    slot: ManuallyDrop<Slot>,
    bytes: usize,
    home: Arc<dyn Home>,
}

impl Lease {
    pub(super) fn new(slot: Slot, bytes: usize, home: Arc<dyn Home>) -> Self {
        Self { slot: ManuallyDrop::new(slot), bytes, home }
    }

    /// Returns a lease on `bytes` bytes of `owner`, which is dropped with it on any thread, but never in a forked
    /// child.
    ///
    /// # Safety
    /// Until `owner` is dropped, the range must be mapped, initialized, and writable, and must not be read or written
    /// except through the lease. It must begin at a multiple of 64.
    pub unsafe fn foreign(address: NonNull<u8>, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        // SAFETY: the caller's promise.
        let segment = unsafe { Segment::foreign(address, bytes, owner) };
        Self::new(Slot::new(Arc::new(segment), 0..bytes), bytes, Arc::new(Owners { generation: generation() }))
    }

    /// Returns the same lease, limited to `bytes` bytes.
    pub(super) fn shortened(mut self, bytes: usize) -> Self {
        self.bytes = self.bytes.min(bytes);
        self
    }

    /// Returns the number of bytes requested.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if no bytes were requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the bytes for reading.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a slot is mapped, initialized (new mappings are zero), and overlaps no other slot; this lease is the
        // only right to it, and its shared borrow excludes `bytes_mut`.
        unsafe { slice::from_raw_parts(self.address().as_ptr(), self.bytes) }
    }

    /// Returns the bytes for writing.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the lease is exclusively borrowed.
        unsafe { slice::from_raw_parts_mut(self.address().as_ptr(), self.bytes) }
    }

    /// Returns the address of the first byte, for a foreign owner of views, which must hold the lease as long as they
    /// exist.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        self.slot.address()
    }

    /// Returns the owner of the memory, if the memory is [foreign](Self::foreign).
    #[must_use]
    pub fn owner(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.slot.owner()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: the slot is taken exactly once, here, and the lease is not used afterwards.
        self.home.give_back(unsafe { ManuallyDrop::take(&mut self.slot) });
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lease").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
