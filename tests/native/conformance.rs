//! Checks that every implementation of a trait must pass, including those of users.

use std::ops::Range;
use std::thread;

use sluicegate::{
    BatchWriter, BatchingSampler, Collate, Column, DType, Dataset, EpochBatches, EpochOrder, Error, Field, Result,
    Sampler, Schema, Sizes, TorchGenerator,
};

/// Asserts the contract of [`Sampler`] and [`EpochOrder`] for a sampler over `len` samples: its orders have indices in
/// range, are the same whether positions are requested one by one or many at once, and can be read by many threads at
/// once.
///
/// A sampler need not yield every index once; its order must be a pure function of the epoch.
pub(crate) fn sampler_conformance(sampler: &dyn Sampler, len: usize) {
    let epochs = [0, 1, 2, 5];
    let orders: Vec<Vec<usize>> = epochs.iter().map(|&epoch| indices(&*make(sampler, epoch))).collect();
    for index in orders.iter().flatten() {
        assert!(*index < len, "index {index} of {len} samples");
    }
    for (&epoch, expected) in epochs.iter().zip(&orders).rev() {
        let order = make(sampler, epoch);
        assert_eq!(order.len(), expected.len(), "epoch {epoch} changed its length");
        assert_eq!(order.is_empty(), expected.is_empty());
        let backwards: Vec<usize> = (0..order.len()).rev().map(|position| order.index_at(position)).collect();
        assert!(
            backwards.iter().rev().eq(expected),
            "epoch {epoch} depends on which epoch or position was asked for before"
        );
    }
    let identity = sampler.identity();
    assert!(!identity.is_empty() && identity == sampler.identity());
    for (&epoch, expected) in epochs.iter().zip(&orders) {
        let order = make(sampler, epoch);
        blocks_agree(&*order, expected);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(&indices(&*order), expected, "epoch {epoch} differs between threads"));
                scope.spawn(|| assert_eq!(&indices(&*make(sampler, epoch)), expected, "epoch {epoch}, made again"));
            }
        });
    }
}

/// Asserts that blocks of positions, and positions a step apart, give the same indices as single positions, even after
/// an order has been read often enough to change how it computes.
pub(crate) fn blocks_agree(order: &dyn EpochOrder, expected: &[usize]) {
    let len = expected.len();
    for block in [1, 7, 64, 1000] {
        for start in (0..len).step_by(block) {
            let mut read = vec![usize::MAX; block.min(len - start)];
            order.indices(start, &mut read);
            assert_eq!(read, expected[start..start + read.len()], "from {start}");
        }
    }
    for step in [1, 2, 3, 16, len.max(1)] {
        for start in [0, 1, len / 2] {
            let mut read = vec![usize::MAX; len.saturating_sub(start).div_ceil(step)];
            order.indices_by(start, step, &mut read);
            let expected = expected.iter().copied().skip(start).step_by(step);
            assert!(read.into_iter().eq(expected), "from {start} by {step}");
        }
    }
    order.indices(len, &mut []);
}

fn make(sampler: &dyn Sampler, epoch: u64) -> Box<dyn EpochOrder> {
    sampler.order(epoch).expect("a sampler gives an order for every epoch")
}

fn indices(order: &dyn EpochOrder) -> Vec<usize> {
    (0..order.len()).map(|position| order.index_at(position)).collect()
}

/// Asserts the contract of [`BatchingSampler`] and [`EpochBatches`] for a sampler over `len` samples, as
/// [`sampler_conformance`] does for orders.
pub(crate) fn batching_sampler_conformance(sampler: &dyn BatchingSampler, len: usize) {
    let make = |epoch| sampler.batches(epoch).expect("a sampler gives batches for every epoch");
    let read = |batches: &dyn EpochBatches| -> Vec<Vec<usize>> {
        (0..batches.len()).map(|batch| batch_of(batches, batch)).collect()
    };
    assert!(!sampler.identity().is_empty() && sampler.identity() == sampler.identity());
    let epochs = [0, 1, 2, 5];
    let all: Vec<Vec<Vec<usize>>> = epochs.iter().map(|&epoch| read(&*make(epoch))).collect();
    assert!(all.iter().flatten().flatten().all(|&index| index < len));
    for (&epoch, expected) in epochs.iter().zip(&all).rev() {
        let batches = make(epoch);
        assert_eq!((batches.len(), batches.is_empty()), (expected.len(), expected.is_empty()));
        let backwards: Vec<_> = (0..batches.len()).rev().map(|batch| batch_of(&*batches, batch)).collect();
        assert!(backwards.iter().rev().eq(expected), "epoch {epoch} depends on what was asked for before");
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(&read(&*batches), expected, "epoch {epoch} differs between threads"));
                scope.spawn(|| assert_eq!(&read(&*make(epoch)), expected, "epoch {epoch}, made again"));
            }
        });
    }
}

