//! What one would write without a loader: a rayon pool, a channel, and a map that restores the order of batches.

use std::collections::BTreeMap;

use rayon::ThreadPoolBuilder;

use super::indices;
use crate::measure::Meter;
use crate::workload::{Order, Workload, collate};
use crate::{AHEAD, THREADS};

pub fn run(workload: &'static Workload, order: Order, meter: &mut Meter) {
    let pool = ThreadPoolBuilder::new().num_threads(THREADS).build().expect("threads can be started");
    while let Some(epoch) = meter.next_epoch() {
        let indices = indices(workload.len, order, epoch);
        let (sender, receiver) = crossbeam_channel::bounded(AHEAD);
        let mut waiting = indices.chunks(workload.batch_size).map(<[usize]>::to_vec).enumerate();
        let mut start = || {
            if let Some((number, batch)) = waiting.next() {
                let sender = sender.clone();
                pool.spawn(move || {
                    let samples = batch.into_iter().map(|index| workload.sample(index)).collect();
                    let _ = sender.send((number, collate(samples)));
                });
            }
        };
        (0..AHEAD).for_each(|_| start());
        let mut early = BTreeMap::new();
        for number in 0..workload.len.div_ceil(workload.batch_size) {
            let batch = loop {
                if let Some(batch) = early.remove(&number) {
                    break batch;
                }
                let (number, batch) = receiver.recv().expect("every batch is sent");
                early.insert(number, batch);
            };
            start();
            meter.take(&batch.bytes, batch.labels.into_iter());
        }
    }
}
