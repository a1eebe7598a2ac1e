//! [`LoaderState`]: the data that a loader needs to resume where it stopped.

mod package_state;
mod stream_state;

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use self::package_state::PackageState;
pub use self::stream_state::StreamState;
pub(crate) use self::stream_state::{ShuffledOrder, ShuffledPlace};
use crate::{Error, Result};

/// The version of the states that this crate writes. Readers reject newer versions.
const VERSION: u32 = 1;

/// A consumer's position: the batches that it has received (not those that were fetched ahead), and the progress of all
/// ranks in the global order. It is plain JSON, whose size does not grow with the dataset.
///
/// A state belongs to an order: to a dataset length and a sampler. After resuming, the order may be cut into batches
/// and distributed to ranks differently: the next batch begins at the position where the last one ended. Every rank can
/// resume from the state of any rank that has received the same number of batches.
///
/// # Example
/// ```
/// use sluicegate::LoaderState;
/// let json = r#"{"version":1,"epoch":3,"batches_received":17,"received_ahead":[],"position":340,
///     "dataset_len":1000,"sampler":"SequentialSampler(len=1000)","batch_size":10,"rank":0,"world_size":2}"#;
/// let state = LoaderState::from_json(json).unwrap();
/// assert_eq!((state.epoch(), state.batches_received(), state.position()), (3, 17, 340));
/// assert_eq!(LoaderState::from_json(&state.to_json()).unwrap(), state);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderState {
    version: u32,
    epoch: u64,
    /// Every batch with a lower number was received.
    batches_received: u64,
    /// Later batches that were also received, out of order.
    received_ahead: BTreeSet<u64>,
    /// The position of the ranks in the global order after each has received the batches below `batches_received`. Each
    /// batch covers at least one position.
    position: usize,
    #[serde(flatten)]
    fingerprint: Fingerprint,
    #[serde(flatten)]
    cut: Cut,
}

/// The fields that all versions of a state share.
#[derive(Deserialize)]
struct Version {
    version: u32,
    /// Present only in states of the Python package.
    fingerprint: Option<IgnoredAny>,
    /// Present only in the crate's loader states.
    sampler: Option<IgnoredAny>,
    /// Present only in states of passes over streams.
    part: Option<IgnoredAny>,
}

impl Version {
    fn is_of_loader(&self) -> bool {
        self.sampler.is_some() || self.fingerprint.is_some()
    }
}

/// The properties that determine an epoch's order: a state can be resumed only if all of them are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub(crate) dataset_len: usize,
    /// The sampler's identity.
    pub(crate) sampler: String,
}

/// The settings that batch numbers beyond a position depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cut {
    /// None if the sampler makes the batches. The key must be present in a state, even if its value is null.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) batch_size: Option<usize>,
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::State { reason: error.to_string() }
}

/// Reads the version first: a newer version may have unknown keys, and is rejected.
fn read_version(json: &str) -> Result<Version> {
    let read: Version = serde_json::from_str(json).map_err(unreadable)?;
    check_version(read.version)?;
    Ok(read)
}

fn check_version(version: u32) -> Result<()> {
    if version <= VERSION {
        return Ok(());
    }
    let reason = format!("it has version {version}, but this crate supports only {VERSION}; update sluicegate");
    Err(Error::State { reason })
}

impl LoaderState {
    /// Returns the state at the start of `epoch`.
    pub(crate) fn start(epoch: u64, fingerprint: Fingerprint, cut: Cut) -> Self {
        let received_ahead = BTreeSet::new();
        Self { version: VERSION, epoch, batches_received: 0, received_ahead, position: 0, fingerprint, cut }
    }

    /// Returns the epoch, counted from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns how many batches of the epoch the consumer has received.
    #[must_use]
    pub fn batches_received(&self) -> u64 {
        self.batches_received + self.received_ahead.len() as u64
    }

    /// True if the consumer has received batch `batch_in_epoch`.
    #[must_use]
    pub fn has_received(&self, batch_in_epoch: u64) -> bool {
        batch_in_epoch < self.batches_received || self.received_ahead.contains(&batch_in_epoch)
    }