fn batch_of(batches: &dyn EpochBatches, batch: usize) -> Vec<usize> {
    // Existing contents must be replaced.
    let mut indices = vec![usize::MAX; 3];
    batches.indices(batch, &mut indices);
    indices
}

/// Asserts the contract of [`Dataset`], and of its `ReadMany` and `Blocks` if it has those: `expected[index][field]`
/// are the bytes of every sample.
pub(crate) fn dataset_conformance(dataset: &dyn Dataset, expected: &[Vec<Vec<u8>>]) {
    assert_eq!((dataset.len(), dataset.is_empty()), (expected.len(), expected.is_empty()));
    assert_eq!(dataset.as_variable().is_some(), dataset.schema().is_variable(), "{}", dataset.schema());
    for sample in expected {
        let fits = |(field, bytes): (&Field, &Vec<u8>)| match field.is_variable() {
            true => bytes.len().is_multiple_of(field.bytes().max(1)),
            false => bytes.len() == field.bytes(),
        };
        assert_eq!(dataset.schema().fields().len(), sample.len());
        assert!(dataset.schema().fields().iter().zip(sample).all(fits), "{} of {sample:?}", dataset.schema());
    }
    let forwards: Vec<usize> = (0..expected.len()).collect();
    let backwards: Vec<usize> = forwards.iter().rev().copied().collect();
    thread::scope(|scope| {
        for indices in [&forwards, &backwards, &forwards, &backwards] {
            scope.spawn(|| reads_as(dataset, indices, expected));
        }
        scope.spawn(|| announces(dataset));
    });
    reads_as(dataset, &[], expected);
    if !expected.is_empty() {
        let mut generator = TorchGenerator::new(7);
        for rows in [1, 2, 3, 40] {
            let indices: Vec<usize> = (0..rows).map(|_| generator.random_u32() as usize % expected.len()).collect();
            reads_as(dataset, &indices, expected);
            reads_as(dataset, &vec![indices[0]; rows], expected);
        }
    }
    for beyond in [expected.len(), expected.len().saturating_add(1), usize::MAX] {
        refuses(dataset, &[beyond], expected.len());
        if !expected.is_empty() {
            refuses(dataset, &[0, beyond], expected.len());
        }
    }
}

/// Asserts that every sample is in existing blocks, each of which can be announced.
fn announces(dataset: &dyn Dataset) {
    let Some(blocks) = dataset.as_blocks() else { return };
    let mut found = Vec::new();
    for index in 0..dataset.len() {
        blocks.blocks_of(index, &mut |block| found.push(block));
    }
    assert!(found.iter().all(|&block| block < blocks.count()), "{found:?} of {} blocks", blocks.count());
    for &block in &found {
        blocks.announce(block);
        let size = blocks.size_of(block);
        assert!(size.read < 1 << 40 && size.kept < 1 << 40, "{size:?}");
    }
    found.clear();
    for beyond in [dataset.len(), usize::MAX] {
        blocks.blocks_of(beyond, &mut |block| found.push(block));
    }
    assert_eq!(found, [0; 0]);
}

/// Asserts that `indices` give the expected samples, read one by one or at once, whatever the memory contained before.
fn reads_as(dataset: &dyn Dataset, indices: &[usize], expected: &[Vec<Vec<u8>>]) {
    let expected: Vec<&Vec<Vec<u8>>> = indices.iter().map(|&index| &expected[index]).collect();
    for dirt in [0x00, 0x5a, 0xff] {
        let mut room =
            Room::new(dataset, indices, dirt).unwrap_or_else(|error| panic!("sizes of {indices:?}: {error}"));
        room.fill(|into| {
            indices.iter().enumerate().try_for_each(|(row, &index)| dataset.read(index, &mut into.sample(row)))
        })
        .unwrap_or_else(|error| panic!("samples {indices:?}: {error}"));
        assert!(room.samples().iter().eq(expected.iter().copied()), "samples {indices:?} read one by one");
        let Some(batched) = dataset.as_read_many() else { continue };
        let mut room = Room::new(dataset, indices, dirt).unwrap();
        room.fill(|into| batched.read_many(indices, into))
            .unwrap_or_else(|error| panic!("samples {indices:?}: {error}"));
        assert!(room.samples().iter().eq(expected.iter().copied()), "samples {indices:?} read at once");
    }
}

