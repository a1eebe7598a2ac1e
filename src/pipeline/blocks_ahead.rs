//! [`BlocksAhead`]: announces the blocks of upcoming batches before they are requested.

use std::collections::{HashMap, VecDeque};

use crate::dataset::{BlockSize, Blocks};

/// Number of planned batches to look at for each requested one; looking at a batch costs part of what fetching it
/// costs.
const AT_A_TIME: usize = 8;

/// Maximum number of batches to look ahead.
const FARTHEST: usize = 1024;

/// Maximum number of bytes to announce before they are needed: with more, the operating system might evict blocks
/// before they are read.
const AHEAD_BYTES: usize = 256 << 20;

/// Maximum number of requested batches before looking again after there was no room.
const REST: usize = 16;

/// Looks ahead along an epoch's plan to find the next blocks.
///
/// It looks ahead as long as the blocks seen, both current and upcoming, fit into their cache together. Nothing is read
/// ahead until the blocks within that range have been seen twice on average. So if a plan jumps around in more data
/// than the cache can hold, nothing is read ahead, because most blocks would be evicted before they are needed. Only a
/// few samples of each batch are looked at; a block that is missed this way is read with its batch.
#[derive(Default)]
pub(super) struct BlocksAhead {
    /// The next batch to look at.
    front: usize,
    seen: HashMap<usize, Seen>,
    /// Blocks that were seen and are not announced yet.
    unannounced: Vec<usize>,
    sightings: usize,
    /// The first batch that needs each announced block, and the block's size, for blocks that no batch has requested
    /// yet.
    ahead: VecDeque<(usize, usize)>,
    ahead_bytes: usize,
    rest: usize,
    /// The last `rest`, if it began because even the requested batch had no room; otherwise 0.
    last_rest: usize,
    /// Scratch space for the indices of a batch, and the blocks that contain them.
    indices: Vec<usize>,
    hits: Vec<usize>,
}

/// A block that was seen.
struct Seen {
    first: usize,
    last: usize,
    size: BlockSize,
    sightings: usize,
}

impl BlocksAhead {
    /// Looks further ahead, now that `batch` was requested; the batches from `oldest` on are in flight. `look` puts
    /// some indices of a batch into a vector, or none if there is no such batch or it is unknown.
    pub(super) fn advance(
        &mut self,
        blocks: &dyn Blocks,
        (oldest, batch): (usize, usize),
        look: &mut dyn FnMut(usize, &mut Vec<usize>),
    ) {
        if self.rest > 0 {
            self.rest -= 1;
        } else {
            self.look(blocks, (oldest, batch), look);
        }
    }

    fn look(
        &mut self,
        blocks: &dyn Blocks,
        (oldest, batch): (usize, usize),
        look: &mut dyn FnMut(usize, &mut Vec<usize>),
    ) {
        while let Some(&(_, bytes)) = self.ahead.front().filter(|(first, _)| *first <= batch) {
            self.ahead_bytes -= bytes;
            self.ahead.pop_front();
        }
        self.front = self.front.max(batch);
        for _ in 0..AT_A_TIME {
            let is_far = self.front - batch > FARTHEST || self.ahead_bytes >= AHEAD_BYTES;
            self.indices.clear();
            if !is_far {
                look(self.front, &mut self.indices);
            }
            if self.indices.is_empty() || !self.see(blocks, oldest) {
                self.rest = match self.front - batch {
                    // Even the requested batch has no room. Look again soon in case a window just ended; otherwise back
                    // off.
                    0 => (2 * self.last_rest).clamp(1, REST),
                    // Look again when that batch is requested, at the latest.
                    ahead => (ahead - 1).min(REST),
                };
                self.last_rest = if self.front == batch { self.rest } else { 0 };
                return;
            }
            self.front += 1;
        }
    }

    /// Records the blocks of a batch; returns false if they do not fit into the cache with the blocks that are needed.
    fn see(&mut self, blocks: &dyn Blocks, oldest: usize) -> bool {
        let Self { front, seen, hits, indices, unannounced, .. } = self;
        hits.clear();
        indices.iter().for_each(|&index| blocks.blocks_of(index, &mut |block| hits.push(block)));
        let mut sizes: HashMap<usize, BlockSize> = HashMap::new();
        for &block in hits.iter().filter(|block| !seen.contains_key(block)) {
            sizes.entry(block).or_insert_with(|| blocks.size_of(block));
        }
        if !sizes.is_empty() {
            let added: f64 = sizes.values().map(share_of).sum();
            let sightings = &mut self.sightings;
            seen.retain(|_, seen| {
                let is_needed = seen.last >= oldest;
                *sightings -= if is_needed { 0 } else { seen.sightings };
                is_needed
            });
            unannounced.retain(|block| seen.contains_key(block));
            if seen.values().map(|seen| share_of(&seen.size)).sum::<f64>() + added > 1.0 {
                return false;
            }
        }
        for &block in &*hits {
            let seen = seen.entry(block).or_insert_with(|| {
                unannounced.push(block);
                let size = sizes.get(&block).copied().unwrap_or_else(|| blocks.size_of(block));
                Seen { first: *front, last: *front, size, sightings: 0 }
            });
            (seen.last, seen.sightings) = (*front, seen.sightings + 1);
        }
        self.sightings += hits.len();
        if self.sightings >= 2 * self.seen.len() && !self.unannounced.is_empty() {
            self.announce(blocks);
        }
        true
    }

    fn announce(&mut self, blocks: &dyn Blocks) {
        for block in self.unannounced.drain(..) {
            let Some(seen) = self.seen.get(&block) else { continue };
            blocks.announce(block);
            self.ahead.push_back((seen.first, seen.size.read));
            self.ahead_bytes += seen.size.read;
        }
    }
}

/// Returns the fraction of its cache that a block of this size takes.
fn share_of(size: &BlockSize) -> f64 {
    size.kept.max(1) as f64 / size.limit as f64
}
