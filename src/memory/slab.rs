//! [`Slab`]: the slots of one loader.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lease::Home;
use super::offers::Offers;
use super::{Lease, PerProcess, Segment, generation};
use crate::Result;

/// From this size on a slot has a segment of its own, so that giving it back gives its memory back.
const OWN_SEGMENT: usize = 128 << 10;
/// Small slots are cut from segments of this size at most.
const LARGEST_SHARED_SEGMENT: usize = 4 << 20;
/// This much may lie free whatever the number of slots: thousands of tiny ones cost less than finding new ones.
const FREE_BYTES: usize = 1 << 20;
/// Slots start at multiples of this: the alignment of torch's own allocator.
pub(super) const ALIGNMENT: usize = 64;

/// A pool of slots that grows with what is held and shrinks to what is used.
///
/// [`lease`](Self::lease) never waits: a batch that somebody keeps stays valid, and the next one gets other memory. A
/// slot comes back when its [`Lease`] is dropped, on any thread; of the free slots `free_slots` are kept, the rest is
/// unmapped. A forked child starts with no slots of its own and never touches its parent's.
///
/// # Example
/// ```
/// use sluicegate::memory::Slab;
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
    /// An empty pool that keeps at most `free_slots` free slots (or 1 MiB of them, where that is more).
    #[must_use]
    pub fn new(free_slots: usize) -> Self {
        Self { slots: PerProcess::new(), offers: PerProcess::new(), free_slots, free_bytes: usize::MAX }
    }

    /// The same that keeps no more than `bytes` bytes of free slots either, but one slot (or 1 MiB) in any case.
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

    /// A slot of `bytes` bytes with unspecified contents, aligned to 64 bytes, for the caller alone. Any thread.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn lease(&self, bytes: usize) -> Result<Lease> {
        let slots = self.slots();
        let capacity = capacity_for(bytes);
        let slot = slots.inventory().take(capacity)?;
        Ok(Lease::new(slot, bytes, Arc::clone(slots) as Arc<dyn Home>))
    }

    /// Room for a batch of `bytes` bytes: a block that was [offered](Self::offer), the smallest that has room, else a slot.
    /// Any thread.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn lease_for_batch(&self, bytes: usize) -> Result<Lease> {
        self.offers().take(bytes).map_or_else(|| self.lease(bytes), Ok)
    }

    /// Offers a block for one batch: memory of somebody else's ([`Lease::foreign`]), such as a device can read by itself. When
    /// the batch dies, or the block is [withdrawn](Self::withdraw), the lease goes where it came from.
    ///
    /// # Example
    /// ```
    /// use sluicegate::memory::Slab;
    /// let (slab, other) = (Slab::new(4), Slab::new(4));
    /// slab.offer(other.lease(1000).unwrap());
    /// assert_eq!((slab.offered(), slab.lease_for_batch(100).unwrap().len(), slab.offered()), (1, 100, 0));
    /// ```
    pub fn offer(&self, block: Lease) {
        self.offers().add(block);
    }

    /// The number of blocks that were offered and not used.
    #[must_use]
    pub fn offered(&self) -> usize {
        self.offers().len()
    }

    /// Gives up the blocks that were offered and have fewer than `bytes` bytes.
    pub fn withdraw_smaller(&self, bytes: usize) {
        self.offers().clear_smaller(bytes);
    }

    /// Gives up the blocks that were offered and not used.
    pub fn withdraw(&self) {
        self.offers().clear();
    }

    fn offers(&self) -> &Offers {
        self.offers.get_or_make(Offers::new)
    }

    /// The address space of all slots of this process, leased and free, in bytes; without what was offered.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.slots().inventory().mapped_bytes()
    }
}