/// Asserts that the last of `indices` is rejected.
fn refuses(dataset: &dyn Dataset, indices: &[usize], samples: usize) {
    let beyond = indices[indices.len() - 1];
    let check = |result: Result<()>| match result {
        Err(Error::IndexOutOfRange { index, len }) => {
            assert!(index == beyond && len == samples, "index {index} of {len}, not {beyond} of {samples}");
        }
        other => panic!("index {beyond} of {samples} samples gave {other:?}"),
    };
    if dataset.schema().is_variable() {
        check(Room::new(dataset, indices, 0).map(drop));
    }
    // The room is for existing samples: only the index is wrong.
    let mut room = match samples {
        0 if dataset.schema().is_variable() => return,
        0 => Room::new(dataset, indices, 0),
        _ => Room::new(dataset, &vec![0; indices.len()], 0),
    }
    .unwrap();
    check(room.fill(|into| dataset.read(beyond, &mut into.sample(indices.len() - 1))));
    if let Some(batched) = dataset.as_read_many() {
        check(room.fill(|into| batched.read_many(indices, into)));
    }
}

/// Room for some samples surrounded by guard bytes: a window of rows and fields that has neighbors on every side.
struct Room {
    bytes: Vec<u8>,
    columns: Vec<Column>,
    rows: usize,
    dirt: u8,
}

impl Room {
    /// Returns room for the samples at `indices`, in a batch that has one more before them and one after.
    fn new(dataset: &dyn Dataset, indices: &[usize], dirt: u8) -> Result<Self> {
        let neighbor = Field::new("neighbor", DType::UInt8, [5]);
        let own = dataset.schema().fields().iter().cloned();
        let fields: Vec<Field> = [neighbor.clone()].into_iter().chain(own).chain([neighbor]).collect();
        let (rows, inner) = (indices.len(), 1..fields.len() - 1);
        let schema = Schema::new(fields);
        let mut sizes = Sizes::new(&schema, rows + 2);
        if let Some(variable) = dataset.as_variable() {
            variable.sizes(indices, &mut sizes.writer().rows_mut(1..rows + 1).fields_mut(inner))?;
        }
        let mut bytes = vec![dirt; 3];
        let columns = schema.fields().iter().enumerate().map(|(number, field)| {
            let width = field.bytes();
            let Some(elements) = sizes.elements(number) else {
                let offset = bytes.len();
                bytes.resize(offset + width * (rows + 2) + 3, dirt);
                return Column::Fixed { offset, bytes_per_sample: width };
            };
            // The neighbors have one element each.
            let sizes = [1].into_iter().chain(elements[1..rows + 1].iter().copied()).chain([1]);
            let (offsets, mut end) = (bytes.len(), 0);
            bytes.extend(0_i64.to_ne_bytes());
            for elements in sizes {
                end += elements;
                bytes.extend((end as i64).to_ne_bytes());
            }
            let offset = bytes.len();
            bytes.resize(offset + end * width + 3, dirt);
            Column::Variable { offset, bytes_per_element: width, offsets }
        });
        let columns = columns.collect();
        Ok(Self { bytes, columns, rows, dirt })
    }

    /// Returns the bytes of row `row` in a column, counting the neighbors.
    fn place(&self, column: &Column, row: usize) -> Range<usize> {
        match *column {
            Column::Fixed { offset, bytes_per_sample } => {
                let start = offset + bytes_per_sample * row;
                start..start + bytes_per_sample
            }
            Column::Variable { offset, bytes_per_element, offsets } => {
                let at = |row: usize| {
                    let number = &self.bytes[offsets + row * 8..offsets + row * 8 + 8];
                    offset + i64::from_ne_bytes(number.try_into().unwrap()) as usize * bytes_per_element
                };
                at(row)..at(row + 1)
            }
            Column::Padded { .. } => unreachable!("a room has no padding"),
        }
    }

