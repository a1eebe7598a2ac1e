//! [`ShuffleBuffer`]: a random order for a stream whose samples cannot be accessed by index.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rng::{Draws, below};

/// Decides which of the buffered samples of a stream comes next.
///
/// A stream is shuffled by holding some of its samples, yielding a random one of them, and reading the next one in its
/// place. A sample moves forward by at most one buffer length, and backward without a bound; on average it is held for
/// one buffer length. This type knows ordinals (the position of a sample in its stream, from 0) and never the samples:
/// the caller keeps those in a list of *slots* and changes the list as this type directs.
///
/// The next slot is drawn from (seed, epoch, rank, worker) and the number of samples yielded before; nothing else is
/// stored. So [`BufferPosition`] is the complete state, and the same bound and sizes always give the same order.
///
/// # Example
/// ```
/// use sluicegate::internal::ShuffleBuffer;
/// use sluicegate::BufferBound;
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
    draws: Draws,
    /// By slot, without gaps.
    held: Vec<Held>,
    /// The sum of the sizes in `held`.
    bytes: u64,
    read: u64,
}

/// The capacity of a shuffle buffer: it is full at this many samples or this many bytes, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Numbers")]
pub struct BufferBound {
    samples: usize,
    bytes: u64,
}

/// A [`BufferBound`] as it is deserialized: 0 is rejected.
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

/// The position of a [`ShuffleBuffer`] in its stream, and the ordinals of the samples that were read but not yielded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPosition {
    /// Number of samples read from the stream.
    pub read: u64,
    /// The ordinals of the held samples, by slot.
    pub held: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    ordinal: u64,
    bytes: u64,
}

impl BufferBound {
    /// Returns a bound of `samples` samples.
    ///
    /// # Errors
    /// As [`BufferBound::new`].
    pub fn of_samples(samples: usize) -> Result<Self> {
        Self::new(samples, u64::MAX)
    }

    /// Returns a bound of `samples` samples or `bytes` bytes in total. The sample that makes the buffer full is held
    /// too, so the buffer may exceed `bytes` by one sample.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if one of the two is 0: such a buffer would never yield a sample.
    pub fn new(samples: usize, bytes: u64) -> Result<Self> {
        for (argument, is_zero) in [("size", samples == 0), ("max_bytes", bytes == 0)] {
            if is_zero {
                return Err(Error::invalid(argument, "expected at least 1 sample, got 0"));
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
    /// Returns the buffer of worker `worker` of rank `rank`, before the first sample of `epoch`. Every seed is valid.
    pub fn new(bound: BufferBound, seed: u64, epoch: u64, rank: u64, worker: u64) -> Self {
        let draws = Draws::of_buffer(seed, epoch, rank, worker);
        ShuffleBuffer { bound, draws, held: Vec::new(), bytes: 0, read: 0 }
    }

    /// Resumes at `position`, where the samples in the slots have `sizes` bytes.
    ///
    /// # Errors
    /// [`Error::State`] if no buffer can be at that position.
    pub fn resume(&mut self, position: &BufferPosition, sizes: &[u64]) -> Result<()> {
        let BufferPosition { read, held } = position;
        let distinct: HashSet<&u64> = held.iter().collect();
        if distinct.len() != held.len() || held.iter().any(|ordinal| ordinal >= read) || sizes.len() != held.len() {
            return Err(Error::State {
                reason: format!(
                    "invalid shuffle buffer: after {read} samples were read, it has {} ordinals, of which {} are \
                     distinct, up to {}, and {} sizes",
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

    /// True if a sample must be [taken](Self::take) before another is read.
    pub fn is_full(&self) -> bool {
        self.held.len() >= self.bound.samples || self.bytes >= self.bound.bytes
    }

    /// Returns how many more samples fit before the bound on samples is reached.
    pub fn room(&self) -> usize {
        self.bound.samples.saturating_sub(self.held.len())
    }

    /// Holds the next sample of the stream, which has `bytes` bytes, in a new last slot.
    pub fn put(&mut self, bytes: u64) {
        self.held.push(Held { ordinal: self.read, bytes });
        self.bytes = self.bytes.saturating_add(bytes);
        self.read += 1;
    }

    /// Returns the slot of the next sample, or `None` if nothing is held. The last slot's sample moves to this slot, as
    /// in [`Vec::swap_remove`].
    pub fn take(&mut self) -> Option<usize> {
        if self.held.is_empty() {
            return None;
        }
        let slot = below(self.held.len() as u64, self.draws.word_at(self.yielded())).0 as usize;
        let taken = self.held.swap_remove(slot);
        // Subtraction is wrong here: a sum that saturated at the maximum no longer contains its parts.
        self.bytes = match self.bytes {
            u64::MAX => self.held.iter().fold(0, |sum, held| sum.saturating_add(held.bytes)),
            bytes => bytes - taken.bytes,
        };
        Some(slot)
    }

    /// Returns the number of samples read from the stream.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Returns the number of samples yielded.
    pub fn yielded(&self) -> u64 {
        self.read - self.held.len() as u64
    }

    /// Returns the lowest ordinal held: earlier samples of the stream need not be read again.
    pub fn oldest(&self) -> Option<u64> {
        self.held.iter().map(|held| held.ordinal).min()
    }

    /// Returns the current position of the buffer.
    pub fn position(&self) -> BufferPosition {
        BufferPosition { read: self.read, held: self.held.iter().map(|held| held.ordinal).collect() }
    }
}
