//! [`Slab`]: the slots of one loader.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lease::Home;
use super::offers::Offers;
use super::slot::{Slot, capacity_for};
use super::{Lease, PerProcess, Segment, generation};
use crate::Result;

/// A slot of at least this many bytes has its own segment, so that freeing the slot unmaps its memory.
const OWN_SEGMENT: usize = 128 << 10;
/// Small slots are cut from segments of at most this size.
const LARGEST_SHARED_SEGMENT: usize = 4 << 20;
/// Bytes that may stay free whatever the number of slots: keeping thousands of tiny slots is cheaper than mapping new
/// ones.
const FREE_BYTES: usize = 1 << 20;
/// A pool of slots that grows with the number of batches held and shrinks to the number in use.
///
/// [`lease`](Self::lease) never waits: a batch that the consumer keeps stays valid, and the next batch gets different
/// memory. A slot is returned when its [`Lease`] is dropped, on any thread. `free_slots` of the free slots are kept,
/// and the rest are unmapped. A forked child starts without slots and never touches its parent's.
///
/// # Example
/// ```
/// use sluicegate::internal::Slab;
/// let slab = Slab::new(4);
/// let mut lease = slab.lease(100).unwrap();
/// lease.bytes_mut().fill(7);
/// drop(lease);
/// assert_eq!(slab.mapped_bytes(), 4096);
/// ```
pub struct Slab {
    slots: PerProcess<Arc<Slots>>,
    offers: PerProcess<Offers>,
    free_slots: usize,
    free_bytes: usize,
}

impl Slab {
    /// Returns an empty pool that keeps at most `free_slots` free slots (or 1 MiB of them, if that is more).
    #[must_use]
    pub fn new(free_slots: usize) -> Self {
        Self { slots: PerProcess::new(), offers: PerProcess::new(), free_slots, free_bytes: usize::MAX }
    }

    /// Like [`new`](Self::new), but also limits the free slots to `bytes` bytes; one slot (or 1 MiB) is always kept.
    #[must_use]
    pub fn with_free_bytes(mut self, bytes: usize) -> Self {
        self.free_bytes = bytes;
        self
    }

    fn slots(&self) -> &Arc<Slots> {
        self.slots.get_or_make(|| {
            let (free_slots, free_bytes) = (self.free_slots, self.free_bytes);
            Arc::new(Slots { generation: generation(), free_slots, free_bytes, inventory: Mutex::default() })
        })
    }

    /// Returns a slot of `bytes` bytes with unspecified contents, aligned to 64 bytes, for the caller's exclusive use.
    /// Callable from any thread.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn lease(&self, bytes: usize) -> Result<Lease> {
        let slots = self.slots();
        let capacity = capacity_for(bytes);
        let slot = slots.inventory().take(capacity)?;
        Ok(Lease::new(slot, bytes, Arc::clone(slots) as Arc<dyn Home>))
    }

    /// Returns memory for a batch of `bytes` bytes: the smallest [offered](Self::offer) block that is large enough, or
    /// else a slot. Callable from any thread.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn lease_for_batch(&self, bytes: usize) -> Result<Lease> {
        self.offers().take(bytes).map_or_else(|| self.lease(bytes), Ok)
    }

    /// Offers a block of foreign memory ([`Lease::foreign`]), such as memory that a device can read directly, for one
    /// batch. When the batch is dropped, or the block is [withdrawn](Self::withdraw), the lease returns to its origin.
    ///
    /// # Example
    /// ```
    /// use sluicegate::internal::Slab;
    /// let (slab, other) = (Slab::new(4), Slab::new(4));
    /// slab.offer(other.lease(1000).unwrap());
    /// assert_eq!((slab.offered(), slab.lease_for_batch(100).unwrap().len(), slab.offered()), (1, 100, 0));
    /// ```
    pub fn offer(&self, block: Lease) {
        self.offers().add(block);
    }

    /// Returns the number of blocks that were offered and are unused.
    #[must_use]
    pub fn offered(&self) -> usize {
        self.offers().len()
    }

    /// Withdraws unused blocks of fewer than `bytes` bytes.
    pub fn withdraw_smaller(&self, bytes: usize) {
        self.offers().clear_smaller(bytes);
    }

    /// Withdraws all unused blocks.
    pub fn withdraw(&self) {
        self.offers().clear();
    }

    fn offers(&self) -> &Offers {
        self.offers.get_or_make(Offers::new)
    }

    /// Returns the address space of all slots of this process in bytes, leased and free, without offered blocks.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.slots().inventory().mapped_bytes()
    }
}

