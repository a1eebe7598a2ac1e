//! [`Workload`]: the data that is loaded.

use std::borrow::Cow;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// The cost of decoding a sample, in the workload of that name.
const DECODE: Duration = Duration::from_micros(300);
/// In workloads with slow samples, the others cost one part in this many of it.
const FAST_PART: u64 = 3;
/// How long a slow sample takes; one sample in `ONE_IN` is slow.
const SLOW: Duration = Duration::from_millis(10);
const SLOWER: Duration = Duration::from_millis(30);
const ONE_IN: usize = 100;
/// Bytes of a generated sample.
const MADE_BYTES: usize = 3 * 32 * 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Small images in memory.
    Small,
    /// Rows of floats in a memory-mapped file that is in the page cache.
    Mapped,
    /// Samples that cost 300 µs of CPU.
    Decode,
    /// Samples that cost 100 µs of CPU, and one in a hundred that sleeps for 10 ms.
    Slow,
    /// Like `Slow`, but the slow samples are the first of the dataset, whose order is kept, as for validation.
    SlowFirst,
    /// Like `SlowFirst`, but the slow samples sleep for 30 ms.
    SlowerFirst,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Small, Self::Mapped, Self::Decode, Self::Slow, Self::SlowFirst, Self::SlowerFirst];

    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "w1",
            Self::Mapped => "w2",
            Self::Decode => "decode",
            Self::Slow => "slow",
            Self::SlowFirst => "slow-first",
            Self::SlowerFirst => "slower-first",
        }
    }

    /// Returns its description, for the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Small => "W1: 60,000 images of 28x28 bytes and a label, in memory, batches of 256",
            Self::Mapped => "W2: 65,536 rows of 1,024 floats, memory-mapped, in the page cache, batches of 256",
            Self::Decode => "Decode: 300 µs of CPU a sample, batches of 32",
            Self::Slow => "Head of line: 100 µs of CPU a sample, one in a hundred sleeps 10 ms, batches of 32",
            Self::SlowFirst => "The same, unshuffled, and the slow samples are the first of the dataset",
            Self::SlowerFirst => "The same, and each of them sleeps 30 ms",
        }
    }

    /// Returns the order in which it is measured.
    pub fn order(self) -> Order {
        if matches!(self, Self::SlowFirst | Self::SlowerFirst) { Order::Sequential } else { Order::Shuffled }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Random, and different in each epoch.
    Shuffled,
    Sequential,
}

/// A sample, as every contender receives it: data in memory is not copied.
#[derive(Debug, Clone)]
pub struct Sample {
    pub bytes: Cow<'static, [u8]>,
    /// The index of the sample.
    pub label: i64,
}

/// A batch, as every contender makes it, except our fields.
#[derive(Debug, Clone, Default)]
pub struct Collated {
    pub bytes: Vec<u8>,
    pub labels: Vec<i64>,
}

/// Like [`collate`], into an existing batch.
pub fn collate_into(samples: &[Sample], into: &mut Collated) {
    into.bytes.clear();
    into.labels.clear();
    samples.iter().for_each(|sample| into.bytes.extend_from_slice(&sample.bytes));
    into.labels.extend(samples.iter().map(|sample| sample.label));
}

pub fn collate(samples: Vec<Sample>) -> Collated {
    let mut bytes = Vec::with_capacity(samples.iter().map(|sample| sample.bytes.len()).sum());
    samples.iter().for_each(|sample| bytes.extend_from_slice(&sample.bytes));
    Collated { bytes, labels: samples.iter().map(|sample| sample.label).collect() }
}

/// Where samples are stored.
#[derive(Debug)]
enum Stored {
    /// Made at the first use: our fields have a separate array, and no process should need both.
    InMemory(LazyLock<Vec<u8>>),
    Mapped(memmap2::Mmap),
    Nowhere,
}

#[derive(Debug)]
pub struct Workload {
    pub kind: Kind,
    pub len: usize,
    pub batch_size: usize,
    pub sample_bytes: usize,
    /// The bytes of all samples, if they are in memory.
    stored: Stored,
    /// The file that is mapped.
    pub path: Option<PathBuf>,
    spins: u64,
}

