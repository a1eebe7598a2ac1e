//! [`Arena`]: the allocator of a shared segment, all of whose state is the parent's.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::lease::Home;
use super::ranges::FreeRanges;
use super::slab::{Slot, capacity_for};
use super::{Grant, Lease, Segment, generation};

/// This much touched memory may lie free whatever the size of the batches, as in a slab.
const WARM_BYTES: usize = 1 << 20;
/// The most sizes that are remembered.
const MOST_SIZES: usize = 4096;

/// A pool of ranges of a shared segment, for batches that workers write.
///
/// [`grant`](Self::grant) gives a range that a worker may write to, [`Grant::into_lease`] makes a lease of what it has
/// written, and dropping either gives the memory back. Free memory is *warm* when its pages may have been touched, and is
/// used first; more of it than `free_slots` batches is given back to the system and *cold* from then on.
///
/// Workers have no part in this: one that dies leaves no state behind but its grant, which the parent drops. A forked child
/// gets nothing from its parent's arena and gives nothing back to it.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::memory::{Arena, Segment};
/// let segment = Arc::new(Segment::shared(1 << 30).unwrap().0);
/// let arena = Arena::new(segment, 4096..1 << 30, 4);
/// let grant = arena.grant(10_000).unwrap();
/// // A worker writes 9,000 bytes to `grant.range()` of its own mapping, and says so.
/// let lease = grant.into_lease(0, 9_000);
/// assert_eq!((lease.len(), arena.expected()), (9_000, 9_000));
/// drop(lease);
/// assert!(arena.is_unused());
/// ```
pub struct Arena {
    segment: Arc<Segment>,
    free_slots: usize,
    generation: u64,
    inventory: ManuallyDrop<Mutex<Inventory>>,
    /// Memory that was being discarded is free again.
    discarded: Condvar,
}

/// What is known of the pages of a range that comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// Any of them may have been touched, and they are worth keeping.
    Warm,
    /// Any of them may have been touched, but the range is too large to be kept.
    Discard,
}

struct Inventory {
    warm: FreeRanges,
    /// Begins and ends at page boundaries everywhere.
    cold: FreeRanges,
    /// Counts what came back: the time of this arena.
    now: u64,
    /// The bytes that are granted, leased or being discarded.
    taken: usize,
    leased: usize,
    discarding: usize,
    sizes: Sizes,
    /// The most warm bytes that are kept, whatever the number of slots.
    free_bytes: usize,
}

impl Arena {
    /// The arena of the whole pages inside of `range`. All that lies beside it in the segment, rings and bells, comes
    /// before it.
    ///
    /// # Panics
    /// When the range is not inside `segment`, there are words in it, or the segment is not [shared](Segment::shared) by
    /// this process or has an arena already.
    #[must_use]
    pub fn new(segment: Arc<Segment>, range: Range<usize>, free_slots: usize) -> Arc<Self> {
        assert!(range.start <= range.end && range.end <= segment.len(), "{range:?} of {} bytes", segment.len());
        segment.claim_arena(range.clone());
        let page = rustix::param::page_size();
        let (warm, mut cold) = (FreeRanges::new(page), FreeRanges::new(page));
        cold.insert(cold.pages(&range), 0);
        let sizes = Sizes::new(free_slots.saturating_mul(2).saturating_add(8).min(MOST_SIZES));
        let free_bytes = usize::MAX;
        let inventory = Inventory { warm, cold, now: 0, taken: 0, leased: 0, discarding: 0, sizes, free_bytes };
        Arc::new(Self {
            segment,
            free_slots,
            generation: generation(),
            inventory: ManuallyDrop::new(Mutex::new(inventory)),
            discarded: Condvar::new(),
        })
    }

    /// Keeps no more than `bytes` bytes of free memory warm from now on (or 1 MiB, where that is more).
    pub fn limit_free_bytes(&self, bytes: usize) {
        if let Some(mut inventory) = self.inventory() {
            inventory.free_bytes = bytes;
        }
    }