/// State that a process's leases share with their slab. The lock is held for a few list operations; the only system
/// call made under it is the mapping of a new segment.
struct Slots {
    generation: u64,
    free_slots: usize,
    free_bytes: usize,
    inventory: Mutex<Inventory>,
}

#[derive(Default)]
struct Inventory {
    /// Free slots by capacity. The most recently returned slot is at the back, and is warm.
    free: BTreeMap<usize, VecDeque<Slot>>,
    free_count: usize,
    free_bytes: usize,
    /// The segment from which new small slots are cut, by capacity, and how much of it is used.
    shared: BTreeMap<usize, (Arc<Segment>, usize)>,
    /// Every segment that was mapped; unmapped ones are removed when a new one is mapped.
    segments: Vec<std::sync::Weak<Segment>>,
}

impl Slots {
    fn inventory(&self) -> MutexGuard<'_, Inventory> {
        // Nothing inside the lock can panic halfway through a change, so a poisoned lock protects a valid inventory.
        self.inventory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home for Slots {
    fn give_back(&self, slot: Slot) {
        if self.generation != generation() {
            // A forked child drops one of its parent's batches: a thread that was not forked may hold the lock.
            std::mem::forget(slot);
            return;
        }
        let surplus = self.inventory().put(slot, (self.free_slots, self.free_bytes));
        drop(surplus);
    }
}

impl Inventory {
    fn take(&mut self, capacity: usize) -> Result<Slot> {
        if let Some(slot) = self.free.get_mut(&capacity).and_then(VecDeque::pop_back) {
            self.free_count -= 1;
            self.free_bytes -= capacity;
            return Ok(slot);
        }
        if capacity >= OWN_SEGMENT {
            let segment = self.map(capacity)?;
            return Ok(Slot::new(segment, 0..capacity));
        }
        let (segment, used) = match self.shared.remove(&capacity) {
            Some((segment, used)) if used + capacity <= segment.len() => (segment, used),
            // Each segment is twice as large as the last, so keeping a whole epoch needs few of them.
            exhausted => {
                let last = exhausted.map_or(capacity.next_multiple_of(2048), |(segment, _)| segment.len());
                let len = (last * 2).min(LARGEST_SHARED_SEGMENT) / capacity * capacity;
                (self.map(len.max(capacity))?, 0)
            }
        };
        let slot = Slot::new(Arc::clone(&segment), used..used + capacity);
        self.shared.insert(capacity, (segment, used + capacity));
        Ok(slot)
    }

    fn map(&mut self, bytes: usize) -> Result<Arc<Segment>> {
        let segment = Arc::new(Segment::anonymous(bytes)?);
        self.segments.retain(|segment| segment.strong_count() > 0);
        self.segments.push(Arc::downgrade(&segment));
        Ok(segment)
    }

    /// Keeps `slot`, and returns the slots that now exceed the limits so that the caller unmaps them outside the lock.
    fn put(&mut self, slot: Slot, (free_slots, free_bytes): (usize, usize)) -> Vec<Slot> {
        self.free_count += 1;
        self.free_bytes += slot.capacity();
        let newest = slot.capacity();
        self.free.entry(newest).or_default().push_back(slot);
        let mut surplus = Vec::new();
        let is_too_much = |count: usize, bytes: usize| count > free_slots || (bytes > free_bytes && count > 1);
        while is_too_much(self.free_count, self.free_bytes) && self.free_bytes > FREE_BYTES {
            // Remove slots of sizes that are no longer requested first: any size except the one just returned.
            let other = self.free.iter().rev().find(|(capacity, free)| **capacity != newest && !free.is_empty());
            let victim = other.map_or(newest, |(&capacity, _)| capacity);
            let Some(slot) = self.free.get_mut(&victim).and_then(VecDeque::pop_front) else { break };
            self.free_count -= 1;
            self.free_bytes -= victim;
            surplus.push(slot);
        }
        surplus
    }

    fn mapped_bytes(&self) -> usize {
        self.segments.iter().filter_map(std::sync::Weak::upgrade).map(|segment| segment.len()).sum()
    }
}
