//! The cost of a batch of small samples in addition to copying them.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use sluicegate::{DataLoader, InMemory, ItemLoader, Permutation};

use crate::THREADS;

const LEN: usize = 1 << 16;
const BATCH: usize = 256;
/// Epochs per measurement; the fastest one counts.
const EPOCHS: u64 = 200;

/// Returns a line with the result, for both of our loaders.
pub fn measure() -> String {
    let values: &'static [i64] = (0..LEN as i64).collect::<Vec<_>>().leak();
    let copy = quickest(|epoch| {
        // Made before the measurement: making an order is part of what a loader costs.
        let order = Permutation::new(LEN as u64, 7, epoch);
        let indices: Vec<usize> = (0..LEN as u64).map(|position| order.index_at(position) as usize).collect();
        let mut batch = vec![0; BATCH];
        let start = Instant::now();
        for indices in indices.chunks(BATCH) {
            batch.iter_mut().zip(indices).for_each(|(value, &index)| *value = values[index]);
            black_box(&batch);
        }
        start
    });
    let dataset = Arc::new(InMemory::from_vec("x", values.to_vec(), []).expect("they fill rows"));
    let fields =
        DataLoader::builder(dataset).batch_size(BATCH).shuffle(7).threads(THREADS).build().expect("it is sound");
    let of_fields = quickest(|epoch| {
        let start = Instant::now();
        for batch in fields.epoch(epoch).expect("it can be ordered") {
            black_box(batch.expect("it is there").bytes(0));
        }
        start
    });
    let items = ItemLoader::builder(values, |items: Vec<&i64>| Ok(items.into_iter().copied().collect::<Vec<i64>>()));
    let items = items.batch_size(BATCH).shuffle(7).threads(THREADS).build().expect("it is sound");
    let of_items = quickest(|epoch| {
        let start = Instant::now();
        for batch in items.epoch(epoch).expect("it can be ordered") {
            black_box(&batch.expect("it is there")[..]);
        }
        start
    });
    format!(
        "A batch of {BATCH} shuffled samples of 8 bytes: {of_fields:.2} µs with fields, {of_items:.2} µs with items; the copy \
         alone, in an order that is known before, takes {copy:.2} µs."
    )
}

/// Returns microseconds per batch: `run` runs an epoch, and returns when it began.
fn quickest(run: impl Fn(u64) -> Instant) -> f64 {
    let quickest = (0..EPOCHS).map(|epoch| run(epoch).elapsed()).min().expect("there are some");
    quickest.as_secs_f64() * 1e6 / (LEN / BATCH) as f64
}
