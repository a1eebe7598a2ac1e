//! [`LoaderState`]: what a loader needs to go on where it was left.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Error, LastBatch, Result};

/// The version of the states that this crate writes. A reader refuses a newer one.
const VERSION: u32 = 1;

/// Where a consumer is: the batches that it has received, not those that were fetched ahead. Plain JSON, whose size does
/// not grow with the dataset.
///
/// # Example
/// ```
/// use sluicegate::LoaderState;
/// let json = r#"{"version":1,"epoch":3,"batches_received":17,"received_ahead":[],"dataset_len":1000,"batch_size":10,
///     "last_batch":"keep"}"#;
/// let state = LoaderState::from_json(json).unwrap();
/// assert_eq!((state.epoch(), state.batches_received()), (3, 17));
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
    #[serde(flatten)]
    fingerprint: Fingerprint,
}

/// The part of a state that every version has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// What shapes the order of an epoch: a state goes on only where all of it is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub(crate) dataset_len: usize,
    pub(crate) batch_size: usize,
    #[serde(with = "last_batch")]
    pub(crate) last_batch: LastBatch,
}

impl LoaderState {
    /// The state at the start of `epoch`.
    pub(crate) fn start(epoch: u64, fingerprint: Fingerprint) -> Self {
        Self { version: VERSION, epoch, batches_received: 0, received_ahead: BTreeSet::new(), fingerprint }
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

    /// The first batch that the consumer has not received.
    pub(crate) fn first_missing(&self) -> u64 {
        self.batches_received
    }

    pub(crate) fn receive(&mut self, batch_in_epoch: u64) {
        self.received_ahead.insert(batch_in_epoch);
        while self.received_ahead.remove(&self.batches_received) {
            self.batches_received += 1;
        }
    }

    /// The state as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and a word can always be written")
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// [`Error::State`] when it is not such a state, or one of a newer version of this crate.
    pub fn from_json(json: &str) -> Result<Self> {
        let unreadable = |error: serde_json::Error| Error::State { reason: error.to_string() };
        // The version comes first: what a newer one has beside it is not known here.
        let Version { version } = serde_json::from_str(json).map_err(unreadable)?;
        if version > VERSION {
            let reason = format!("it has version {version}, this crate reads {VERSION}: update sluicegate");
            return Err(Error::State { reason });
        }
        let state: Self = serde_json::from_str(json).map_err(unreadable)?;
        // Each batch counts once: what was received out of turn lies beyond what was received in turn.
        if state.received_ahead.first().is_some_and(|&ahead| ahead <= state.batches_received) {
            let received = state.batches_received;
            let reason =
                format!("received_ahead begins at or below batches_received={received}: it was changed by hand");
            return Err(Error::State { reason });
        }
        Ok(state)
    }

    pub(crate) fn check(&self, loader: Fingerprint) -> Result<()> {
        if self.fingerprint == loader {
            return Ok(());
        }
        let reason = format!("it was saved by a loader of {:?}, and this one is of {loader:?}", self.fingerprint);
        Err(Error::State { reason })
    }
}

/// `LastBatch` as a word, so that the sampler need not know of JSON.
mod last_batch {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::LastBatch;

    pub(super) fn serialize<S: Serializer>(value: &LastBatch, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match value {
            LastBatch::Keep => "keep",
            LastBatch::Drop => "drop",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LastBatch, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "keep" => Ok(LastBatch::Keep),
            "drop" => Ok(LastBatch::Drop),
            other => Err(D::Error::custom(format!("last_batch is \"keep\" or \"drop\", not {other:?}"))),
        }
    }
}