impl Workload {
    /// Returns a workload in which decoding a sample costs `spins` rounds of work.
    pub fn new(kind: Kind, spins: u64) -> &'static Self {
        let (len, batch_size, sample_bytes) = match kind {
            Kind::Small => (60_000, 256, 28 * 28),
            Kind::Mapped => (65_536, 256, 4 * 1024),
            Kind::Decode => (4_000, 32, MADE_BYTES),
            Kind::Slow | Kind::SlowFirst | Kind::SlowerFirst => (6_400, 32, MADE_BYTES),
        };
        let (stored, path) = match kind {
            Kind::Small => (Stored::InMemory(LazyLock::new(small_images)), None),
            Kind::Mapped => {
                let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/rows.f32");
                if fs::metadata(&path).map_or(0, |file| file.len()) != (len * sample_bytes) as u64 {
                    let mut file = BufWriter::new(File::create(&path).expect("the file can be made"));
                    pattern(len * sample_bytes)
                        .for_each(|byte| file.write_all(&[byte]).expect("there is room on the disk"));
                }
                let file = File::open(&path).expect("the file was just made");
                // SAFETY: no other process writes to the file.
                let map = unsafe { memmap2::Mmap::map(&file) }.expect("it can be mapped");
                (Stored::Mapped(map), Some(path))
            }
            Kind::Decode | Kind::Slow | Kind::SlowFirst | Kind::SlowerFirst => (Stored::Nowhere, None),
        };
        Box::leak(Box::new(Self { kind, len, batch_size, sample_bytes, stored, path, spins }))
    }

    /// Returns the bytes of sample `index`, if they are stored.
    pub fn stored(&self, index: usize) -> &[u8] {
        let stored: &[u8] = match &self.stored {
            Stored::InMemory(bytes) => bytes,
            Stored::Mapped(map) => map,
            Stored::Nowhere => &[],
        };
        &stored[index * self.sample_bytes..][..self.sample_bytes]
    }

    /// Returns sample `index`.
    pub fn sample(&'static self, index: usize) -> Sample {
        let bytes = match self.kind {
            Kind::Small | Kind::Mapped => Cow::Borrowed(self.stored(index)),
            Kind::Decode | Kind::Slow | Kind::SlowFirst | Kind::SlowerFirst => {
                let mut bytes = vec![0; self.sample_bytes];
                self.make(index, &mut bytes);
                Cow::Owned(bytes)
            }
        };
        Sample { bytes, label: index as i64 }
    }

    /// Generates the bytes of a sample that is not stored.
    pub fn make(&self, index: usize, into: &mut [u8]) {
        let is_first = index < self.len / ONE_IN;
        let (slow, rounds) = match self.kind {
            Kind::Slow => (index.is_multiple_of(ONE_IN).then_some(SLOW), self.spins / FAST_PART),
            Kind::SlowFirst => (is_first.then_some(SLOW), self.spins / FAST_PART),
            Kind::SlowerFirst => (is_first.then_some(SLOWER), self.spins / FAST_PART),
            Kind::Small | Kind::Mapped | Kind::Decode => (None, self.spins),
        };
        if let Some(slow) = slow {
            thread::sleep(slow);
        }
        into.fill(spin(rounds, index as u64) as u8);
    }
}

/// Returns the bytes of the images of W1.
pub fn small_images() -> Vec<u8> {
    pattern(60_000 * 28 * 28).collect()
}

fn pattern(bytes: usize) -> impl Iterator<Item = u8> {
    (0..bytes).map(|byte| (byte % 251) as u8)
}

/// Not inlined: the address of a loop changes its cost by a few percent, and it must cost the same for all.
#[inline(never)]
fn spin(rounds: u64, seed: u64) -> u64 {
    (0..rounds).fold(seed | 1, |state, _| black_box(state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)))
}

/// Returns how many rounds take [`DECODE`]: work in rounds is the same for all, however busy the machine is.
pub fn calibrate() -> u64 {
    let rounds = 1 << 18;
    let quickest = (0..20).map(|seed| {
        let start = Instant::now();
        black_box(spin(rounds, seed));
        start.elapsed()
    });
    let quickest = quickest.min().expect("there are twenty");
    (rounds as f64 * DECODE.as_secs_f64() / quickest.as_secs_f64()) as u64
}
