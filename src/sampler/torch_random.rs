//! [`TorchRandomSampler`]: every index once, in the order that torch gives.

use std::sync::Mutex;

use super::{EpochOrder, ExplicitOrder, Sampler};
use crate::error::{Error, Result};
use crate::rng::{TorchGenerator, randperm, randperm_draws};

/// Every index once, in the very order of torch's `RandomSampler` under a generator of this seed.
///
/// Epoch e is pass e + 1 over `torch.utils.data.RandomSampler(range(len), generator=g)`, where `g` was made by
/// `torch.Generator().manual_seed(seed)`, only the sampler draws from it, and every pass before was run to its end.
/// Such a pass draws two whole shuffles and throws the second away, so epoch e is the shuffle number 2 e.
///
/// An order takes 8 bytes and a few nanoseconds an index to make. Going to epoch e for the first time costs about a
/// nanosecond more for each index of each epoch before it; where epochs come in ascending order, as they do in
/// training, that cost is paid once.
///
/// # Errors
/// `order` gives [`Error::InvalidArgument`] when there is no memory for the order, or when the epoch lies so far ahead
/// that its draws can't be counted in 64 bits. Torch refuses an empty range; here its order is empty.
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

/// The generator as it is when `epoch` starts. It only saves time: any other would lead to the same orders.
#[derive(Clone, Debug)]
struct EpochStart {
    epoch: u64,
    generator: TorchGenerator,
}

impl TorchRandomSampler {
    /// A sampler for `len` samples. As in torch, only the low 32 bits of `seed` matter.
    pub fn new(len: usize, seed: u64) -> Self {
        TorchRandomSampler { len, seed, furthest: Mutex::new(EpochStart::first(seed)) }
    }

    fn start_of(&self, epoch: u64) -> Result<EpochStart> {
        // Never waits: a lock that another thread holds, or held when this process was forked, only costs time.
        let mut start = match self.furthest.try_lock() {
            Ok(furthest) if furthest.epoch <= epoch => furthest.clone(),
            _ => EpochStart::first(self.seed),
        };
        let draws =
            (epoch - start.epoch).checked_mul(2).and_then(|shuffles| shuffles.checked_mul(randperm_draws(self.len)));
        start.generator.skip(draws.ok_or_else(|| Error::InvalidArgument {
            argument: "epoch",
            reason: format!(
                "torch reaches epoch {epoch} of {} samples only through more than 2^64 draws: \
                 the order of a seed (`seed=`) reaches any epoch at once",
                self.len
            ),
        })?);
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
        let order = randperm(self.len, &mut start.generator.clone())?;
        self.remember(start);
        Ok(Box::new(ExplicitOrder::new(order)))
    }

    fn identity(&self) -> String {
        // All of the seed that counts.
        format!("TorchRandomSampler(len={}, seed={})", self.len, self.seed as u32)
    }
}
