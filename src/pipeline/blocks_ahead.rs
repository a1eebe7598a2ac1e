//! [`BlocksAhead`]: the blocks of the batches that come next are announced before they are asked for.

use std::collections::{HashMap, VecDeque};

use crate::dataset::{BlockSize, Blocks};

/// So many batches of the plan are looked at for each one that is asked for: to look is to take part of what that one costs.
const AT_A_TIME: usize = 8;

/// So many batches ahead it is looked at most.
const FARTHEST: usize = 1024;

/// So many bytes are announced at most that are not needed yet: more might have to leave the memory of the operating system
/// before they are read.
const AHEAD_BYTES: usize = 256 << 20;

/// Where there is no room, it is looked again when so many more batches have been asked for, at the latest.
const REST: usize = 16;

/// Looks along the plan of an epoch: which blocks are next.
///
/// It looks as far as the blocks that it has seen fit into their cache together: those that are read now and those to come.
/// Nothing is read ahead before blocks have been seen twice on an average within that. So of a plan that jumps about in more
/// than may be kept nothing is: most of it would have gone again when its turn comes. What is seen are a few samples of each
/// batch; a block that is missed so is read when its batch is.
#[derive(Default)]
pub(super) struct BlocksAhead {
    /// The next batch to look at.
    front: usize,
    seen: HashMap<usize, Seen>,
    /// Of those that were seen, the ones that are not announced yet.
    unannounced: Vec<usize>,
    sightings: usize,
    /// By block that was announced, the first batch that needs it and its size: of those that none has asked for yet.
    ahead: VecDeque<(usize, usize)>,
    ahead_bytes: usize,
    rest: usize,
    /// The last rest that began where no batch ahead had room.
    last_rest: usize,
    /// Room for the indices of a batch, and the blocks that they are in.
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
    /// Looks on, now that `batch` was asked for, of those before which the ones from `oldest` on are under way. `look` puts
    /// some indices of a batch into a vector, and none where there is no such batch, or it is not known.
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
                    // Not even what was asked for: soon, if that was the end of a window; else it stays so.
                    0 => (2 * self.last_rest).clamp(1, REST),
                    // When that one is asked for, at the latest.
                    ahead => (ahead - 1).min(REST),
                };
                self.last_rest = if self.front == batch { self.rest } else { 0 };
                return;
            }
            self.front += 1;
        }
    }

    /// Takes note of the blocks of a batch; false when they do not fit into the cache with those that are needed.
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

/// Which part of its cache a block of this size takes.
fn share_of(size: &BlockSize) -> f64 {
    size.kept.max(1) as f64 / size.limit as f64
}