    /// The inventory, unless this is a forked child, where the lock may be held by a thread that was not forked.
    fn inventory(&self) -> Option<MutexGuard<'_, Inventory>> {
        // Nothing in there can panic half-way through a change, so a poisoned lock protects a sound inventory.
        (self.generation == generation()).then(|| self.inventory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A range of at least `bytes` bytes with unspecified contents, aligned to 64 bytes and from a page on to pages. None
    /// when there is no room, and in a forked child.
    #[must_use]
    pub fn grant(self: &Arc<Self>, bytes: usize) -> Option<Grant> {
        let range = self.find(bytes, |inventory| inventory.grant(capacity_for(bytes)))?;
        Some(Grant::new(Arc::clone(self), range, Pages::Warm))
    }

    /// A range of at least `bytes` bytes that nobody has touched, from the far end: for a batch that may be larger than
    /// any before. What is not used of it costs nothing. None when there is no room, and in a forked child.
    #[must_use]
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Grant> {
        let page = rustix::param::page_size();
        let bytes = bytes.max(1).checked_next_multiple_of(page)?;
        let range = self.find(bytes, |inventory| inventory.cold.take_from_end(bytes))?;
        Some(Grant::new(Arc::clone(self), range, Pages::Discard))
    }

    fn find(&self, bytes: usize, take: impl Fn(&mut Inventory) -> Option<Range<usize>>) -> Option<Range<usize>> {
        let mut inventory = self.inventory()?;
        while bytes <= self.segment.len() {
            if let Some(range) = take(&mut inventory) {
                inventory.taken += range.len();
                return Some(range);
            }
            // Warm ranges between cold ones are in the way of a large one: without them there may be room.
            let surplus = inventory.take_surplus(0);
            if !surplus.is_empty() {
                drop(inventory);
                self.discard(surplus);
                inventory = self.inventory()?;
            } else if inventory.discarding > 0 {
                // What another thread is about to give back counts; it needs nothing but one system call to do so.
                inventory = self.discarded.wait(inventory).unwrap_or_else(PoisonError::into_inner);
            } else {
                break;
            }
        }
        None
    }

    /// Makes a lease of `kept`, and takes the rest of `granted` back.
    pub(super) fn lease(
        self: &Arc<Self>,
        granted: Range<usize>,
        kept: Range<usize>,
        bytes: usize,
        pages: Pages,
    ) -> Lease {
        self.settle([granted.start..kept.start, kept.end..granted.end], pages, |inventory| {
            inventory.leased += kept.len();
            inventory.sizes.record(bytes);
        });
        Lease::new(Slot::new(Arc::clone(&self.segment), kept), bytes, Arc::clone(self) as Arc<dyn Home>)
    }

    /// Takes back a range that was granted.
    pub(super) fn take_back(&self, range: Range<usize>, pages: Pages) {
        if !range.is_empty() {
            self.settle([range, 0..0], pages, |_| {});
        }
    }

    /// Takes back `ranges`, makes `change`, and discards what is now too much warm memory.
    fn settle(&self, ranges: [Range<usize>; 2], pages: Pages, change: impl FnOnce(&mut Inventory)) {
        if self.generation != generation() {
            return;
        }
        if pages == Pages::Discard {
            ranges.iter().for_each(|range| self.segment.discard(range.clone()));
        }
        let Some(mut inventory) = self.inventory() else { return };
        ranges.into_iter().for_each(|range| inventory.put(range, pages));
        change(&mut inventory);
        // What a free slot takes is what its next batch is granted.
        let limit = self.free_slots.saturating_mul(capacity_for(inventory.sizes.largest()));
        let limit = limit.min(inventory.free_bytes).max(WARM_BYTES);
        let surplus = inventory.take_surplus(limit);
        drop(inventory);
        self.discard(surplus);
    }

    /// Gives what was taken out of the warm ranges back to the system, and makes it cold.
    fn discard(&self, surplus: Vec<Range<usize>>) {
        for range in surplus {
            self.segment.discard(range.clone());
            let Some(mut inventory) = self.inventory() else { return };
            inventory.discarding -= range.len();
            inventory.put(range, Pages::Discard);
            drop(inventory);
            self.discarded.notify_all();
        }
    }

    /// The largest of the last sizes that were leased, which the next grant should hold; 0 when there was none.
    #[must_use]
    pub fn expected(&self) -> usize {
        self.inventory().map_or(0, |inventory| inventory.sizes.largest())
    }

    /// The free bytes that may be touched and could be given back to the system: whole pages.
    #[must_use]
    pub fn warm_bytes(&self) -> usize {
        self.inventory().map_or(0, |inventory| inventory.warm.page_bytes())
    }

    /// The bytes in leases, each rounded up to 64.
    #[must_use]
    pub fn leased_bytes(&self) -> usize {
        self.inventory().map_or(0, |inventory| inventory.leased)
    }

    /// Whether nothing is granted or leased.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.inventory().is_some_and(|inventory| inventory.taken == 0)
    }
}

