//! The cost of an epoch's order: the time until its first batch, and a batch in the middle.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::{
    BatchSampler, BlockShuffleSampler, DistributedSampler, EpochBatches, LastBatch, MixtureSampler, MixtureWeights,
    RandomSampler, Remainder, Sampler, SequentialSampler, Shard, StopCriteria, SubsetRandomSampler, TorchRandomSampler,
    WeightedRandomSampler,
};

const BATCH_SIZE: usize = 256;

fn batches_of(sampler: Arc<dyn Sampler>) -> BatchSampler {
    BatchSampler::new(sampler, BATCH_SIZE, LastBatch::Keep).expect("the batch size is positive")
}

fn first_batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first_batch");
    group.sample_size(20);
    // A stored order is measured at a thousandth of the length, because its cost grows with the length.
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
    let random = RandomSampler::new(1_000_000, 7);
    let weights = (0..1_000_000).map(|index| f64::from(index % 1000));
    let weighted = WeightedRandomSampler::new(weights, 1_000_000, 7).expect("these are weights");
    let rank = Shard::new(1, 4).expect("the rank exists");
    let blocks = BlockShuffleSampler::new(1_000_000, 1000, 16, 7).expect("blocks are positive");
    let sizes = (0..1000).map(|block| 500 + block * 37 % 1000);
    let uneven = BlockShuffleSampler::with_blocks(sizes, 16, 7).expect("the window is positive");
    let mixture_weights = MixtureWeights::constant([5.0, 1.0, 1.0]);
    let forever = StopCriteria::CycleForever(1_000_000);
    let mixture = MixtureSampler::new(&[500_000, 250_000, 250_000], &mixture_weights, forever, 7).expect("it ends");
    let samplers: [(&str, Arc<dyn Sampler>); 10] = [
        ("sequential", Arc::new(SequentialSampler::new(1_000_000))),
        ("random", Arc::new(random.clone())),
        ("replacement", Arc::new(random.clone().with_replacement())),
        ("subset", Arc::new(SubsetRandomSampler::new((0..1_000_000).rev(), 7))),
        ("weighted", Arc::new(weighted)),
        ("distributed", Arc::new(DistributedSampler::new(Arc::new(random), rank, Remainder::Pad))),
        ("block_shuffle", Arc::new(blocks)),
        ("uneven_block_shuffle", Arc::new(uneven)),
        ("mixture", Arc::new(mixture)),
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

fn alias_table(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alias_table");
    let weights: Vec<f64> = (0..1_000_000_u64).map(|index| (index * 7919 % 1_000_003) as f64).collect();
    group.throughput(Throughput::Elements(weights.len() as u64));
    group.sample_size(20);
    group.bench_function("new/1000000", |bencher| {
        bencher.iter(|| WeightedRandomSampler::new(weights.iter().copied(), 1, 7).map(|_| ()));
    });
    group.finish();
}

criterion_group!(benches, first_batch, batch, alias_table);
criterion_main!(benches);
