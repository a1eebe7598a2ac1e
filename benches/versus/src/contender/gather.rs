//! What two threads can copy: rows into buffers that are used again, every other batch by each. A bound, and no loader.

use std::thread;

use super::indices;
use crate::THREADS;
use crate::measure::Meter;
use crate::workload::{Collated, Order, Workload};

pub fn run(workload: &'static Workload, order: Order, meter: &mut Meter) {
    while let Some(epoch) = meter.next_epoch() {
        let indices = indices(workload.len, order, epoch);
        thread::scope(|scope| {
            let channels = (0..THREADS).map(|thread| {
                let (full, take) = crossbeam_channel::bounded::<Collated>(1);
                let (give_back, empty) = crossbeam_channel::unbounded::<Collated>();
                let batches = indices.chunks(workload.batch_size).skip(thread).step_by(THREADS);
                scope.spawn(move || {
                    for batch in batches {
                        let fresh = || Collated { bytes: Vec::new(), labels: Vec::new() };
                        let mut into = empty.try_recv().unwrap_or_else(|_| fresh());
                        into.bytes.clear();
                        into.labels.clear();
                        for &index in batch {
                            into.bytes.extend_from_slice(
                                &workload.stored[index * workload.sample_bytes..][..workload.sample_bytes],
                            );
                            into.labels.push(index as i64);
                        }
                        let _ = full.send(into);
                    }
                });
                (take, give_back)
            });
            let channels: Vec<_> = channels.collect();
            for number in 0..workload.len.div_ceil(workload.batch_size) {
                let (take, give_back) = &channels[number % THREADS];
                let batch = take.recv().expect("every batch is sent");
                meter.take(&batch.bytes, batch.labels.iter().copied());
                let _ = give_back.send(batch);
            }
        });
    }
}
