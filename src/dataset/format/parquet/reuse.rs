//! [`Reuse`]: predicts how much of a row group will be read before it is evicted.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::memory::PerProcess;

/// Simulates a cache of the row groups that are read, as if each were decoded whole. When a group is evicted from it,
/// the share of its samples that was read predicts the share for other groups. In sequential or block order that is all
/// of them; in a shuffle of much more than the cache holds, almost none.
pub(super) struct Reuse {
    limit: usize,
    seen: PerProcess<Mutex<Seen>>,
}

struct Seen {
    /// The most recently read group is last.
    groups: VecDeque<SeenGroup>,
    bytes: usize,
    /// The predicted share of a group without history.
    share: f64,
}

struct SeenGroup {
    group: usize,
    bytes: usize,
    share: f64,
}

impl Reuse {
    /// Creates the simulation of a cache of `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, seen: PerProcess::new() }
    }

    /// Records that `count` of the `samples` samples of `group` are read; `bytes` is the size of the group. Returns the
    /// share of the group that is likely to be read while it is cached.
    pub(super) fn touch(&self, group: usize, bytes: usize, samples: usize, count: usize) -> f64 {
        let first = || Mutex::new(Seen { groups: VecDeque::new(), bytes: 0, share: 1.0 });
        let mut seen = self.seen.get_or_make(first).lock().unwrap_or_else(PoisonError::into_inner);
        let place = seen.groups.iter().rposition(|seen| seen.group == group);
        let mut found = match place.and_then(|place| seen.groups.remove(place)) {
            Some(found) => found,
            None => {
                seen.bytes = seen.bytes.saturating_add(bytes);
                SeenGroup { group, bytes, share: 0.0 }
            }
        };
        found.share += count as f64 / samples.max(1) as f64;
        let of_group = found.share;
        seen.groups.push_back(found);
        while seen.bytes > self.limit {
            let Some(oldest) = seen.groups.pop_front() else { break };
            seen.bytes = seen.bytes.saturating_sub(oldest.bytes);
            seen.share = (seen.share + oldest.share.min(1.0)) / 2.0;
        }
        seen.share.max(of_group).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_reads_decode_the_whole_group() {
        let reuse = Reuse::new(100);
        for group in 0..50 {
            for _ in 0..10 {
                assert!(reuse.touch(group, 40, 1000, 100) >= 0.9);
            }
        }
    }

    #[test]
    fn random_reads_decode_pages_until_the_group_fits() {
        let reuse = Reuse::new(100);
        for step in 0..100 {
            reuse.touch(step * 7 % 50, 40, 1000, 1);
        }
        assert!(reuse.touch(3, 40, 1000, 1) < 0.01);
        for _ in 0..50 {
            reuse.touch(3, 40, 1000, 20);
        }
        assert!(reuse.touch(3, 40, 1000, 1) > 0.9);
    }
}
