//! The cost of an epoch for the consumer, and the time until its first batch.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::{DType, DataLoader, Dataset, Field, InMemory, Npy, Result, SampleWriter, Schema, Stack};
use tempfile::NamedTempFile;

fn run_epoch(loader: &DataLoader, epoch: u64) -> usize {
    let batches = loader.epoch(epoch).expect("the epoch can be ordered");
    batches.map(|batch| batch.expect("the samples are there").samples()).sum()
}

fn measure_epochs(criterion: &mut Criterion, name: &str, dataset: &Arc<dyn Dataset>, batch_size: usize) {
    let mut group = criterion.benchmark_group("epoch");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    group.throughput(Throughput::Elements(dataset.len() as u64));
    for threads in [0, 2] {
        let builder = DataLoader::builder(Arc::clone(dataset)).batch_size(batch_size).shuffle(7).threads(threads);
        let loader = builder.build().expect("the settings are sound");
        let mut epoch = 0;
        group.bench_function(BenchmarkId::new(name, format!("{threads}_threads")), |bencher| {
            bencher.iter(|| {
                epoch += 1;
                run_epoch(&loader, epoch)
            });
        });
    }
    group.finish();
}

/// A million points of eight floats with a label, in memory.
fn small_rows(criterion: &mut Criterion) {
    let len = 1_000_000;
    let point = InMemory::from_vec("x", vec![1.0_f32; len * 8], [8]).expect("they fill rows");
    let label = InMemory::from_vec("y", vec![1_i64; len], []).expect("they fill rows");
    let parts: Vec<(String, Arc<dyn Dataset>)> = vec![("x".into(), Arc::new(point)), ("y".into(), Arc::new(label))];
    let dataset: Arc<dyn Dataset> = Arc::new(Stack::new(parts).expect("the parts have one length"));
    measure_epochs(criterion, "32B+8B_x256", &dataset, 256);
    measure_epochs(criterion, "32B+8B_x16", &dataset, 16);
}

/// Images of 3x64x64 in a file that is in the page cache, because it was just written.
fn file(criterion: &mut Criterion) {
    let (len, row) = (20_000, vec![7_u8; 3 * 64 * 64]);
    let file = NamedTempFile::new().expect("there is room for a file");
    let mut header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({len}, 3, 64, 64), }}");
    header = format!("{header:117}\n");
    let mut into = BufWriter::new(file.as_file());
    into.write_all(b"\x93NUMPY\x01\x00\x76\x00").and_then(|()| into.write_all(header.as_bytes())).expect("disk");
    (0..len).try_for_each(|_| into.write_all(&row)).and_then(|()| into.flush()).expect("there is room on the disk");
    let dataset: Arc<dyn Dataset> = Arc::new(Npy::open("image", file.path()).expect("the file was just written"));
    measure_epochs(criterion, "npy_12KB_x256", &dataset, 256);
}

/// Samples that are not stored.
struct Virtual(Schema);

impl Dataset for Virtual {
    fn len(&self) -> usize {
        1_000_000_000
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        into.field(0).copy_from_slice(&(index as u64).to_ne_bytes());
        Ok(())
    }
}

fn first_batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first_batch_of_10^9_shuffled");
    group.sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let dataset: Arc<dyn Dataset> = Arc::new(Virtual(Schema::new([Field::new("number", DType::UInt64, [])])));
    for threads in [0, 2] {
        group.bench_function(format!("{threads}_threads"), |bencher| {
            // A new loader each time, so that starting its threads is measured, too.
            bencher.iter(|| {
                let builder = DataLoader::builder(Arc::clone(&dataset)).batch_size(256).shuffle(7).threads(threads);
                let mut batches = builder.build().and_then(|loader| loader.epoch(1)).expect("the settings are sound");
                batches.next().map(|batch| batch.expect("the samples are there").samples())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, small_rows, file, first_batch);
criterion_main!(benches);
