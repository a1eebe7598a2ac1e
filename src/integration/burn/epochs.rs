//! [`Epochs`]: the interface of a [`BurnLoader`](super::BurnLoader) to both kinds of loader.

use std::sync::Arc;

use crate::error::catch;
use crate::{Batch, Batches, DataLoader, EpochPlan, ItemLoader, LoaderState, Result};

/// The epochs of a loader, for any type of batch.
pub(super) trait Epochs<O>: Send + Sync {
    /// Returns the batches of epoch `epoch`.
    fn start(&self, epoch: u64) -> Result<Box<dyn Steps<O>>>;

    /// Returns the batches that remain after `state`.
    fn resume(&self, state: &LoaderState) -> Result<Box<dyn Steps<O>>>;

    /// Returns the plan of an epoch.
    fn plan(&self) -> Result<EpochPlan>;
}

/// The batches of one epoch.
pub(super) trait Steps<O> {
    /// Returns the next batch, and how many samples of the epoch are in it, or would have been if it failed.
    fn step(&mut self) -> Option<(Result<O>, usize)>;

    fn state(&self) -> LoaderState;

    /// Returns how many samples remained when this began, if that is known.
    fn samples(&self) -> Option<usize>;
}

impl<O: Send + 'static> Epochs<O> for ItemLoader<'static, O> {
    fn start(&self, epoch: u64) -> Result<Box<dyn Steps<O>>> {
        Ok(Box::new(self.epoch(epoch)?))
    }

    fn resume(&self, state: &LoaderState) -> Result<Box<dyn Steps<O>>> {
        Ok(Box::new(ItemLoader::resume(self, state)?))
    }

    fn plan(&self) -> Result<EpochPlan> {
        ItemLoader::plan(self, 0)
    }
}

impl<O: Send + 'static> Steps<O> for Batches<'static, O> {
    fn step(&mut self) -> Option<(Result<O>, usize)> {
        let batch = self.next()?;
        Some((batch, self.last_ids().map_or(0, |ids| ids.valid)))
    }

    fn state(&self) -> LoaderState {
        Batches::state(self)
    }

    fn samples(&self) -> Option<usize> {
        Batches::samples(self)
    }
}

/// A loader of fields, and the conversion of its batches.
pub(super) struct Fields<O> {
    pub(super) loader: DataLoader,
    pub(super) made: Arc<Made<O>>,
}

pub(super) type Made<O> = dyn Fn(Batch) -> Result<O> + Send + Sync;

/// The batches of one epoch of fields.
struct FieldSteps<O> {
    batches: Batches<'static>,
    made: Arc<Made<O>>,
}

impl<O: 'static> Fields<O> {
    fn steps(&self, batches: Batches<'static>) -> Box<dyn Steps<O>> {
        Box::new(FieldSteps { batches, made: Arc::clone(&self.made) })
    }
}

impl<O: 'static> Epochs<O> for Fields<O> {
    fn start(&self, epoch: u64) -> Result<Box<dyn Steps<O>>> {
        Ok(self.steps(self.loader.epoch(epoch)?))
    }

    fn resume(&self, state: &LoaderState) -> Result<Box<dyn Steps<O>>> {
        Ok(self.steps(self.loader.resume(state)?))
    }

    fn plan(&self) -> Result<EpochPlan> {
        self.loader.plan(0)
    }
}

impl<O: 'static> Steps<O> for FieldSteps<O> {
    fn step(&mut self) -> Option<(Result<O>, usize)> {
        let (batch, samples) = Steps::step(&mut self.batches)?;
        Some((batch.and_then(|batch| catch(|| (self.made)(batch))), samples))
    }

    fn state(&self) -> LoaderState {
        self.batches.state()
    }

    fn samples(&self) -> Option<usize> {
        self.batches.samples()
    }
}
