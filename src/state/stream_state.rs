//! [`StreamState`]: what a pass over a stream needs to go on where it was left.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{VERSION, read_version, unreadable};
use crate::dataset::StreamPosition;
use crate::sampler::BufferBound;
use crate::{Error, Result};

/// Where a consumer of [`StreamBatches`](crate::StreamBatches) is: behind the batches that came, not behind what was read ahead.
/// Plain JSON, whose size does not grow with the stream; of a shuffled one it has a number for each sample that the buffer holds.
///
/// # Example
/// ```
/// use sluicegate::{BufferBound, StreamBatches, StreamDataset, StreamFormat, StreamSource, StreamState};
///
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 40".into())], StreamFormat::JsonLines(None));
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
pub struct StreamState {
    version: u32,
    /// Behind the samples that came; where they are shuffled, before all that are held.
    position: StreamPosition,
    /// A state says so where there is none, and does not leave it out.
    #[serde(deserialize_with = "Option::deserialize")]
    shuffled: Option<ShuffledPlace>,
}

/// What shapes the order of a shuffled stream: a state goes on only where all of it is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShuffledOrder {
    pub(crate) bound: BufferBound,
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) rank: u64,
    pub(crate) worker: u64,
}

/// Which samples were read from a stream and did not come yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShuffledPlace {
    #[serde(flatten)]
    pub(crate) order: ShuffledOrder,
    /// How many samples had been read at the position.
    pub(crate) since: u64,
    /// How many were read when this was saved.
    pub(crate) read: u64,
    /// Those of them that are held, by slot, as they were counted when they were read.
    pub(crate) held: Vec<u64>,
    /// Whether they were all.
    pub(crate) has_ended: bool,
}

impl StreamState {
    pub(crate) fn new(position: StreamPosition, shuffled: Option<ShuffledPlace>) -> Self {
        Self { version: VERSION, position, shuffled }
    }

    /// The state as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and words can always be written")
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// [`Error::State`] when it is not such a state, or one of a newer version of this crate.
    pub fn from_json(json: &str) -> Result<Self> {
        read_version(json)?;
        let state: Self = serde_json::from_str(json).map_err(unreadable)?;
        if let Some(ShuffledPlace { since, read, held, .. }) = &state.shuffled {
            let distinct: HashSet<&u64> = held.iter().collect();
            let is_one = distinct.len() == held.len() && held.iter().all(|ordinal| (since..read).contains(&ordinal));
            if since > read || !is_one {
                let reason = format!(
                    "it holds {} samples with {} different numbers, not all of them from {since} to below {read}: it was \
                     changed by hand",
                    held.len(),
                    distinct.len()
                );
                return Err(Error::State { reason });
            }
        }
        Ok(state)
    }

    /// Where reading begins.
    pub(crate) fn position(&self) -> StreamPosition {
        self.position
    }

    /// What is to be held again, for a pass of this order; nothing where it is not shuffled.
    pub(crate) fn go_on(&self, order: Option<ShuffledOrder>) -> Result<Option<ShuffledPlace>> {
        let saved = self.shuffled.as_ref().map(|place| place.order);
        if saved == order {
            return Ok(self.shuffled.clone());
        }
        let words = |order: Option<ShuffledOrder>| order.map_or("no shuffling".into(), |order| format!("{order:?}"));
        let reason = format!("it was saved with {}, here with {}; shuffle as it was", words(saved), words(order));
        Err(Error::State { reason })
    }
}