    /// Returns the progress of all ranks in the global order of the epoch, not counting batches that came out of order:
    /// in samples, or in batches if a [`BatchingSampler`](crate::BatchingSampler) makes them.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the first batch that the consumer has not received.
    pub(crate) fn first_missing(&self) -> u64 {
        self.batches_received
    }

    /// Returns how many of the batches in `first..end` the consumer has received out of order.
    pub(crate) fn received_between(&self, first: u64, end: u64) -> usize {
        self.received_ahead.range(first..end).count()
    }

    /// Records that the consumer has received this batch. `position_at` returns the position of the ranks before any
    /// batch.
    pub(crate) fn receive(&mut self, batch_in_epoch: u64, position_at: impl Fn(u64) -> usize) {
        self.received_ahead.insert(batch_in_epoch);
        while self.received_ahead.remove(&self.batches_received) {
            self.batches_received += 1;
        }
        self.position = position_at(self.batches_received);
    }

    /// Returns the state as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and words can always be written")
    }

    /// Reads the output of [`to_json`](Self::to_json), or the JSON of the Python package's `DataLoader.state_dict()`
    /// for a loader over a map-style dataset whose order is determined by seeds. That package's `load_state_dict` also
    /// reads states of this crate.
    ///
    /// # Errors
    /// [`Error::State`] if it is not such a state, or was written by a newer version of this crate.
    pub fn from_json(json: &str) -> Result<Self> {
        let version = read_version(json)?;
        if version.part.is_some() {
            let reason = "it is the state of a pass over a stream; read it with StreamState".to_owned();
            return Err(Error::State { reason });
        }
        let state: Self = match version.fingerprint {
            None => serde_json::from_str(json).map_err(unreadable)?,
            Some(_) => serde_json::from_str::<PackageState>(json).map_err(unreadable)?.into_state()?,
        };
        let (received, position) = (state.batches_received, state.position);
        // Each batch counts once: batches received out of order must be beyond those received in order.
        if state.received_ahead.first().is_some_and(|&ahead| ahead <= received) {
            let reason = format!("received_ahead begins at or below batches_received={received}; it was modified");
            return Err(Error::State { reason });
        }
        // Batch numbers therefore never overflow: there are at most as many batches as positions.
        if received > position as u64 {
            let reason = format!("batches_received={received} is more than position={position}; it was modified");
            return Err(Error::State { reason });
        }
        Ok(state)
    }

    /// Returns this state adapted to the batches of a loader with the same order.
    pub(crate) fn adapted_to(&self, loader: &Fingerprint, cut: Cut) -> Result<Self> {
        let saved = &self.fingerprint;
        let mut differences = Vec::new();
        if saved.dataset_len != loader.dataset_len {
            differences.push(format!("a dataset of {} samples, here of {}", saved.dataset_len, loader.dataset_len));
        }
        if saved.sampler != loader.sampler {
            differences.push(format!("the sampler {}, here {}", saved.sampler, loader.sampler));
        }
        if self.cut.batch_size.is_some() != cut.batch_size.is_some() {
            // The other state's positions count a different unit.
            let maker =
                |cut: Cut| if cut.batch_size.is_some() { "an order of samples" } else { "the sampler's batches" };
            differences.push(format!("{}, here {}", maker(self.cut), maker(cut)));
        }
        if !differences.is_empty() {
            let reason = format!("it was saved with {}; build the loader as it was", differences.join(", and with "));
            return Err(Error::State { reason });
        }
        if !self.received_ahead.is_empty() && self.cut != cut {
            let reason = format!(
                "it has batches that were received out of order, which only a loader with the same batches can skip: \
                 it was saved with {}, here with {}; build the loader as it was, or save a state when batches arrive \
                 in order",
                self.cut, cut
            );
            return Err(Error::State { reason });
        }
        Ok(Self { cut, ..self.clone() })
    }
}

impl std::fmt::Display for Cut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(batch_size) = self.batch_size {
            write!(formatter, "batches of {batch_size} ")?;
        }
        write!(formatter, "on rank {} of {}", self.rank, self.world_size)
    }
}
