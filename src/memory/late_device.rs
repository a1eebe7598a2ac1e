//! A simulated device: it copies batches late and out of order, from blocks of an allocator that counts its copies, as
//! torch's pinned-memory allocator does. The tests compare what it read with what was written.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{Lease, Slab};

const BYTES: usize = 4096;

/// Determines whether the allocator waits for copies from a block before it reuses the block.
#[derive(Clone, Copy, PartialEq)]
enum Guard {
    Events,
    Nothing,
}

/// Memory of the allocator, which is never freed, and the number of pending copies from it.
struct Block {
    address: usize,
    copies: Arc<AtomicUsize>,
}

/// Hands out blocks, and reuses them when they have no holder.
struct Allocator {
    free: Mutex<VecDeque<Block>>,
    blocks: AtomicUsize,
    guard: Guard,
}

/// Holds a block: dropping it returns the block, even if copies from it are pending.
struct Owner {
    block: Option<Block>,
    allocator: Arc<Allocator>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let block = self.block.take().expect("it is dropped once");
        self.allocator.free.lock().unwrap().push_back(block);
    }
}

impl Allocator {
    fn new(guard: Guard) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), blocks: AtomicUsize::new(0), guard })
    }

    fn allocate(self: &Arc<Self>) -> Block {
        let mut free = self.free.lock().unwrap();
        let is_free = |block: &Block| self.guard == Guard::Nothing || block.copies.load(Ordering::Acquire) == 0;
        if let Some(place) = free.iter().position(is_free) {
            return free.remove(place).expect("it was there");
        }
        self.blocks.fetch_add(1, Ordering::Relaxed);
        let bytes = Box::leak(Box::new([0_u8; BYTES + 64]));
        let skip = bytes.as_ptr().align_offset(64);
        Block { address: bytes[skip..].as_mut_ptr().expose_provenance(), copies: Arc::default() }
    }

    fn offer_to(self: &Arc<Self>, slab: &Slab) {
        let block = self.allocate();
        let address = NonNull::new(std::ptr::with_exposed_provenance_mut(block.address)).unwrap();
        let owner = Box::new(Owner { block: Some(block), allocator: Arc::clone(self) });
        // SAFETY: aligned, large enough, and never freed. With `Guard::Nothing`, the device may still be reading the
        // block: the test demonstrates this, and so the device reads by value, without a reference.
        slab.offer(unsafe { Lease::foreign(address, BYTES, owner) });
    }
}

/// A copy requested from the device: the address, the value that every byte must have, and the copy counter.
struct Copy {
    address: usize,
    number: u8,
    copies: Arc<AtomicUsize>,
}

/// Runs the copies out of order, each after four more were requested. Returns how many read a different value.
fn run_device(asked: &Receiver<Copy>) -> usize {
    let (mut waiting, mut overwritten, mut is_newest) = (VecDeque::new(), 0, false);
    loop {
        let next = asked.recv();
        let is_last = next.is_err();
        waiting.extend(next);
        if is_last && waiting.is_empty() {
            return overwritten;
        }
        if is_last || waiting.len() > 4 {
            // Alternate between the newest and the oldest waiting copy.
            is_newest = !is_newest;
            let next = if is_newest { waiting.pop_back() } else { waiting.pop_front() };
            let Some(Copy { address, number, copies }) = next else { continue };
            let start = std::ptr::with_exposed_provenance::<u8>(address);
            // SAFETY: blocks are never freed during the test, and are read by value and unsynchronized, like a device.
            let is_same = (0..BYTES).all(|at| unsafe { start.add(at).read_volatile() } == number);
            overwritten += usize::from(!is_same);
            copies.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Starts a copy of `lease` and drops the lease, like a consumer that copies with `non_blocking=True`.
fn copy_and_forget(lease: Lease, number: u8, device: &Sender<Copy>) {
    let owner = lease.owner().and_then(|owner| owner.downcast_ref::<Owner>()).expect("it is on an offered block");
    let copies = Arc::clone(&owner.block.as_ref().expect("it is held").copies);
    copies.fetch_add(1, Ordering::Relaxed);
    let address = lease.address().as_ptr().expose_provenance();
    device.send(Copy { address, number, copies }).unwrap();
}

fn overwritten_with(guard: Guard) -> (usize, usize) {
    let (slab, allocator) = (Arc::new(Slab::new(2)), Allocator::new(guard));
    let (device, asked) = channel();
    let overwritten = thread::scope(|scope| {
        let running = scope.spawn(move || run_device(&asked));
        for number in 0..400_usize {
            allocator.offer_to(&slab);
            let mut lease = scope.spawn(|| slab.lease_for_batch(BYTES).unwrap()).join().unwrap();
            lease.bytes_mut().fill((number % 251) as u8);
            copy_and_forget(lease, (number % 251) as u8, &device);
        }
        drop(device);
        running.join().unwrap()
    });
    (overwritten, allocator.blocks.load(Ordering::Relaxed))
}

#[test]
fn late_device_reads_see_the_batch_when_the_allocator_owns_the_blocks() {
    let (overwritten, blocks) = overwritten_with(Guard::Events);
    assert_eq!(overwritten, 0);
    assert!(blocks < 400, "blocks are used again: there were {blocks}");
    // The device is late enough for the test to be meaningful.
    assert!(overwritten_with(Guard::Nothing).0 > 0);
}

#[test]
fn the_smallest_sufficient_block_serves_one_batch() {
    let (slab, allocator) = (Slab::new(2), Allocator::new(Guard::Events));
    allocator.offer_to(&slab);
    assert_eq!(slab.offered(), 1);
    let large = slab.lease_for_batch(BYTES + 1).unwrap();
    assert!(large.owner().is_none() && slab.offered() == 1, "a batch that is larger gets a slot");
    let first = slab.lease_for_batch(100).unwrap();
    assert_eq!((first.len(), first.owner().is_some(), slab.offered()), (100, true, 0));
    assert!(slab.lease_for_batch(100).unwrap().owner().is_none(), "it was offered for one batch");
    assert_eq!(allocator.free.lock().unwrap().len(), 0);
    drop(first);
    assert_eq!(allocator.free.lock().unwrap().len(), 1, "the owner is let go with the lease");
    allocator.offer_to(&slab);
    slab.withdraw_smaller(BYTES);
    assert_eq!(slab.offered(), 1);
    slab.withdraw_smaller(BYTES + 1);
    assert_eq!(slab.offered(), 0);
    allocator.offer_to(&slab);
    slab.withdraw();
    assert_eq!((slab.offered(), allocator.free.lock().unwrap().len()), (0, 1));
}
