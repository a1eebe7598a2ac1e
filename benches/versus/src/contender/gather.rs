//! What two threads can copy: rows into reused buffers, with alternate batches on each thread. An upper bound, not a
//! loader: orders, running threads, and grown buffers exist before the measurement.

use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::indices;
use crate::measure::Meter;
use crate::workload::{Collated, Order, Workload};
use crate::{AHEAD, THREADS};

/// Number of orders made in advance, which are used in turn.
const ORDERS: u64 = 4;

/// The channels for batches from one thread to the consumer, and back.
struct Way {
    epochs: Sender<u64>,
    full: Receiver<Collated>,
    give_back: Sender<Collated>,
}

pub fn run(workload: &'static Workload, order: Order, meter: &mut Meter) {
    let orders: Vec<Vec<usize>> = (0..ORDERS).map(|epoch| indices(workload.len, order, epoch)).collect();
    thread::scope(|scope| {
        let orders = &orders;
        let ways = (0..THREADS).map(|thread| {
            let (epochs, next_epoch) = unbounded();
            let (send, full) = bounded(AHEAD / THREADS);
            let (give_back, empty) = unbounded();
            for _ in 0..=AHEAD / THREADS {
                let bytes = Vec::with_capacity(workload.batch_size * workload.sample_bytes);
                let _ = give_back.send(Collated { bytes, labels: Vec::with_capacity(workload.batch_size) });
            }
            scope.spawn(move || {
                for epoch in next_epoch {
                    let order: &Vec<usize> = &orders[(epoch % ORDERS) as usize];
                    for batch in order.chunks(workload.batch_size).skip(thread).step_by(THREADS) {
                        if !empty.recv().is_ok_and(|into| send.send(gather(workload, batch, into)).is_ok()) {
                            return;
                        }
                    }
                }
            });
            Way { epochs, full, give_back }
        });
        let ways: Vec<_> = ways.collect();
        while let Some(epoch) = meter.next_epoch() {
            ways.iter().for_each(|way| way.epochs.send(epoch).expect("the thread waits for it"));
            for number in 0..workload.len.div_ceil(workload.batch_size) {
                let way = &ways[number % THREADS];
                let batch = way.full.recv().expect("every batch is sent");
                meter.take(&batch.bytes, batch.labels.iter().copied());
                way.give_back.send(batch).expect("the thread waits for it");
            }
        }
    });
}

fn gather(workload: &Workload, batch: &[usize], mut into: Collated) -> Collated {
    into.bytes.clear();
    into.labels.clear();
    for &index in batch {
        into.bytes.extend_from_slice(workload.stored(index));
        into.labels.push(index as i64);
    }
    into
}