/// The size of the slots that serve `bytes`: four sizes between a power of two and the next, so that batches of nearly
/// one size share slots and a slot (from 512 bytes on) is at most a quarter larger than what is in it.
///
/// Sizes that nothing can have stay what they are: the segment refuses them.
pub(super) fn capacity_for(bytes: usize) -> usize {
    let bytes = bytes.max(ALIGNMENT);
    let step = bytes.checked_next_power_of_two().map_or(ALIGNMENT, |power| power / 8).max(ALIGNMENT);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// Memory of one batch: a range of a segment that no other slot overlaps.
pub(super) struct Slot {
    segment: Arc<Segment>,
    range: Range<usize>,
}

impl Slot {
    /// The slot at `range` of `segment`, which nobody else has a right to.
    pub(super) fn new(segment: Arc<Segment>, range: Range<usize>) -> Self {
        Self { segment, range }
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    pub(super) fn address(&self) -> NonNull<u8> {
        self.segment.at(self.range.start)
    }

    fn capacity(&self) -> usize {
        self.range.len()
    }

    /// Whose memory it is, where it is somebody else's.
    pub(super) fn owner(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.segment.owner()
    }
}

/// What the leases of one process share with their slab. The lock is held for a few list operations, never over a
/// system call but the mapping of a new segment.
struct Slots {
    generation: u64,
    free_slots: usize,
    free_bytes: usize,
    inventory: Mutex<Inventory>,
}

#[derive(Default)]
struct Inventory {
    /// Free slots by capacity; the one that came back last is at the back, and warm.
    free: BTreeMap<usize, VecDeque<Slot>>,
    free_count: usize,
    free_bytes: usize,
    /// By capacity: the segment that new small slots are cut from, and how much of it is used.
    shared: BTreeMap<usize, (Arc<Segment>, usize)>,
    /// Every segment that was mapped; the dead ones are swept when a new one is mapped.
    segments: Vec<std::sync::Weak<Segment>>,
}

impl Slots {
    fn inventory(&self) -> MutexGuard<'_, Inventory> {
        // Nothing in here can panic half-way through a change, so a poisoned lock protects a sound inventory.
        self.inventory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home for Slots {
    fn give_back(&self, slot: Slot) {
        if self.generation != generation() {
            // A forked child drops a batch of its parent: the lock may be held by a thread that was not forked.
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
            return Ok(Slot { segment, range: 0..capacity });
        }
        let (segment, used) = match self.shared.remove(&capacity) {
            Some((segment, used)) if used + capacity <= segment.len() => (segment, used),
            // Each segment is twice the last, so that an epoch that is kept whole needs few of them.
            exhausted => {
                let last = exhausted.map_or(capacity.next_multiple_of(2048), |(segment, _)| segment.len());
                let len = (last * 2).min(LARGEST_SHARED_SEGMENT) / capacity * capacity;
                (self.map(len.max(capacity))?, 0)
            }
        };
        let slot = Slot { segment: Arc::clone(&segment), range: used..used + capacity };
        self.shared.insert(capacity, (segment, used + capacity));
        Ok(slot)
    }

    fn map(&mut self, bytes: usize) -> Result<Arc<Segment>> {
        let segment = Arc::new(Segment::anonymous(bytes)?);
        self.segments.retain(|segment| segment.strong_count() > 0);
        self.segments.push(Arc::downgrade(&segment));
        Ok(segment)
    }

    /// Keeps `slot`, and returns the slots that are now too many, or too many bytes, to be unmapped outside of the lock.
    fn put(&mut self, slot: Slot, (free_slots, free_bytes): (usize, usize)) -> Vec<Slot> {
        self.free_count += 1;
        self.free_bytes += slot.capacity();
        let newest = slot.capacity();
        self.free.entry(newest).or_default().push_back(slot);
        let mut surplus = Vec::new();
        let is_too_much = |count: usize, bytes: usize| count > free_slots || (bytes > free_bytes && count > 1);
        while is_too_much(self.free_count, self.free_bytes) && self.free_bytes > FREE_BYTES {
            // Slots of a size that nobody asks for any more go first: any but the size that came back just now.
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
