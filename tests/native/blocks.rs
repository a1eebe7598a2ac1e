//! Blocks that are read ahead: which, when, and how many.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use sluicegate::{
    BlockShuffleSampler, BlockSize, Blocks, Concat, DataLoader, DataLoaderBuilder, Dataset, InMemory, ReadMany, Result,
    SampleWriter, Schema, Stack, Subset,
};

const BLOCKS: usize = 24;
const SAMPLES: usize = 40;
const BATCH: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Announced(usize),
    Read(usize),
}

/// The numbers below `BLOCKS * SAMPLES` in blocks, with a record of all requests.
struct Blocked {
    numbers: InMemory,
    /// The number of blocks that fit into the cache.
    room: usize,
    events: Mutex<Vec<Event>>,
}

impl Blocked {
    fn new(room: usize) -> Arc<Self> {
        let numbers = (0..(BLOCKS * SAMPLES) as u64).collect();
        Arc::new(Self { numbers: InMemory::from_vec("number", numbers, []).unwrap(), room, events: Mutex::default() })
    }

    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    fn announced(&self) -> Vec<usize> {
        let events = self.events().into_iter();
        events.filter_map(|event| if let Event::Announced(block) = event { Some(block) } else { None }).collect()
    }
}

impl Dataset for Blocked {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn schema(&self) -> &Schema {
        self.numbers.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.note(Event::Read(index / SAMPLES));
        self.numbers.read(index, into)
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        None
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        Some(self)
    }
}

impl Blocks for Blocked {
    fn count(&self) -> usize {
        BLOCKS
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        if index < self.len() {
            visit(index / SAMPLES);
        }
    }

    fn size_of(&self, block: usize) -> BlockSize {
        assert!(block < BLOCKS);
        BlockSize { read: 50, kept: 100, limit: 100 * self.room }
    }

    fn announce(&self, block: usize) {
        self.note(Event::Announced(block));
    }
}

fn by_blocks(dataset: Arc<dyn Dataset>, window: usize) -> DataLoaderBuilder {
    let sampler = BlockShuffleSampler::new(dataset.len(), SAMPLES, window, 7).unwrap();
    DataLoader::builder(dataset).batch_size(BATCH).sampler(Arc::new(sampler))
}

/// Reads an epoch; returns the blocks of each window, in the order of windows.
fn read(loader: &DataLoader, window: usize) -> Vec<HashSet<usize>> {
    let mut order = Vec::new();
    for batch in loader.epoch(0).unwrap() {
        order.extend(batch.unwrap().to_vec::<u64>(0).unwrap().into_iter().map(|number| number as usize / SAMPLES));
    }
    assert_eq!(order.len(), BLOCKS * SAMPLES);
    order.chunks(window * SAMPLES).map(|window| window.iter().copied().collect()).collect()
}

#[test]
fn blocks_are_announced_once_in_plan_order_before_being_read() {
    for (window, room) in [(1, 2), (2, 3), (3, 8)] {
        let dataset = Blocked::new(room);
        let windows = read(&by_blocks(Arc::clone(&dataset) as _, window).build().unwrap(), window);
        let announced = dataset.announced();
        let of_window = |window: &[usize]| window.iter().copied().collect::<HashSet<_>>();
        assert!(announced.chunks(window).map(of_window).eq(windows), "{announced:?}");
        let (mut waiting, mut read, mut most) = (HashSet::new(), HashSet::new(), 0);
        for event in dataset.events() {
            match event {
                Event::Announced(block) => assert!(waiting.insert(block) && !read.contains(&block)),
                Event::Read(block) if read.insert(block) => assert!(waiting.remove(&block), "{block} is read"),
                _ => {}
            }
            most = most.max(waiting.len());
        }
        assert!((window.min(room - window)..=room).contains(&most), "{most} ahead in windows of {window}");
    }
}

