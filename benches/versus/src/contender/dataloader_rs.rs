//! dataloader-rs.

use dataloader_rs::{Collator, DataLoader, Dataset, RandomSampler, Result, Sampler};

use crate::measure::Meter;
use crate::workload::{Collated, Order, Sample, Workload, collate};
use crate::{AHEAD, THREADS};

struct Samples(&'static Workload);

impl Dataset for Samples {
    type Item = Sample;

    fn get(&self, index: usize) -> Result<Sample> {
        Ok(self.0.sample(index))
    }

    fn len(&self) -> usize {
        self.0.len
    }
}

struct Collate;

impl Collator<Sample> for Collate {
    type Batch = Collated;

    fn collate(&self, samples: Vec<Sample>) -> Result<Collated> {
        Ok(collate(samples))
    }
}

pub fn run(workload: &'static Workload, order: Order, meter: &mut Meter) {
    let builder = DataLoader::builder(Samples(workload)).batch_size(workload.batch_size).collator(Collate);
    // Each worker holds one more batch.
    let builder = builder.num_workers(THREADS).prefetch_depth(AHEAD - THREADS);
    match order {
        Order::Shuffled => run_epochs(builder.sampler(RandomSampler::new(7)).build(), meter),
        Order::Sequential => run_epochs(builder.build(), meter),
    }
}

fn run_epochs<S: Sampler>(mut loader: DataLoader<Samples, S, Collate>, meter: &mut Meter) {
    while meter.next_epoch().is_some() {
        for batch in loader.iter() {
            let batch = batch.expect("the samples are there");
            meter.take(&batch.bytes, batch.labels.into_iter());
        }
    }
}