    /// Lets `write` fill the window, and asserts that it stays inside.
    fn fill(&mut self, write: impl FnOnce(&mut BatchWriter<'_>) -> Result<()>) -> Result<()> {
        let inner = 1..self.columns.len() - 1;
        let before = self.bytes.clone();
        let mut all = BatchWriter::new(&mut self.bytes, &self.columns, self.rows + 2);
        let outcome = write(&mut all.rows_mut(1..self.rows + 1).fields_mut(inner.clone()));
        let mut outside = self.bytes.clone();
        for column in &self.columns[inner] {
            for row in 1..self.rows + 1 {
                outside[self.place(column, row)].fill(self.dirt);
            }
        }
        assert!(outside == before, "written outside of the room");
        outcome
    }

    fn samples(&self) -> Vec<Vec<Vec<u8>>> {
        let field = |column: &Column, row: usize| self.bytes[self.place(column, row + 1)].to_vec();
        let fields = &self.columns[1..self.columns.len() - 1];
        (0..self.rows).map(|row| fields.iter().map(|column| field(column, row)).collect()).collect()
    }
}

/// Asserts the contract of [`Collate`]: a pure layout with room for every field, aligned, without overlap, including
/// offsets and lengths.
pub(crate) fn collate_conformance(collate: &dyn Collate) {
    let schemas = [
        Schema::new([]),
        Schema::new([Field::new("x", DType::Float32, [8]), Field::new("y", DType::Int64, [])]),
        Schema::new([
            Field::new("flag", DType::Bool, []),
            Field::new("nothing", DType::Float64, [3, 0, 2]),
            Field::new("spectrum", DType::Complex128, [5]),
            Field::new("pixels", DType::UInt8, [3, 7, 5]),
        ]),
        Schema::new([
            Field::variable("x", DType::Float32, []),
            Field::variable("boxes", DType::Int32, [4]),
            Field::variable("text", DType::UInt8, []),
            Field::variable("empty", DType::Int64, [0]),
        ]),
    ];
    for schema in &schemas {
        for samples in [0, 1, 2, 255, 256, 1000] {
            let mut sizes = Sizes::new(schema, samples);
            for (number, field) in schema.fields().iter().enumerate().filter(|(_, field)| field.is_variable()) {
                (0..samples).for_each(|row| sizes.writer().set(row, number, row * field.bytes() % 7));
            }
            let layout = collate.layout(schema, &sizes).expect("a small batch can be laid out");
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| assert_eq!(collate.layout(schema, &sizes).ok().as_ref(), Some(&layout)));
                }
            });
            assert_eq!(layout.samples, samples);
            assert_eq!((layout.columns.len(), layout.fields.len()), (schema.fields().len(), schema.fields().len()));
            let mut taken = vec![false; layout.bytes];
            let mut take = |start: usize, bytes: usize, alignment: usize| {
                assert!(bytes == 0 || start.is_multiple_of(alignment), "byte {start} is not aligned");
                for byte in &mut taken[start..start + bytes] {
                    assert!(!std::mem::replace(byte, true), "two fields overlap");
                }
            };
            for (number, (column, batch)) in layout.columns.iter().zip(&layout.fields).enumerate() {
                let field = &schema.fields()[number];
                assert_eq!((batch.name.as_str(), batch.dtype), (field.name(), field.dtype()));
                assert!(batch.shape.ends_with(field.shape()));
                let bytes = batch.shape.iter().product::<usize>() * batch.dtype.bytes();
                take(column.offset(), bytes, field.dtype().bytes());
                let elements = sizes.elements(number).unwrap_or_default();
                match *column {
                    Column::Fixed { bytes_per_sample, .. } => {
                        assert_eq!(batch.shape.first(), Some(&samples), "the first axis counts the samples");
                        assert!(!field.is_variable() && bytes_per_sample == field.bytes());
                    }
                    Column::Variable { offsets, .. } => {
                        assert_eq!(batch.shape.first(), Some(&elements.iter().sum()));
                        take(offsets, (samples + 1) * 8, 8);
                    }
                    Column::Padded { lengths, .. } => {
                        let longest = elements.iter().copied().max().unwrap_or(0);
                        assert_eq!(batch.shape[..2], [samples, longest]);
                        take(lengths, samples * 8, 8);
                    }
                }
            }
        }
    }
}
