//! Our loader of samples with fields.

use std::sync::Arc;

use sluicegate::{DType, DataLoader, Dataset, Field, InMemory, Raw, RawField, Result, SampleWriter, Schema, Stack};

use crate::measure::Meter;
use crate::workload::{Kind, Order, Workload, small_images};
use crate::{AHEAD, THREADS};

/// Samples that are generated when they are read.
struct Made {
    workload: &'static Workload,
    schema: Schema,
}

impl Dataset for Made {
    fn len(&self) -> usize {
        self.workload.len
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.workload.make(index, into.field(0));
        into.field(1).copy_from_slice(&(index as i64).to_ne_bytes());
        Ok(())
    }
}

fn dataset(workload: &'static Workload) -> Result<Arc<dyn Dataset>> {
    let labels = Arc::new(InMemory::from_vec("y", (0..workload.len as i64).collect(), [])?);
    let values: Arc<dyn Dataset> = match workload.kind {
        Kind::Small => Arc::new(InMemory::from_vec("x", small_images(), [28, 28])?),
        Kind::Mapped => {
            let path = workload.path.as_ref().expect("what is mapped has a file");
            let row = Field::new("x", DType::Float32, [workload.sample_bytes / 4]);
            Arc::new(Raw::open(path, 0, workload.sample_bytes, vec![RawField::new(row, 0)])?)
        }
        Kind::Decode | Kind::Slow | Kind::SlowFirst | Kind::SlowerFirst => {
            let fields = [Field::new("x", DType::UInt8, [workload.sample_bytes]), Field::new("y", DType::Int64, [])];
            return Ok(Arc::new(Made { workload, schema: Schema::new(fields) }));
        }
    };
    Ok(Arc::new(Stack::new(vec![("x".into(), values), ("y".into(), labels)])?))
}

pub fn run(workload: &'static Workload, order: Order, meter: &mut Meter) {
    let builder = DataLoader::builder(dataset(workload).expect("the data is sound")).batch_size(workload.batch_size);
    let builder = builder.threads(THREADS).prefetch(AHEAD / THREADS);
    let builder = if order == Order::Shuffled { builder.shuffle(7) } else { builder };
    let loader = builder.build().expect("the settings are sound");
    while let Some(epoch) = meter.next_epoch() {
        for batch in loader.epoch(epoch).expect("the epoch can be ordered") {
            let batch = batch.expect("the samples are there");
            let (labels, _) = batch.bytes(1).as_chunks::<8>();
            meter.take(batch.bytes(0), labels.iter().map(|label| i64::from_ne_bytes(*label)));
        }
    }
}