impl Home for Arena {
    fn give_back(&self, slot: Slot) {
        if self.generation != generation() {
            std::mem::forget(slot);
            return;
        }
        let range = slot.range();
        let bytes = range.len();
        self.settle([range, 0..0], Pages::Warm, |inventory| inventory.leased -= bytes);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // A forked child may have inherited the inventory in the middle of a change.
        if self.generation == generation() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.inventory) };
        }
    }
}

impl Inventory {
    fn grant(&mut self, capacity: usize) -> Option<Range<usize>> {
        if let Some(range) = self.warm.take(capacity) {
            return Some(range);
        }
        let pages = self.cold.take(capacity.checked_next_multiple_of(rustix::param::page_size())?)?;
        let granted = pages.start..pages.start + capacity;
        // The last page is going to be touched, all of it that is there.
        self.warm.insert(granted.end..pages.end, self.now);
        Some(granted)
    }

    fn put(&mut self, range: Range<usize>, pages: Pages) {
        self.now += 1;
        self.taken -= range.len();
        let cold = match pages {
            Pages::Warm => range.start..range.start,
            Pages::Discard => self.cold.pages(&range),
        };
        if cold.is_empty() {
            return self.warm.insert(range, self.now);
        }
        self.warm.insert(range.start..cold.start, self.now);
        self.warm.insert(cold.end..range.end, self.now);
        self.cold.insert(cold, self.now);
    }

    /// Takes out the warm pages that are more than `limit` bytes, the largest ranges first.
    fn take_surplus(&mut self, limit: usize) -> Vec<Range<usize>> {
        let mut surplus = Vec::new();
        while self.warm.page_bytes() > limit {
            let Some(range) = self.warm.take_pages(self.warm.page_bytes() - limit) else { break };
            self.taken += range.len();
            self.discarding += range.len();
            surplus.push(range);
        }
        surplus
    }
}

/// The last sizes of leases, as far as they can still be the largest.
struct Sizes {
    window: u64,
    recorded: u64,
    /// Falling sizes and when each was recorded.
    falling: VecDeque<(u64, usize)>,
}

impl Sizes {
    fn new(window: usize) -> Self {
        Self { window: window as u64, recorded: 0, falling: VecDeque::new() }
    }

    fn record(&mut self, size: usize) {
        self.recorded += 1;
        while self.falling.back().is_some_and(|(_, smaller)| *smaller <= size) {
            self.falling.pop_back();
        }
        self.falling.push_back((self.recorded, size));
        if self.falling.front().is_some_and(|(when, _)| when + self.window <= self.recorded) {
            self.falling.pop_front();
        }
    }

    fn largest(&self) -> usize {
        self.falling.front().map_or(0, |(_, size)| *size)
    }
}
