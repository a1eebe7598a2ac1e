//! [`Epochs`]: which batches every epoch has, and where a state resumes.

use std::sync::Arc;

use crate::sampler::check_positive;
use crate::state::{Cut, Fingerprint};
use crate::{
    BatchingSampler, EpochPlan, Error, LastBatch, LoaderState, Remainder, Result, Sampler, SequentialSampler, Shard,
};

/// The settings for epochs that both kinds of loader share.
pub(super) struct EpochSettings {
    pub(super) sampler: Option<Arc<dyn Sampler>>,
    pub(super) batch_size: Option<usize>,
    pub(super) last_batch: Option<LastBatch>,
    pub(super) batches: Option<Arc<dyn BatchingSampler>>,
    pub(super) shard: Shard,
    pub(super) remainder: Remainder,
}

impl Default for EpochSettings {
    fn default() -> Self {
        let (shard, remainder) = (Shard::whole(), Remainder::default());
        Self { sampler: None, batch_size: None, last_batch: None, batches: None, shard, remainder }
    }
}

/// The epochs of a loader.
pub(super) struct Epochs {
    source: Source,
    shard: Shard,
    remainder: Remainder,
    fingerprint: Fingerprint,
    cut: Cut,
}

/// The source of an epoch's plan.
enum Source {
    Samples { sampler: Arc<dyn Sampler>, batch_size: usize, last_batch: LastBatch },
    Batches(Arc<dyn BatchingSampler>),
}

impl EpochSettings {
    /// Returns the epochs of a dataset of `dataset_len` samples.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `batch_size` is 0, or both `batches` and a setting that they determine are given.
    pub(super) fn build(self, dataset_len: usize) -> Result<Epochs> {
        let source = self.source(dataset_len)?;
        let (sampler, batch_size) = match &source {
            Source::Samples { sampler, batch_size, .. } => (sampler.identity(), Some(*batch_size)),
            Source::Batches(batches) => (batches.identity(), None),
        };
        Ok(Epochs {
            source,
            fingerprint: Fingerprint { dataset_len, sampler },
            cut: Cut { batch_size, rank: self.shard.rank(), world_size: self.shard.world_size() },
            shard: self.shard,
            remainder: self.remainder,
        })
    }

    fn source(&self, dataset_len: usize) -> Result<Source> {
        if let Some(batches) = &self.batches {
            let given = [
                ("batch_size", self.batch_size.is_some()),
                ("last_batch", self.last_batch.is_some()),
                ("sampler or shuffle", self.sampler.is_some()),
            ];
            if let Some((other, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
                let reason = format!(
                    "they determine the content of each batch, so {other} can't be passed, too; pass one of the two"
                );
                return Err(Error::invalid("batches", reason));
            }
            return Ok(Source::Batches(Arc::clone(batches)));
        }
        let batch_size = self.batch_size.unwrap_or(1);
        check_positive("batch_size", batch_size)?;
        let in_sequence = || Arc::new(SequentialSampler::new(dataset_len)) as Arc<dyn Sampler>;
        let sampler = self.sampler.clone().unwrap_or_else(in_sequence);
        Ok(Source::Samples { sampler, batch_size, last_batch: self.last_batch.unwrap_or_default() })
    }
}

impl Epochs {
    /// Returns the state at the start of `epoch`.
    pub(super) fn start(&self, epoch: u64) -> LoaderState {
        LoaderState::start(epoch, self.fingerprint.clone(), self.cut)
    }

    /// Returns `state` adapted to this loader.
    pub(super) fn adapted(&self, state: &LoaderState) -> Result<LoaderState> {
        state.adapted_to(&self.fingerprint, self.cut)
    }

    /// Returns all batches of `epoch` for this rank.
    pub(super) fn plan(&self, epoch: u64) -> Result<EpochPlan> {
        let plan = match &self.source {
            Source::Samples { sampler, batch_size, last_batch } => {
                EpochPlan::of_samples(sampler.order(epoch)?.into(), *batch_size, *last_batch)?
            }
            Source::Batches(batches) => EpochPlan::of_batches(batches.batches(epoch)?.into()),
        };
        Ok(plan.shard(self.shard, self.remainder))
    }

    /// Returns the batches that remain after `state`.
    pub(super) fn plan_from(&self, state: &LoaderState) -> Result<EpochPlan> {
        Ok(self.plan(state.epoch())?.start_at(state.position()))
    }
}
