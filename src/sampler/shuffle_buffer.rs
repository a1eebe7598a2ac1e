//! [`ShuffleBuffer`]: a random order for a stream whose samples can't be asked for by index.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rng::BufferDraws;

/// Decides which of the samples of a stream that are held comes next.
///
/// A stream is shuffled by holding some of its samples and giving one of them at random, in whose place the next one is
/// read. A sample comes at most one buffer earlier than it was read, and later by a number of samples that is one
/// buffer on average and has no bound. This type knows ordinals (the place of a sample in its stream, from 0) and never
/// the samples: whoever has those keeps them in a list of *slots* and does to it what this type says.
///
/// Which slot comes next is drawn from (seed, epoch, rank, worker) and the number of samples that came before; nothing
/// else is stored. So [`BufferPosition`] is the whole state, and with the same bound and the same sizes the same samples
/// come in the same order for ever.
///
/// # Example
/// ```
/// use sluicegate::{BufferBound, ShuffleBuffer};
///
/// let mut stream = "abcdefgh".chars();
/// let mut slots = Vec::new();
/// let mut buffer = ShuffleBuffer::new(BufferBound::of_samples(3)?, 7, 0, 0, 0);
/// let mut order = String::new();
/// loop {
///     while !buffer.is_full() && let Some(sample) = stream.next() {
///         slots.push(sample);
///         buffer.put(1);
///     }
///     let Some(slot) = buffer.take() else { break };
///     order.push(slots.swap_remove(slot));
/// }
/// assert_eq!(order, "bdcafghe");
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShuffleBuffer {
    bound: BufferBound,
    draws: BufferDraws,
    /// By slot; without a hole.
    held: Vec<Held>,
    /// The sum over `held`.
    bytes: u64,
    read: u64,
}

/// How much a [`ShuffleBuffer`] holds: it is full at so many samples, or at so many bytes, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Numbers")]
pub struct BufferBound {
    samples: usize,
    bytes: u64,
}

/// Those of a [`BufferBound`], as they are read: 0 is none.
#[derive(Deserialize)]
struct Numbers {
    samples: usize,
    bytes: u64,
}

impl TryFrom<Numbers> for BufferBound {
    type Error = Error;

    fn try_from(numbers: Numbers) -> Result<Self> {
        Self::new(numbers.samples, numbers.bytes)
    }
}

/// Where a [`ShuffleBuffer`] is in its stream: the samples that were read and did not come yet, by their ordinals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPosition {
    /// How many samples were read from the stream.
    pub read: u64,
    /// The ordinals of the samples that are held, by slot.
    pub held: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    ordinal: u64,
    bytes: u64,
}

impl BufferBound {
    /// Full at `samples` samples.
    ///
    /// # Errors
    /// As [`BufferBound::new`].
    pub fn of_samples(samples: usize) -> Result<Self> {
        Self::new(samples, u64::MAX)
    }

    /// Full at `samples` samples, or where these are `bytes` bytes together. The sample with which the buffer becomes
    /// full is held too, so it may be larger than `bytes` by one sample.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when one of the two is 0: such a buffer would never give a sample.
    pub fn new(samples: usize, bytes: u64) -> Result<Self> {
        for (argument, is_nothing) in [("size", samples == 0), ("max_bytes", bytes == 0)] {
            if is_nothing {
                return Err(Error::InvalidArgument {
                    argument,
                    reason: "a shuffle buffer holds at least one sample, but got 0".to_owned(),
                });
            }
        }
        Ok(BufferBound { samples, bytes })
    }
}

impl fmt::Display for BufferBound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.samples, self.bytes) {
            (samples, u64::MAX) => write!(formatter, "{samples} samples"),
            (usize::MAX, bytes) => write!(formatter, "{bytes} bytes"),
            (samples, bytes) => write!(formatter, "{samples} samples or {bytes} bytes"),
        }
    }
}

impl ShuffleBuffer {
    /// The buffer of worker `worker` of rank `rank`, before the first sample of `epoch`. Every seed is legal.
    pub fn new(bound: BufferBound, seed: u64, epoch: u64, rank: u64, worker: u64) -> Self {
        let draws = BufferDraws::new(seed, epoch, rank, worker);
        ShuffleBuffer { bound, draws, held: Vec::new(), bytes: 0, read: 0 }
    }

    /// Goes on at `position`, where the samples in the slots have `sizes` bytes.
    ///
    /// # Errors
    /// [`Error::State`] for a position that no buffer can be at.
    pub fn resume(&mut self, position: &BufferPosition, sizes: &[u64]) -> Result<()> {
        let BufferPosition { read, held } = position;
        let distinct: HashSet<&u64> = held.iter().collect();
        if distinct.len() != held.len() || held.iter().any(|ordinal| ordinal >= read) || sizes.len() != held.len() {
            return Err(Error::State {
                reason: format!(
                    "a shuffle buffer that has read {read} samples can't hold {} of them with {} different ordinals up \
                     to {} and {} sizes",
                    held.len(),
                    distinct.len(),
                    held.iter().max().unwrap_or(&0),
                    sizes.len()
                ),
            });
        }
        self.read = *read;
        self.held = held.iter().zip(sizes).map(|(&ordinal, &bytes)| Held { ordinal, bytes }).collect();
        self.bytes = sizes.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes));
        Ok(())
    }

    /// Whether a sample has to be [taken](Self::take) before another is read.
    pub fn is_full(&self) -> bool {
        self.held.len() >= self.bound.samples || self.bytes >= self.bound.bytes
    }

    /// How many more samples are held before it is full in samples.
    pub fn room(&self) -> usize {
        self.bound.samples.saturating_sub(self.held.len())
    }

    /// Holds the next sample of the stream, which has `bytes` bytes: it belongs behind the last slot.
    pub fn put(&mut self, bytes: u64) {
        self.held.push(Held { ordinal: self.read, bytes });
        self.bytes = self.bytes.saturating_add(bytes);
        self.read += 1;
    }

    /// The slot of the sample that comes next; that of the last slot moves there, as [`Vec::swap_remove`] does it.
    /// `None` when nothing is held.
    pub fn take(&mut self) -> Option<usize> {
        if self.held.is_empty() {
            return None;
        }
        let slot = self.draws.below(self.held.len(), self.yielded());
        let taken = self.held.swap_remove(slot);
        // Not a subtraction: a sum that was cut off at the largest number has forgotten its parts.
        self.bytes = match self.bytes {
            u64::MAX => self.held.iter().fold(0, |sum, held| sum.saturating_add(held.bytes)),
            bytes => bytes - taken.bytes,
        };
        Some(slot)
    }

    /// How many samples were read from the stream.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// How many samples have come.
    pub fn yielded(&self) -> u64 {
        self.read - self.held.len() as u64
    }

    /// The lowest ordinal that is held: what lies before it in the stream need not be read again.
    pub fn oldest(&self) -> Option<u64> {
        self.held.iter().map(|held| held.ordinal).min()
    }

    /// Where the buffer is now.
    pub fn position(&self) -> BufferPosition {
        BufferPosition { read: self.read, held: self.held.iter().map(|held| held.ordinal).collect() }
    }
}
