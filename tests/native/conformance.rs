//! What every implementation of a trait must pass, ours or another's.

use std::thread;

use sluicegate::{EpochOrder, Sampler};

/// Asserts the contract of [`Sampler`] and [`EpochOrder`] for a sampler over `len` samples: its orders have indices in
/// range, are the same however they are asked for, and can be read by many threads at once.
///
/// A sampler need not give every index once; what it gives must be a pure function of the epoch.
pub(crate) fn sampler_conformance(sampler: &dyn Sampler, len: usize) {
    let epochs = [0, 1, 2, 5];
    let orders: Vec<Vec<usize>> = epochs.iter().map(|&epoch| indices(&*make(sampler, epoch))).collect();
    for index in orders.iter().flatten() {
        assert!(*index < len, "index {index} of {len} samples");
    }
    for (&epoch, expected) in epochs.iter().zip(&orders).rev() {
        let order = make(sampler, epoch);
        assert_eq!(order.len(), expected.len(), "epoch {epoch} changed its length");
        assert_eq!(order.is_empty(), expected.is_empty());
        let backwards: Vec<usize> = (0..order.len()).rev().map(|position| order.index_at(position)).collect();
        assert!(
            backwards.iter().rev().eq(expected),
            "epoch {epoch} depends on which epoch or position was asked for before"
        );
    }
    for (&epoch, expected) in epochs.iter().zip(&orders) {
        let order = make(sampler, epoch);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(&indices(&*order), expected, "epoch {epoch} differs between threads"));
                scope.spawn(|| assert_eq!(&indices(&*make(sampler, epoch)), expected, "epoch {epoch} was made anew"));
            }
        });
    }
}

fn make(sampler: &dyn Sampler, epoch: u64) -> Box<dyn EpochOrder> {
    sampler.order(epoch).expect("a sampler gives an order for every epoch")
}

fn indices(order: &dyn EpochOrder) -> Vec<usize> {
    (0..order.len()).map(|position| order.index_at(position)).collect()
}
