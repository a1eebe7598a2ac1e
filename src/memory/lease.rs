//! [`Lease`]: the right to a slot.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::slab::Slot;
use super::{Segment, generation};

/// Where a slot goes when its lease is dropped: on any thread, in the process that leased it or in a forked one.
pub(super) trait Home: Send + Sync {
    /// Takes back `slot`, which came from here. A forked child must take nothing: the slot is its parent's.
    fn give_back(&self, slot: Slot);
}

/// Where leases on memory of somebody else's go.
struct Owners {
    generation: u64,
}

impl Home for Owners {
    fn give_back(&self, slot: Slot) {
        if self.generation == generation() {
            drop(slot);
        } else {
            // A forked child: the memory is its parent's, and so is the allocator that it belongs to.
            std::mem::forget(slot);
        }
    }
}

/// The right to the bytes of one slot. Dropping it, on any thread, gives the slot back to its [`Slab`](super::Slab) or
/// [`Arena`](super::Arena), which may be gone by then.
pub struct Lease {
    slot: ManuallyDrop<Slot>,
    bytes: usize,
    home: Arc<dyn Home>,
}

impl Lease {
    pub(super) fn new(slot: Slot, bytes: usize, home: Arc<dyn Home>) -> Self {
        Self { slot: ManuallyDrop::new(slot), bytes, home }
    }

    /// A lease on `bytes` bytes of `owner`, which is dropped with it, on whichever thread; in a forked child it never is.
    ///
    /// # Safety
    /// The range must be mapped, initialised and writable until `owner` is dropped, begin at a multiple of 64, and nobody may read
    /// or write it meanwhile but through the lease.
    pub unsafe fn foreign(address: NonNull<u8>, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        // SAFETY: the caller's promise.
        let segment = unsafe { Segment::foreign(address, bytes, owner) };
        Self::new(Slot::new(Arc::new(segment), 0..bytes), bytes, Arc::new(Owners { generation: generation() }))
    }

    /// The same lease with no more than `bytes` bytes.
    pub(super) fn shortened(mut self, bytes: usize) -> Self {
        self.bytes = self.bytes.min(bytes);
        self
    }

    /// The number of bytes that were asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether no byte was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes, to read.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a slot is mapped, initialised (fresh mappings are zero) and overlaps no other slot; this lease is the
        // only right to it, and its shared borrow excludes `bytes_mut`.
        unsafe { slice::from_raw_parts(self.address().as_ptr(), self.bytes) }
    }

    /// The bytes, to write.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the lease is exclusively borrowed.
        unsafe { slice::from_raw_parts_mut(self.address().as_ptr(), self.bytes) }
    }

    /// The address of the first byte, for a foreign owner of views: it holds the lease as long as they live.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        self.slot.address()
    }

    /// Whose memory it is, where it is [somebody else's](Self::foreign).
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
