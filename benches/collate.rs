//! The cost of laying out a batch, which is paid once per batch, whatever its size.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::{Collate, DType, Field, Schema, Sizes, StackSamples};

fn layout(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("collate");
    group.throughput(Throughput::Elements(1));
    for fields in [1, 2, 16] {
        let fields: Vec<Field> =
            (0..fields).map(|field| Field::new(format!("field_{field}"), DType::Float32, [3, 64, 64])).collect();
        let schema = Schema::new(fields);
        group.bench_function(BenchmarkId::new("stack_samples", schema.fields().len()), |bencher| {
            bencher.iter(|| StackSamples.layout(black_box(&schema), &Sizes::fixed(black_box(256))));
        });
    }
    group.finish();
}

criterion_group!(benches, layout);
criterion_main!(benches);
