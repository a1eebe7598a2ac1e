//! [`LoaderState`]: what a loader needs to go on where it was left.

mod package_state;
mod stream_state;

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use self::package_state::PackageState;
pub use self::stream_state::StreamState;
pub(crate) use self::stream_state::{ShuffledOrder, ShuffledPlace};
use crate::{Error, Result};

/// The version of the states that this crate writes. A reader refuses a newer one.
const VERSION: u32 = 1;

/// Where a consumer is: the batches that it has received, not those that were fetched ahead, and how far all ranks are in
/// the global order. Plain JSON, whose size does not grow with the dataset.
///
/// A state belongs to an order: to a dataset of this length and to this sampler. How the order is cut into batches and
/// dealt to ranks may be another when it goes on: the next batch begins at the position where this one has ended. Every
/// rank can go on from the state of any rank that has had as many batches.
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
    /// Every batch below this was received.
    batches_received: u64,
    /// Batches beyond it that were received too, out of turn.
    received_ahead: BTreeSet<u64>,
    /// Where the ranks are in the global order when each has had the batches below `batches_received`. Each of them covers
    /// at least one position.
    position: usize,
    #[serde(flatten)]
    fingerprint: Fingerprint,
    #[serde(flatten)]
    cut: Cut,
}

/// The part of a state that every version has.
#[derive(Deserialize)]
struct Version {
    version: u32,
    /// The Python package's states alone have one by this name.
    fingerprint: Option<IgnoredAny>,
    /// The crate's states of loaders alone have one.
    sampler: Option<IgnoredAny>,
    /// States of passes over streams alone have one.
    part: Option<IgnoredAny>,
}

impl Version {
    fn is_of_loader(&self) -> bool {
        self.sampler.is_some() || self.fingerprint.is_some()
    }
}

/// What shapes the order of an epoch: a state goes on only where all of it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub(crate) dataset_len: usize,
    /// What the sampler says of itself.
    pub(crate) sampler: String,
}

/// What the numbers of batches beyond a position depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cut {
    /// Nothing where the sampler makes the batches. A state says so, and does not leave it out.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) batch_size: Option<usize>,
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::State { reason: error.to_string() }
}

/// Reads of a state what comes first: what a newer version has beside it is not known here, and refused.
fn read_version(json: &str) -> Result<Version> {
    let read: Version = serde_json::from_str(json).map_err(unreadable)?;
    check_version(read.version)?;
    Ok(read)
}

fn check_version(version: u32) -> Result<()> {
    if version <= VERSION {
        return Ok(());
    }
    let reason = format!("it has version {version}, this crate reads {VERSION}: update sluicegate");
    Err(Error::State { reason })
}

impl LoaderState {
    /// The state at the start of `epoch`.
    pub(crate) fn start(epoch: u64, fingerprint: Fingerprint, cut: Cut) -> Self {
        let received_ahead = BTreeSet::new();
        Self { version: VERSION, epoch, batches_received: 0, received_ahead, position: 0, fingerprint, cut }
    }

    /// The epoch, counted from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many batches of the epoch the consumer has received.
    #[must_use]
    pub fn batches_received(&self) -> u64 {
        self.batches_received + self.received_ahead.len() as u64
    }

    /// Whether the consumer has received batch `batch_in_epoch`.
    #[must_use]
    pub fn has_received(&self, batch_in_epoch: u64) -> bool {
        batch_in_epoch < self.batches_received || self.received_ahead.contains(&batch_in_epoch)
    }

    /// How far all ranks together are in the global order of the epoch, but for batches that came out of turn: in samples;
    /// in batches, where a [`BatchingSampler`](crate::BatchingSampler) makes those.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The first batch that the consumer has not received.
    pub(crate) fn first_missing(&self) -> u64 {
        self.batches_received
    }

    /// How many of the batches from `first` to before `end` the consumer has received out of turn.
    pub(crate) fn received_between(&self, first: u64, end: u64) -> usize {
        self.received_ahead.range(first..end).count()
    }

    /// Takes note that the consumer has this batch. `position_at` says where the ranks are before any batch.
    pub(crate) fn receive(&mut self, batch_in_epoch: u64, position_at: impl Fn(u64) -> usize) {
        self.received_ahead.insert(batch_in_epoch);
        while self.received_ahead.remove(&self.batches_received) {
            self.batches_received += 1;
        }
        self.position = position_at(self.batches_received);
    }

    /// The state as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and words can always be written")
    }

    /// Reads what [`to_json`](Self::to_json) wrote, or the JSON of `DataLoader.state_dict()` of the Python package: of a loader
    /// over a map-style dataset whose order follows from seeds. That package's `load_state_dict` reads states of the crate.
    ///
    /// # Errors
    /// [`Error::State`] when it is not such a state, or one of a newer version of this crate.
    pub fn from_json(json: &str) -> Result<Self> {
        let version = read_version(json)?;
        if version.part.is_some() {
            let reason = "it is the state of a pass over a stream: read it with StreamState".to_owned();
            return Err(Error::State { reason });
        }
        let state: Self = match version.fingerprint {
            None => serde_json::from_str(json).map_err(unreadable)?,
            Some(_) => serde_json::from_str::<PackageState>(json).map_err(unreadable)?.into_state()?,
        };
        let (received, position) = (state.batches_received, state.position);
        // Each batch counts once: what was received out of turn lies beyond what was received in turn.
        if state.received_ahead.first().is_some_and(|&ahead| ahead <= received) {
            let reason =
                format!("received_ahead begins at or below batches_received={received}: it was changed by hand");
            return Err(Error::State { reason });
        }
        // So numbers of batches never overflow: there are no more of them than positions.
        if received > position as u64 {
            let reason =
                format!("batches_received={received} is more than position={position}: it was changed by hand");
            return Err(Error::State { reason });
        }
        Ok(state)
    }

    /// This state, as a loader with this order goes on from it in its own batches.
    pub(crate) fn go_on(&self, loader: &Fingerprint, cut: Cut) -> Result<Self> {
        let saved = &self.fingerprint;
        let mut differences = Vec::new();
        if saved.dataset_len != loader.dataset_len {
            differences.push(format!("a dataset of {} samples, here of {}", saved.dataset_len, loader.dataset_len));
        }
        if saved.sampler != loader.sampler {
            differences.push(format!("the sampler {}, here {}", saved.sampler, loader.sampler));
        }
        if self.cut.batch_size.is_some() != cut.batch_size.is_some() {
            // Its positions count something else.
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
                "it has batches that were received out of turn, whose samples only the same batches have: it was saved \
                 with {}, here with {}; build the loader as it was, or save a state when batches come in order",
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
