//! [`StreamState`]: the data that a pass over a stream needs to resume where it stopped.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{VERSION, check_version, read_version, unreadable};
use crate::dataset::{StreamPart, StreamPosition};
use crate::sampler::BufferBound;
use crate::{Error, Result};

/// The position of a consumer of [`StreamBatches`](crate::StreamBatches): after the batches that it received, not after
/// everything that was read ahead. It is plain JSON, whose size does not grow with the stream; for a shuffled stream it
/// contains one number for each sample in the buffer.
///
/// # Example
/// ```
/// use sluicegate::{BufferBound, StreamBatches, StreamDataset, StreamFormat, StreamSource, StreamState};
///
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 40".into())], StreamFormat::json_lines(None));
/// let begin = || Ok::<_, sluicegate::Error>(StreamBatches::new(lines.clone(), 8)?.shuffle(BufferBound::of_samples(10)?, 7, 0));
/// let mut batches = begin()?;
/// batches.by_ref().take(2).try_for_each(|batch| batch.map(drop))?;
/// let saved = batches.state().expect("nothing has failed").to_json();
///
/// let rest = begin()?.resume(&StreamState::from_json(&saved)?)?;
/// for (batch, again) in batches.zip(rest) {
///     assert!((0..8).all(|row| batch.as_ref().unwrap().sample(0, row) == again.as_ref().unwrap().sample(0, row)));
/// }
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Saved", into = "Saved")]
pub struct StreamState(Saved);

/// The contents, before validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    version: u32,
    /// The part whose samples are counted.
    part: StreamPart,
    /// The position after the samples received; if they are shuffled, at or before the oldest held sample.
    position: StreamPosition,
    /// `null` if samples are not shuffled. The key must be present, so that a lost key is an error.
    #[serde(deserialize_with = "Option::deserialize")]
    shuffled: Option<ShuffledPlace>,
}

/// The properties that determine the order of a shuffled part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShuffledOrder {
    pub(crate) bound: BufferBound,
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
}

/// Which samples of a part were read and not yielded yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShuffledPlace {
    #[serde(flatten)]
    pub(crate) order: ShuffledOrder,
    /// Number of samples that had been read at the position.
    pub(crate) since: u64,
    /// Number of samples that had been read when this was saved.
    pub(crate) read: u64,
    /// The ordinals of the held samples, by slot, counted in reading order.
    pub(crate) held: Vec<u64>,
    /// True if the stream had ended after them.
    pub(crate) has_ended: bool,
}

impl StreamState {
    pub(crate) fn new(part: StreamPart, position: StreamPosition, shuffled: Option<ShuffledPlace>) -> Self {
        Self(Saved { version: VERSION, part, position, shuffled })
    }

    /// Returns the state as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and words can always be written")
    }

    /// Reads the output of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`Error::State`] if it is not such a state, or was written by a newer version of this crate.
    pub fn from_json(json: &str) -> Result<Self> {
        if read_version(json)?.is_of_loader() {
            let reason = "it is the state of a loader; read it with LoaderState".to_owned();
            return Err(Error::State { reason });
        }
        serde_json::from_str::<Saved>(json).map_err(unreadable)?.try_into()
    }

    /// Returns the position where reading starts.
    pub(crate) fn position(&self) -> StreamPosition {
        self.0.position
    }

    /// Returns the samples to hold again, or None if the pass is not shuffled.
    pub(crate) fn shuffled(&self) -> Option<&ShuffledPlace> {
        self.0.shuffled.as_ref()
    }

    /// # Errors
    /// [`Error::State`] if it is not for this part in this order: its numbers would refer to other samples.
    pub(crate) fn check(&self, part: &StreamPart, order: Option<ShuffledOrder>) -> Result<()> {
        let mut differences = Vec::new();
        if self.0.part != *part {
            differences.push(format!("part {}, here {part}", self.0.part));
        }
        let saved = self.shuffled().map(|place| place.order);
        if saved != order {
            let words = |order: Option<ShuffledOrder>| order.map_or("no shuffling".into(), |order| order.to_string());
            differences.push(format!("{}, here {}", words(saved), words(order)));
        }
        if differences.is_empty() {
            return Ok(());
        }
        let reason = format!("it was saved with {}; use the same part and shuffle", differences.join(", and with "));
        Err(Error::State { reason })
    }
}

impl TryFrom<Saved> for StreamState {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self> {
        check_version(saved.version)?;
        // Ensures that counting from there never overflows.
        let read = saved.shuffled.as_ref().map_or(0, |place| place.read);
        if let Some(many) = [read, saved.position.ordinal].into_iter().find(|&samples| samples > i64::MAX as u64) {
            let reason = format!("it has {many} samples, more than a stream can have; it was modified");
            return Err(Error::State { reason });
        }
        let Some(ShuffledPlace { since, read, held, .. }) = &saved.shuffled else { return Ok(Self(saved)) };
        let distinct: HashSet<&u64> = held.iter().collect();
        let reason = if since > read {
            format!("since={since} is more than read={read}")
        } else if let Some(other) = held.iter().find(|ordinal| !(since..read).contains(ordinal)) {
            format!("held has {other}, expected numbers from since={since} to below read={read}")
        } else if distinct.len() < held.len() {
            format!("held has {} numbers, but only {} distinct ones", held.len(), distinct.len())
        } else {
            return Ok(Self(saved));
        };
        Err(Error::State { reason: format!("{reason}; it was modified") })
    }
}

impl From<StreamState> for Saved {
    fn from(state: StreamState) -> Self {
        state.0
    }
}

impl fmt::Display for ShuffledOrder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a buffer of {}, seed {}, epoch {}", self.bound, self.seed, self.epoch)
    }
}
