//! The cost of randomness: an index of a computed order, an order stored like torch's, one draw, one sample's key.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::{Permutation, TorchGenerator, sample_key};

/// Epochs read positions in ascending order, so that is measured; a thousand indices per iteration.
const INDICES: u64 = 1000;

fn permutation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("permutation");
    // Just above a power of two the walk is longest; below 256 a table is used.
    let lens = [200, 257, 1_000_000, 1_000_000_000, (1 << 30) + 1];
    for len in lens {
        let order = Permutation::new(len, 7, 0);
        group.throughput(Throughput::Elements(INDICES));
        group.bench_function(BenchmarkId::new("index_at", len), |bencher| {
            let mut position = 0;
            bencher.iter(|| {
                for _ in 0..INDICES {
                    black_box(order.index_at(position));
                    position = if position + 1 == len { 0 } else { position + 1 };
                }
            });
        });
    }
    for len in lens {
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("new", len), |bencher| {
            bencher.iter(|| Permutation::new(black_box(len), black_box(7), black_box(0)));
        });
    }
    group.finish();
}

/// Each index is the next position, so each waits for the previous one: this measures latency, not throughput.
fn permutation_chain(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("permutation_chain");
    for len in [1_000_000, 1_000_000_000, (1 << 30) + 1] {
        let order = Permutation::new(len, 7, 0);
        group.throughput(Throughput::Elements(INDICES));
        group.bench_function(BenchmarkId::new("index_at", len), |bencher| {
            bencher.iter(|| (0..INDICES).fold(0, |position, _| order.index_at(position)));
        });
    }
    group.finish();
}

fn torch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("torch");
    let mut generator = TorchGenerator::new(7);
    group.throughput(Throughput::Elements(1_000_000));
    group.sample_size(20);
    group.bench_function("randperm/1000000", |bencher| {
        bencher.iter(|| generator.randperm(1_000_000).expect("there is memory for it"));
    });
    group.bench_function("random_u32/1000000", |bencher| {
        bencher.iter(|| (0..1_000_000).fold(0, |sum: u32, _| sum.wrapping_add(generator.random_u32())));
    });
    group.bench_function("skip/1000000", |bencher| bencher.iter(|| generator.skip(black_box(1_000_000))));
    group.finish();
}

fn key(criterion: &mut Criterion) {
    criterion.bench_function("sample_key", |bencher| {
        bencher.iter(|| sample_key(black_box(7), black_box(3), black_box(42)));
    });
}

criterion_group!(benches, permutation, permutation_chain, torch, key);
criterion_main!(benches);