#[test]
fn a_random_plan_larger_than_the_cache_announces_nothing() {
    let dataset = Blocked::new(3);
    let loader = DataLoader::builder(Arc::clone(&dataset)).batch_size(BATCH).shuffle(1).threads(2);
    assert_eq!(loader.build().unwrap().epoch(0).unwrap().count(), BLOCKS * SAMPLES / BATCH);
    assert_eq!(dataset.announced(), [0; 0]);
    // If everything fits, everything is needed.
    let dataset = Blocked::new(BLOCKS);
    let loader = DataLoader::builder(Arc::clone(&dataset)).batch_size(BATCH).shuffle(1).build().unwrap();
    assert_eq!(loader.epoch(0).unwrap().take(20).count(), 20);
    let announced = dataset.announced();
    assert_eq!(announced.iter().collect::<HashSet<_>>().len(), announced.len());
    assert!(announced.len() > BLOCKS / 2, "{announced:?}");
}

#[test]
fn a_resumed_epoch_announces_from_its_position() {
    let dataset = Blocked::new(4);
    let loader = by_blocks(Arc::clone(&dataset) as _, 2).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    assert_eq!(batches.by_ref().take(10 * SAMPLES / BATCH).count(), 10 * SAMPLES / BATCH);
    let state = batches.state();
    let passed: HashSet<usize> = dataset.announced()[..10].iter().copied().collect();
    dataset.events.lock().unwrap().clear();
    assert_eq!(loader.resume(&state).unwrap().count(), 14 * SAMPLES / BATCH);
    let announced = dataset.announced();
    assert_eq!(announced.len(), 14);
    assert!(announced.iter().all(|block| !passed.contains(block)));
}

/// Returns the blocks of sample `index`.
fn blocks_of(dataset: &dyn Dataset, index: usize) -> Vec<usize> {
    let mut found = Vec::new();
    dataset.as_blocks().unwrap().blocks_of(index, &mut |block| found.push(block));
    found
}

#[test]
fn combinators_have_the_blocks_of_their_parts() {
    let parts = [Blocked::new(3), Blocked::new(5)];
    let [first, second] = parts.clone().map(|part| part as Arc<dyn Dataset>);
    let plain =
        || Arc::new(InMemory::from_vec("number", vec![0_u64; BLOCKS * SAMPLES], []).unwrap()) as Arc<dyn Dataset>;
    let subset = Subset::new(Arc::clone(&first), vec![81, 0]).unwrap();
    assert_eq!([0, 1, 2].map(|index| blocks_of(&subset, index)), [vec![2], vec![0], vec![]]);
    let samples = BLOCKS * SAMPLES;
    let concat = Concat::new(vec![plain(), Arc::clone(&first), Arc::clone(&second)]).unwrap();
    let found = [0, samples, 2 * samples + SAMPLES, 3 * samples].map(|index| blocks_of(&concat, index));
    assert_eq!(found, [vec![], vec![0], vec![BLOCKS + 1], vec![]]);
    let named = |part: &Arc<dyn Dataset>, name: &str| (name.to_owned(), Arc::clone(part));
    let stack = Stack::new(vec![named(&first, "a"), ("b".into(), plain()), named(&second, "c")]).unwrap();
    assert_eq!([SAMPLES, samples].map(|index| blocks_of(&stack, index)), [vec![1, BLOCKS + 1], vec![]]);
    assert_eq!(subset.as_blocks().unwrap().count(), BLOCKS);
    for both in [&concat as &dyn Dataset, &stack] {
        let blocks = both.as_blocks().unwrap();
        assert_eq!(blocks.count(), 2 * BLOCKS);
        assert_eq!([3, BLOCKS + 3].map(|block| blocks.size_of(block).limit), [300, 500]);
        blocks.announce(BLOCKS + 4);
        // Blocks that do not exist.
        blocks.announce(2 * BLOCKS);
        assert_eq!(blocks.size_of(usize::MAX).limit, 0);
    }
    subset.as_blocks().unwrap().announce(1);
    assert_eq!(parts.map(|part| part.announced()), [vec![1], vec![4, 4]]);
    for none in
        [&Subset::new(plain(), vec![1]).unwrap() as &dyn Dataset, &Concat::new(vec![plain()]).unwrap(), &*plain()]
    {
        assert!(none.as_blocks().is_none());
    }
}
