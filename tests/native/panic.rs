//! User code that panics. In a dataset it is an error of its batch, which names the sample; in a sampler it is the
//! epoch's last error; when a batch is dropped, or blocks are only announced, it is discarded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sluicegate::{
    BatchWriter, BlockSize, Blocks, DType, DataLoader, Dataset, DatasetExt, EpochOrder, Error, Field, ItemLoader,
    ReadMany, Result, SampleWriter, Sampler, Schema, SizesWriter, VariableSize,
};

/// When the samples of [`Cursed`] panic.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    OneByOne,
    AtOnce,
    /// When samples are read together, and never when they are read alone.
    OnlyAtOnce,
    /// When sizes are queried.
    Sizes,
    /// When blocks are queried, which happens only to announce them.
    Blocks,
}

/// Twelve samples, of which number 7 panics while holding a lock.
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
        if !matches!(self.way, Way::OnlyAtOnce | Way::Blocks) {
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

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        (self.way == Way::Blocks).then_some(self as &dyn Blocks)
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

impl Blocks for Cursed {
    fn count(&self) -> usize {
        3
    }

    fn blocks_of(&self, index: usize, _visit: &mut dyn FnMut(usize)) {
        panic!("the block of {index} is cursed");
    }

    fn size_of(&self, block: usize) -> BlockSize {
        panic!("the size of {block} is cursed");
    }

    fn announce(&self, block: usize) {
        panic!("to announce {block} is cursed");
    }
}

/// Returns the index at which each of the batches of four samples panicked, according to the error.
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
            // The index is the one that the loader requested, whichever layer panicked.
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

/// A batch whose drop panics on demand.
struct Spiteful(Arc<AtomicBool>);

impl Drop for Spiteful {
    fn drop(&mut self) {
        assert!(!self.0.load(Ordering::Relaxed) || thread::panicking(), "the end of a batch is cursed");
    }
}

#[test]
fn a_panic_in_an_untaken_batch_is_ignored() {
    let is_armed = Arc::new(AtomicBool::new(false));
    let collate = |is_armed: &Arc<AtomicBool>| {
        let is_armed = Arc::clone(is_armed);
        move |_: Vec<&usize>| {
            // Worth a thread, and some are in flight when the epoch is dropped.
            thread::sleep(Duration::from_millis(2));
            Ok(Spiteful(Arc::clone(&is_armed)))
        }
    };
    let numbers: Vec<usize> = (0..12).collect();
    thread::scope(|scope| {
        let builder = || ItemLoader::builder(&numbers[..], collate(&is_armed)).prefetch(4);
        for loader in [builder().scoped_threads(scope, 1), builder().scoped_threads(scope, 2)] {
            let loader = loader.build().unwrap();
            for wait in [0, 1, 5, 9] {
                let mut epoch = loader.epoch(0).unwrap();
                drop(epoch.next());
                thread::sleep(Duration::from_millis(wait));
                is_armed.store(true, Ordering::Relaxed);
                drop(epoch);
                is_armed.store(false, Ordering::Relaxed);
                assert_eq!(loader.epoch(1).unwrap().filter(Result::is_ok).count(), 12, "the threads are still there");
            }
        }
    });
    let loader = ItemLoader::builder(numbers, move |_: Vec<usize>| {
        thread::sleep(Duration::from_millis(2));
        Ok(Spiteful(Arc::new(AtomicBool::new(true))))
    });
    let loader = loader.threads(2).build().unwrap();
    let mut epoch = loader.epoch(0).unwrap();
    std::mem::forget(epoch.next());
    thread::sleep(Duration::from_millis(9));
    drop(epoch);
}

/// Panics at position 5.
struct CursedSampler;

impl Sampler for CursedSampler {
    fn order(&self, _epoch: u64) -> Result<Box<dyn EpochOrder>> {
        Ok(Box::new(Self))
    }
}

impl EpochOrder for CursedSampler {
    fn len(&self) -> usize {
        12
    }

    fn index_at(&self, position: usize) -> usize {
        assert!(position != 5, "position 5 is cursed");
        position
    }
}

#[test]
fn a_panic_in_a_sampler_ends_the_epoch_with_an_error() {
    for threads in [0, 2] {
        let builder = DataLoader::builder(crate::datasets::Numbers::new(12)).batch_size(2).threads(threads);
        let loader = builder.sampler(Arc::new(CursedSampler)).build().unwrap();
        let mut epoch = loader.epoch(0).unwrap();
        // In its place, whether or not it was encountered while fetching ahead.
        let outcomes: Vec<_> = epoch.by_ref().collect();
        let [Ok(_), Ok(_), Err(Error::Panic { index: None, message })] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!(message, "order of batch 2: position 5 is cursed");
        assert_eq!((epoch.state().batches_received(), epoch.len()), (2, 0));
        assert!(loader.resume(&epoch.state()).unwrap().all(|batch| matches!(batch, Err(Error::Panic { .. }))));
    }
}

#[test]
fn a_panic_while_announcing_belongs_to_no_batch() {
    for threads in [0, 2] {
        assert_eq!(panics(Cursed::new(Way::Blocks), threads), [None, None, None]);
    }
}
