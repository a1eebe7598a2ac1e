//! [`TorchRandomSampler`]: every index once, in torch's order.

use std::sync::Mutex;

use super::{EpochOrder, ExplicitOrder, Sampler};
use crate::error::{Error, Result};
use crate::rng::{TorchGenerator, randperm_draws};

/// Every index once, in exactly the order of torch's `RandomSampler` with a generator of this seed.
///
/// Epoch e is pass e + 1 over `torch.utils.data.RandomSampler(range(len), generator=g)`, where `g` was created by
/// `torch.Generator().manual_seed(seed)`, only the sampler draws from it, and every earlier pass ran to its end. Such a
/// pass draws two complete shuffles and discards the second, so epoch e is shuffle number 2 e.
///
/// An order takes 8 bytes and a few nanoseconds per index to create. Going to epoch e for the first time takes about a
/// nanosecond more for each index of each earlier epoch; if epochs come in ascending order, as in training, that cost
/// is paid only once.
///
/// # Errors
/// `order` returns [`Error::InvalidArgument`] if there is no memory for the order, or if the epoch is so far ahead that
/// its draws cannot be counted in 64 bits. Torch rejects an empty range; here its order is empty.
///
/// # Example
/// ```
/// use sluicegate::{Sampler, TorchRandomSampler};
///
/// let order = TorchRandomSampler::new(5, 0).order(0)?;
/// assert_eq!((0..5).map(|position| order.index_at(position)).collect::<Vec<_>>(), [4, 0, 1, 3, 2]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug)]
pub struct TorchRandomSampler {
    len: usize,
    seed: u64,
    furthest: Mutex<EpochStart>,
}

/// The state of the generator at the start of `epoch`. It is a cache: without it, orders are the same, but slower.
#[derive(Clone, Debug)]
struct EpochStart {
    epoch: u64,
    generator: TorchGenerator,
}

impl TorchRandomSampler {
    /// Returns a sampler for `len` samples. As in torch, only the low 32 bits of `seed` matter.
    pub fn new(len: usize, seed: u64) -> Self {
        TorchRandomSampler { len, seed, furthest: Mutex::new(EpochStart::first(seed)) }
    }

    fn start_of(&self, epoch: u64) -> Result<EpochStart> {
        // Never waits: if the lock is held by another thread, or was held when this process was forked, the only cost
        // is time.
        let mut start = match self.furthest.try_lock() {
            Ok(furthest) if furthest.epoch <= epoch => furthest.clone(),
            _ => EpochStart::first(self.seed),
        };
        let draws =
            (epoch - start.epoch).checked_mul(2).and_then(|shuffles| shuffles.checked_mul(randperm_draws(self.len)));
        start.generator.skip(draws.ok_or_else(|| Error::invalid("epoch", format!(
                "epoch {epoch} of {} samples needs more than 2^64 draws of torch's generator; with a seed (`seed=`), \
                 any epoch is reached at once",
                self.len
            )))?);
        start.epoch = epoch;
        Ok(start)
    }

    fn remember(&self, start: EpochStart) {
        if let Ok(mut furthest) = self.furthest.try_lock()
            && furthest.epoch < start.epoch
        {
            *furthest = start;
        }
    }
}

impl EpochStart {
    fn first(seed: u64) -> Self {
        EpochStart { epoch: 0, generator: TorchGenerator::new(seed) }
    }
}

impl Sampler for TorchRandomSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        let start = self.start_of(epoch)?;
        let order = start.generator.clone().randperm(self.len)?;
        self.remember(start);
        Ok(Box::new(ExplicitOrder::new(order)))
    }

    fn identity(&self) -> String {
        // Only the part of the seed that matters.
        format!("TorchRandomSampler(len={}, seed={})", self.len, self.seed as u32)
    }
}
