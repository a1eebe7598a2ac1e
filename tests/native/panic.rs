//! Code of a dataset that panics: an error of its batch, which says which sample it was.

use std::sync::{Arc, Mutex};

use sluicegate::{
    BatchWriter, DType, DataLoader, Dataset, DatasetExt, Error, Field, ReadMany, Result, SampleWriter, Schema,
    SizesWriter, VariableSize,
};

/// How the samples of [`Cursed`] are read.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    OneByOne,
    AtOnce,
    /// It panics where samples are read together, and never where they are read alone.
    OnlyAtOnce,
    /// It panics where sizes are asked for.
    Sizes,
}

/// Twelve samples, of which number 7 panics with a lock held.
struct Cursed {
    way: Way,
    schema: Schema,
    lock: Mutex<()>,
}

impl Cursed {
    fn new(way: Way) -> Self {
        let field = match way {
            Way::Sizes => Field::variable("x", DType::UInt8, []),
            _ => Field::new("x", DType::UInt8, []),
        };
        Self { way, schema: Schema::new([field]), lock: Mutex::new(()) }
    }

    fn curse(&self, index: usize) {
        let _held = self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(index != 7, "index {index} is cursed");
    }
}

impl Dataset for Cursed {
    fn len(&self) -> usize {
        12
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        if self.way != Way::OnlyAtOnce {
            self.curse(index);
        }
        into.field(0).fill(index as u8);
        Ok(())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        matches!(self.way, Way::AtOnce | Way::OnlyAtOnce).then_some(self as &dyn ReadMany)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        (self.way == Way::Sizes).then_some(self as &dyn VariableSize)
    }
}

impl ReadMany for Cursed {
    fn read_many(&self, indices: &[usize], _into: &mut BatchWriter<'_>) -> Result<()> {
        indices.iter().for_each(|&index| self.curse(index));
        Ok(())
    }
}

impl VariableSize for Cursed {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        for (row, &index) in indices.iter().enumerate() {
            self.curse(index);
            into.set(row, 0, 1);
        }
        Ok(())
    }
}

/// The index that each of the batches of four samples panicked at, as the error says.
fn panics(dataset: impl Dataset + 'static, threads: usize) -> Vec<Option<Option<usize>>> {
    let loader = DataLoader::builder(dataset).batch_size(4).threads(threads).build().unwrap();
    let outcomes = loader.epoch(0).unwrap().map(|batch| match batch {
        Ok(_) => None,
        Err(error @ Error::Panic { index, .. }) => {
            let message = error.to_string();
            assert!(message.contains("panicked: index 7 is cursed"), "{message}");
            assert_eq!(message.contains("reading sample"), index.is_some(), "{message}");
            Some(index)
        }
        Err(other) => panic!("{other}"),
    });
    outcomes.collect()
}

#[test]
fn a_panic_has_the_index_of_its_sample() {
    for threads in [0, 2] {
        for way in [Way::OneByOne, Way::AtOnce, Way::Sizes] {
            assert_eq!(panics(Cursed::new(way), threads), [None, Some(Some(7)), None]);
            // The index is the one that the loader asked for, whoever it was that panicked.
            assert_eq!(panics(Cursed::new(way).skip(6), threads), [Some(Some(1)), None]);
        }
        assert_eq!(panics(Cursed::new(Way::OnlyAtOnce), threads), [None, Some(None), None]);
    }
}

#[test]
fn a_panic_in_a_closure_has_the_index_of_its_sample() {
    let schema = Schema::new([Field::new("x", DType::UInt8, [])]);
    for batched in [false, true] {
        let numbers: Arc<dyn Dataset> = match batched {
            true => Arc::new(sluicegate::InMemory::from_vec("x", (0..12_u8).collect(), []).unwrap()),
            false => Arc::new(crate::datasets::Numbers::new(12)),
        };
        let mapped = numbers.map(schema.clone(), |sample, _| {
            assert!(sample.index() != 7, "index 7 is cursed");
            Ok(())
        });
        assert_eq!(panics(mapped.unwrap(), 0), [None, Some(Some(7)), None]);
    }
}
