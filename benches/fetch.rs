//! The cost of fetching a batch on one thread: each kind of rows, next to a plain gather of as many bytes as the limit.

use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use sluicegate::internal::{Array, Fetch, FetchSamples, IndexBatch, Segment, Slab};
use sluicegate::{DType, Dataset, Field, InMemory, Permutation, StackSamples};

/// Large enough that hardly any row is in a cache when it is read.
const SOURCE_BYTES: usize = 256 << 20;

/// One array of a dataset: the shape of its samples, and the strides of all axes, in bytes.
struct Rows {
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl Rows {
    fn dense(shape: &[usize]) -> Self {
        let bytes = shape.iter().product();
        let steps = shape.iter().scan(bytes, |stride, size| {
            *stride /= size;
            Some(*stride)
        });
        Self { shape: shape.to_vec(), strides: std::iter::once(bytes).chain(steps).collect() }
    }

    fn bytes(&self) -> usize {
        self.shape.iter().product()
    }
}

fn batches(len: usize, batch_size: usize, shuffle: bool) -> Vec<Vec<usize>> {
    let order = Permutation::new(len as u64, 7, 0);
    let at = |position: usize| if shuffle { order.index_at(position as u64) as usize } else { position };
    let positions: Vec<usize> = (0..len - len % batch_size).map(at).collect();
    positions.chunks(batch_size).map(<[usize]>::to_vec).collect()
}

/// Measures batches of `batch_size` samples with `fields`, and a plain gather of dense rows with as many bytes.
fn compare(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    fields: &[Rows],
    batch_size: usize,
    (len, shuffle): (usize, bool),
) {
    let row_bytes: usize = fields.iter().map(Rows::bytes).sum();
    let batches = batches(len, batch_size, shuffle);
    group.throughput(Throughput::Bytes((row_bytes * batch_size) as u64));

    let arrays = fields.iter().enumerate().map(|(number, rows)| {
        let shape: Vec<usize> = std::iter::once(len).chain(rows.shape.iter().copied()).collect();
        let segment = Arc::new(Segment::from_vec(vec![1_u8; len * rows.strides[0]]));
        let array = Array::new(segment, 0, 1, &shape, &rows.strides).expect("the rows lie in their segment");
        (Field::new(number.to_string(), DType::UInt8, rows.shape.clone()), array)
    });
    let dataset: Arc<dyn Dataset> = Arc::new(InMemory::new(arrays.collect()).expect("the arrays have one length"));
    let fetch = FetchSamples::new(dataset, Arc::new(StackSamples), Arc::new(Slab::new(4)));
    let index_batches: Vec<IndexBatch> = batches
        .iter()
        .map(|indices| IndexBatch { epoch: 0, batch_in_epoch: 0, indices: indices.clone(), draws: None })
        .collect();
    let mut next = index_batches.iter().cycle();
    group.bench_function(format!("{name}/fetch"), |bencher| {
        bencher.iter(|| fetch.fetch(next.next().expect("it goes round")).expect("the samples are there"));
    });
    drop((fetch, index_batches));

    let sources: Vec<(usize, Vec<u8>)> =
        fields.iter().map(|rows| (rows.bytes(), vec![1_u8; len * rows.bytes()])).collect();
    let mut into: Vec<Vec<u8>> = sources.iter().map(|(bytes, _)| vec![0; bytes * batch_size]).collect();
    let mut next = batches.iter().cycle();
    group.bench_function(format!("{name}/memcpy"), |bencher| {
        bencher.iter(|| {
            let indices = next.next().expect("it goes round");
            for ((bytes, source), into) in sources.iter().zip(&mut into) {
                for (&index, row) in indices.iter().zip(into.chunks_exact_mut(*bytes)) {
                    row.copy_from_slice(&source[index * bytes..(index + 1) * bytes]);
                }
            }
            into[0][0]
        });
    });
}

fn fetch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fetch");
    group.sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let small = [Rows::dense(&[32]), Rows::dense(&[8])];
    compare(&mut group, "32B+8B_x256", &small, 256, (1_000_000, true));
    let image = [3, 64, 64];
    let many = SOURCE_BYTES / (3 * 64 * 64);
    compare(&mut group, "12KB_x256", &[Rows::dense(&image)], 256, (many, true));
    compare(&mut group, "12KB_x256_sequential", &[Rows::dense(&image)], 256, (many, false));
    let every_second = Rows { strides: vec![2 * 12_288, 4096, 64, 1], shape: image.to_vec() };
    compare(&mut group, "12KB_x256_every_second", &[every_second], 256, (many / 2, true));
    let channels_last = Rows { strides: vec![12_288, 1, 192, 3], shape: image.to_vec() };
    compare(&mut group, "12KB_x256_channels_last", &[channels_last], 256, (many, true));
    let crop = Rows { strides: vec![3 * 80 * 80, 80 * 80, 80, 1], shape: image.to_vec() };
    compare(&mut group, "12KB_x256_crop", &[crop], 256, (SOURCE_BYTES / (3 * 80 * 80), true));
    let photo = [3, 224, 224];
    compare(&mut group, "150KB_x64", &[Rows::dense(&photo)], 64, (SOURCE_BYTES / (3 * 224 * 224), true));
    group.finish();
}

criterion_group!(benches, fetch);
criterion_main!(benches);
