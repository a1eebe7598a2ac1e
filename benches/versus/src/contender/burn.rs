//! burn's loader. How far its threads run ahead can't be set: it is 100 batches.

use burn_core::data::dataloader::DataLoaderBuilder;
use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataset::{Dataset, DatasetError};
use burn_core::tensor::Device;

use crate::THREADS;
use crate::measure::Meter;
use crate::workload::{Collated, Order, Sample, Workload, collate};

struct Samples(&'static Workload);

impl Dataset<Sample> for Samples {
    fn get(&self, index: usize) -> Result<Sample, DatasetError> {
        Ok(self.0.sample(index))
    }

    fn len(&self) -> usize {
        self.0.len
    }
}

struct Collate;

impl Batcher<Sample, Collated> for Collate {
    fn batch(&self, samples: Vec<Sample>, _device: &Device) -> Collated {
        collate(samples)
    }
}

pub fn run(workload: &'static Workload, order: Order, meter: &mut Meter) {
    let builder = DataLoaderBuilder::new(Collate).batch_size(workload.batch_size).num_workers(THREADS);
    let builder = if order == Order::Shuffled { builder.shuffle(7) } else { builder };
    let loader = builder.build(Samples(workload));
    while meter.next_epoch().is_some() {
        for batch in loader.iter() {
            let batch = batch.expect("the samples are there");
            meter.take(&batch.bytes, batch.labels.into_iter());
        }
    }
}
