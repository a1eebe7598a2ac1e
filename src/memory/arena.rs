//! [`Arena`]: the allocator of a shared segment. All of its state is in the parent process.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::lease::Home;
use super::ranges::FreeRanges;
use super::slot::{Slot, capacity_for};
use super::{Lease, Segment, generation};

/// Touched memory that may stay free whatever the size of the batches, as in a [`Slab`](super::Slab).
const WARM_BYTES: usize = 1 << 20;
/// Maximum number of sizes to remember.
const MOST_SIZES: usize = 4096;

/// A pool of ranges of a shared segment, for batches that workers write.
///
/// [`grant`](Self::grant) returns a range that a worker may write to, and
/// [`Grant::into_lease`](super::Grant::into_lease) turns the written part into a lease. Dropping either returns the
/// memory. Free memory is *warm* when its pages may have been touched; warm memory is used first. Warm memory beyond
/// what `free_slots` batches need is returned to the operating system and is *cold* from then on.
///
/// Workers do not take part: a worker that dies leaves no state except its grant, which the parent drops. A forked
/// child gets nothing from its parent's arena and returns nothing to it.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::internal::{Arena, Segment};
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
    /// Notified when memory that was being discarded is free again.
    discarded: Condvar,
}

/// How to treat the pages of a range that is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// Any page may have been touched, and the range is worth keeping.
    Warm,
    /// Any page may have been touched, but the range is too large to keep.
    Discard,
}

struct Inventory {
    warm: FreeRanges,
    /// Every range begins and ends at a page boundary.
    cold: FreeRanges,
    /// Number of ranges returned so far; this is the arena's clock.
    now: u64,
    /// Bytes that are granted, leased, or being discarded.
    taken: usize,
    leased: usize,
    discarding: usize,
    sizes: Sizes,
    /// Maximum number of warm bytes to keep, whatever the number of slots.
    free_bytes: usize,
}

impl Arena {
    /// Returns an arena of the whole pages inside `range`. Everything else in the segment (rings and bells) must come
    /// before it.
    ///
    /// # Panics
    /// If the range is not inside `segment` or contains words, or if the segment was not [shared](Segment::shared) by
    /// this process or already has an arena.
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

    /// Keeps at most `bytes` bytes of free memory warm from now on (or 1 MiB, if that is more).
    pub fn limit_free_bytes(&self, bytes: usize) {
        if let Some(mut inventory) = self.inventory() {
            inventory.free_bytes = bytes;
        }
    }

    /// Returns the inventory, or None in a forked child, where a thread that was not forked may hold the lock.
    fn inventory(&self) -> Option<MutexGuard<'_, Inventory>> {
        // Nothing inside the lock can panic halfway through a change, so a poisoned lock protects a valid inventory.
        (self.generation == generation()).then(|| self.inventory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a range of at least `bytes` bytes; None when there is no room, and in a forked child.
    pub(super) fn take_warm(&self, bytes: usize) -> Option<Range<usize>> {
        self.find(bytes, |inventory| inventory.grant(capacity_for(bytes)))
    }

    /// Takes an untouched range of `bytes` bytes, whole pages, from the far end.
    pub(super) fn take_untouched(&self, bytes: usize) -> Option<Range<usize>> {
        self.find(bytes, |inventory| inventory.cold.take_from_end(bytes))
    }

    fn find(&self, bytes: usize, take: impl Fn(&mut Inventory) -> Option<Range<usize>>) -> Option<Range<usize>> {
        let mut inventory = self.inventory()?;
        while bytes <= self.segment.len() {
            if let Some(range) = take(&mut inventory) {
                inventory.taken += range.len();
                return Some(range);
            }
            // Warm ranges between cold ones can block a large range; discarding them may make room.
            let surplus = inventory.take_surplus(0);
            if !surplus.is_empty() {
                drop(inventory);
                self.discard(surplus);
                inventory = self.inventory()?;
            } else if inventory.discarding > 0 {
                // Memory that another thread is about to return counts as available; that thread needs only one more
                // system call.
                inventory = self.discarded.wait(inventory).unwrap_or_else(PoisonError::into_inner);
            } else {
                break;
            }
        }
        None
    }

    /// Turns `kept` into a lease and takes back the rest of `granted`.
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

    /// Takes back `ranges`, applies `change`, and discards the warm memory that now exceeds the limit.
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
        // A free slot is as large as the grant of its next batch.
        let limit = self.free_slots.saturating_mul(capacity_for(inventory.sizes.largest()));
        let limit = limit.min(inventory.free_bytes).max(WARM_BYTES);
        let surplus = inventory.take_surplus(limit);
        drop(inventory);
        self.discard(surplus);
    }

    /// Returns ranges that were removed from the warm ones to the operating system, and marks them cold.
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

    /// Returns the largest recently leased size, which the next grant should hold; 0 before the first lease.
    #[must_use]
    pub fn expected(&self) -> usize {
        self.inventory().map_or(0, |inventory| inventory.sizes.largest())
    }

    /// Returns the number of free bytes that may be touched and could be returned to the operating system, in whole
    /// pages.
    #[must_use]
    pub fn warm_bytes(&self) -> usize {
        self.inventory().map_or(0, |inventory| inventory.warm.page_bytes())
    }

    /// Returns the number of leased bytes; each lease is rounded up to 64.
    #[must_use]
    pub fn leased_bytes(&self) -> usize {
        self.inventory().map_or(0, |inventory| inventory.leased)
    }

    /// True if nothing is granted or leased.
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
        // Writing the granted bytes touches this page, so the rest of it is warm as well.
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

    /// Removes and returns the warm pages that exceed `limit` bytes, the largest ranges first.
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

/// The recent lease sizes that can still become the largest.
struct Sizes {
    window: u64,
    recorded: u64,
    /// Decreasing sizes, and when each was recorded.
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
