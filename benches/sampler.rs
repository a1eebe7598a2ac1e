//! What an epoch's order costs: the time to its first batch, and a batch in its midst.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::{
    BatchSampler, EpochBatches, LastBatch, RandomSampler, Sampler, SequentialSampler, TorchRandomSampler,
};

const BATCH_SIZE: usize = 256;

fn batches_of(sampler: Arc<dyn Sampler>) -> BatchSampler {
    BatchSampler::new(sampler, BATCH_SIZE, LastBatch::Keep).expect("the batch size is positive")
}

fn first_batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first_batch");
    group.sample_size(20);
    // An order that is stored is measured at a thousandth of the length: its cost grows with it.
    let samplers: [(&str, usize, Arc<dyn Sampler>); 3] = [
        ("sequential", 1_000_000_000, Arc::new(SequentialSampler::new(1_000_000_000))),
        ("random", 1_000_000_000, Arc::new(RandomSampler::new(1_000_000_000, 7))),
        ("torch_random", 1_000_000, Arc::new(TorchRandomSampler::new(1_000_000, 7))),
    ];
    for (name, len, sampler) in samplers {
        let batches = batches_of(sampler);
        let mut indices = Vec::with_capacity(BATCH_SIZE);
        group.bench_function(BenchmarkId::new(name, len), |bencher| {
            bencher.iter(|| {
                let order = batches.order(black_box(0)).expect("the order can be made");
                order.indices(0, &mut indices);
                indices.last().copied()
            });
        });
    }
    group.finish();
}

fn batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch_of_256");
    group.throughput(Throughput::Elements(BATCH_SIZE as u64));
    let samplers: [(&str, Arc<dyn Sampler>); 3] = [
        ("sequential", Arc::new(SequentialSampler::new(1_000_000))),
        ("random", Arc::new(RandomSampler::new(1_000_000, 7))),
        ("torch_random", Arc::new(TorchRandomSampler::new(1_000_000, 7))),
    ];
    for (name, sampler) in samplers {
        let order = batches_of(sampler).order(0).expect("the order can be made");
        let mut indices = Vec::with_capacity(BATCH_SIZE);
        let mut batch_in_epoch = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                batch_in_epoch = (batch_in_epoch + 1) % order.len();
                order.indices(batch_in_epoch, &mut indices);
                indices.last().copied()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, first_batch, batch);
criterion_main!(benches);
