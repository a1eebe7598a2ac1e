//! [`Offers`]: foreign memory that is waiting to be filled with a batch.

use std::sync::PoisonError;

use super::Lease;
use super::sync::{Mutex, MutexGuard};

/// Offered blocks. Each serves one batch. After the batch is dropped, only the block's owner knows when the memory may
/// be reused.
pub(super) struct Offers {
    blocks: Mutex<Vec<Lease>>,
}

impl Offers {
    /// Returns an empty set of blocks.
    pub(super) fn new() -> Self {
        Self { blocks: Mutex::new(Vec::new()) }
    }

    fn blocks(&self) -> MutexGuard<'_, Vec<Lease>> {
        // Nothing inside the lock can panic halfway through a change. Blocks are dropped outside the lock, because
        // their owners may be Python objects.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, block: Lease) {
        self.blocks().push(block);
    }

    /// Returns the first `bytes` bytes of the smallest block that is large enough, if there is one.
    pub(super) fn take(&self, bytes: usize) -> Option<Lease> {
        let mut blocks = self.blocks();
        let fitting = (0..blocks.len()).filter(|&place| blocks[place].len() >= bytes);
        let smallest = fitting.min_by_key(|&place| blocks[place].len())?;
        Some(blocks.swap_remove(smallest).shortened(bytes))
    }

    pub(super) fn len(&self) -> usize {
        self.blocks().len()
    }

    pub(super) fn clear_smaller(&self, bytes: usize) {
        let smaller: Vec<Lease> = self.blocks().extract_if(.., |block| block.len() < bytes).collect();
        drop(smaller);
    }

    pub(super) fn clear(&self) {
        let blocks = std::mem::take(&mut *self.blocks());
        drop(blocks);
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use std::ptr::NonNull;

    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::super::sync::model_check;
    use super::*;

    /// Counts how often a block's owner is dropped.
    struct Counted(loom::sync::Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn loom_a_block_is_leased_once_and_released_once() {
        model_check(|| {
            let offers = loom::sync::Arc::new(Offers::new());
            let dropped = loom::sync::Arc::new(AtomicUsize::new(0));
            for _ in 0..2 {
                let bytes = Box::leak(Box::new([0_u8; 64]));
                let owner = Box::new(Counted(dropped.clone()));
                // SAFETY: the bytes are never freed, and no other code has or reads them, so they may be at any
                // address.
                offers.add(unsafe { Lease::foreign(NonNull::from(&mut bytes[0]), 64, owner) });
            }
            let taker = || {
                let offers = offers.clone();
                thread::spawn(move || {
                    let lease = offers.take(64);
                    lease.as_ref().map(Lease::address)
                })
            };
            let (first, second) = (taker(), taker());
            offers.clear();
            let (first, second) = (first.join().unwrap(), second.join().unwrap());
            assert!(first.is_none() || first != second, "one block, two leases");
            assert_eq!((dropped.load(Ordering::Relaxed), offers.len()), (2, 0));
        });
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::thread;

    use super::super::{Lease, Slab};

    #[test]
    fn offered_blocks_serve_batches_and_return_to_their_owner() {
        let slab = Slab::new(2);
        let owner = Arc::new(());
        for _ in 0..2 {
            let mut block = vec![[0_u64; 8]; 16];
            let start = block.as_mut_ptr().cast::<u8>();
            // A vector of words is aligned to words: offer it from its first byte at a multiple of 64.
            let skip = start.align_offset(64);
            let address = NonNull::new(start.wrapping_add(skip)).unwrap();
            // SAFETY: the vector moves into the owner, and no other code knows its address.
            slab.offer(unsafe { Lease::foreign(address, 900, Box::new((block, Arc::clone(&owner)))) });
        }
        let mut first = slab.lease_for_batch(800).unwrap();
        first.bytes_mut().fill(3);
        assert!(first.owner().is_some() && slab.offered() == 1);
        slab.withdraw();
        assert_eq!(Arc::strong_count(&owner), 2, "the other block is gone");
        thread::scope(|scope| scope.spawn(move || drop(first)).join().unwrap());
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
