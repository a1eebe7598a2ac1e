//! Our loader of items, with a collate that allocates each batch, and with one that reuses earlier batches.

use std::ops::Deref;

use sluicegate::{ItemDataset, ItemLoader, ItemLoaderBuilder, Result, reuse_batches};

use crate::measure::Meter;
use crate::workload::{Collated, Order, Sample, Workload, collate, collate_into};
use crate::{AHEAD, THREADS};

struct Samples(&'static Workload);

impl ItemDataset for Samples {
    type Item = Sample;

    fn len(&self) -> usize {
        self.0.len
    }

    fn item(&self, index: usize) -> Result<Sample> {
        Ok(self.0.sample(index))
    }
}

pub fn run(workload: &'static Workload, order: Order, meter: &mut Meter) {
    let builder = ItemLoader::builder(Samples(workload), |samples| Ok(Box::new(collate(samples))));
    run_epochs(builder, workload, order, meter);
}

pub fn run_reusing(workload: &'static Workload, order: Order, meter: &mut Meter) {
    let collate = reuse_batches(|samples: Vec<Sample>, into: &mut Collated| {
        collate_into(&samples, into);
        Ok(())
    });
    run_epochs(ItemLoader::builder(Samples(workload), collate), workload, order, meter);
}

fn run_epochs<B>(builder: ItemLoaderBuilder<'static, B>, workload: &Workload, order: Order, meter: &mut Meter)
where
    B: Deref<Target = Collated> + Send + 'static,
{
    let builder = builder.batch_size(workload.batch_size).threads(THREADS).prefetch(AHEAD / THREADS);
    let builder = if order == Order::Shuffled { builder.shuffle(7) } else { builder };
    let loader = builder.build().expect("the settings are sound");
    while let Some(epoch) = meter.next_epoch() {
        for batch in loader.epoch(epoch).expect("the epoch can be ordered") {
            let batch = batch.expect("the samples are there");
            meter.take(&batch.bytes, batch.labels.iter().copied());
        }
    }
}
