//! ai-dataloader: reads the samples of a batch in parallel when it is requested, and none before.

use ai_dataloader::collate::{Collate, DefaultCollate};
use ai_dataloader::indexable::DataLoader;
use ai_dataloader::{Dataset, GetSample, Len};

use crate::THREADS;
use crate::measure::Meter;
use crate::workload::{Collated, Order, Sample, Workload, collate};

struct Samples(&'static Workload);

impl Len for Samples {
    fn len(&self) -> usize {
        self.0.len
    }
}

impl GetSample for Samples {
    type Sample = Sample;

    fn get_sample(&self, index: usize) -> Sample {
        self.0.sample(index)
    }
}

impl Dataset for Samples {}

impl Collate<Sample> for DefaultCollate {
    type Output = Collated;

    fn collate(&self, samples: Vec<Sample>) -> Collated {
        collate(samples)
    }
}

pub fn run(workload: &'static Workload, order: Order, meter: &mut Meter) {
    let builder = DataLoader::builder(Samples(workload)).batch_size(workload.batch_size).num_threads(THREADS);
    match order {
        Order::Shuffled => {
            let loader = builder.shuffle().build();
            while meter.next_epoch().is_some() {
                loader.iter().for_each(|batch| meter.take(&batch.bytes, batch.labels.into_iter()));
            }
        }
        Order::Sequential => {
            let loader = builder.build();
            while meter.next_epoch().is_some() {
                loader.iter().for_each(|batch| meter.take(&batch.bytes, batch.labels.into_iter()));
            }
        }
    }
}
