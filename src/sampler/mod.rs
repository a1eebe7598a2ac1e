//! WHICH index comes next: a [`Sampler`] makes an [`EpochOrder`] for every epoch.
//!
//! One sampler a file. A sampler knows a length and perhaps a seed; it knows nothing of datasets, batches in memory or
//! ranks.

mod alias_table;
mod balanced_batch;
mod batch;
mod block_ends;
mod block_shuffle;
mod class_index;
mod class_sampler;
mod compact;
mod deal;
mod distributed;
mod even_blocks;
mod even_draws;
mod explicit;
mod group_order;
mod identity;
mod length_bucket_batch;
mod length_sort;
mod mixture;
mod mixture_plan;
mod packed_batch;
mod packed_rows;
mod plan;
mod random;
mod repeat;
mod sequential;
mod shuffle_buffer;
mod shuffling;
mod stratified_batch;
mod stratified_deal;
mod subset_random;
mod torch_random;
mod uneven_blocks;
mod weighted_random;

pub use balanced_batch::BalancedBatchSampler;
pub use batch::{BatchOrder, BatchSampler, LastBatch};
pub use block_shuffle::BlockShuffleSampler;
pub use class_index::ClassIndex;
pub use class_sampler::ClassSampler;
pub use distributed::DistributedSampler;
pub use explicit::ExplicitOrder;
pub use length_bucket_batch::{BatchLimit, LengthBucketBatchSampler};
pub use mixture::{Course, MixtureSampler, MixtureWeights, StopCriteria};
pub use packed_batch::{PackedBatchSampler, Packing, PieceCode};
pub use plan::{EpochPlan, PlannedBatch};
pub use random::{RandomSampler, Replacement};
pub use repeat::{RepeatSampler, Repetition};
pub use sequential::SequentialSampler;
pub use shuffle_buffer::{BufferBound, BufferPosition, ShuffleBuffer};
pub use shuffling::Shuffling;
pub use stratified_batch::StratifiedBatchSampler;
pub use subset_random::SubsetRandomSampler;
pub use torch_random::TorchRandomSampler;
pub use weighted_random::WeightedRandomSampler;

use crate::error::{Error, Result};

/// Which samples an epoch reads, and in which order.
///
/// # Contract
/// - **Determinism.** The order is a pure function of the sampler and `epoch`: asked twice, in any sequence of epochs, on
///   any thread, in another process or after a restart, it is the same. Resuming rests on that.
/// - **Threads.** `order` may be called from many threads at once, and it may run while other epochs are read.
/// - **Cost.** It is called once an epoch, before its first batch: what it takes, the epoch starts later.
///
/// # Errors
/// Whatever keeps the order from being made: no memory for it, or a user's own error as
/// [`Error::User`](crate::Error::User).
///
/// # Example
/// ```
/// use sluicegate::{EpochOrder, Result, Sampler};
///
/// /// Every second index.
/// struct EvenSampler(usize);
/// struct EvenOrder(usize);
///
/// impl Sampler for EvenSampler {
///     fn order(&self, _epoch: u64) -> Result<Box<dyn EpochOrder>> {
///         Ok(Box::new(EvenOrder(self.0)))
///     }
/// }
///
/// impl EpochOrder for EvenOrder {
///     fn len(&self) -> usize {
///         self.0.div_ceil(2)
///     }
///     fn index_at(&self, position: usize) -> usize {
///         2 * position
///     }
/// }
///
/// let order = EvenSampler(5).order(0)?;
/// assert_eq!((0..order.len()).map(|position| order.index_at(position)).collect::<Vec<_>>(), [0, 2, 4]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub trait Sampler: Send + Sync {
    /// The order of `epoch`, counted from 0.
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>>;

    /// Which sampler this is, in words: two that give different orders should differ in it, and one sampler says the same
    /// in every process. It is kept in states, and a state is refused where the sampler says something else.
    ///
    /// As provided it is the name of the type. A sampler with a seed, or with other parameters that shape its orders, has
    /// one of its own that names them. It may cost what an order costs; it is asked for once, when a loader is made.
    fn identity(&self) -> String {
        identity::name_of::<Self>()
    }
}

/// The order of one epoch: which index is read at which position.
///
/// # Contract
/// - **Determinism.** Both methods give the same at every call, in whatever sequence positions are asked for.
/// - **Threads.** Both may be called from many threads at once.
/// - **Cost.** `index_at` is called for every sample: nanoseconds, no locks, no system calls. What can fail has failed in
///   [`Sampler::order`].
///
/// # Panics
/// `index_at` may panic where `position` is not below `len`; nothing calls it there.
pub trait EpochOrder: Send + Sync {
    /// The number of positions, which need not be the number of samples in the dataset.
    fn len(&self) -> usize;

    /// The index to read at `position`.
    fn index_at(&self, position: usize) -> usize;

    /// Writes the indices from position `start` on, as many as `into` has room for: [`index_at`](Self::index_at) for each.
    ///
    /// # Panics
    /// As `index_at`, when one of the positions is not below `len`.
    fn indices(&self, start: usize, into: &mut [usize]) {
        self.indices_by(start, 1, into);
    }

    /// Writes the indices at the positions `start`, `start + step` and so on, as many as `into` has room for: what a rank
    /// reads of an order.
    ///
    /// An order that computes several at once faster than one by one has its own of this one, and with it of
    /// [`indices`](Self::indices).
    ///
    /// # Panics
    /// As `index_at`, when one of the positions is not below `len`.
    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        for (place, index) in into.iter_mut().enumerate() {
            *index = self.index_at(start + place * step);
        }
    }

    /// Whether the epoch has no position at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which samples each batch of an epoch holds: a sampler whose batches are more than an order cut into equal parts.
///
/// # Contract
/// That of [`Sampler`]: the batches are a pure function of the sampler and `epoch`.
///
/// # Errors
/// As [`Sampler::order`].
pub trait BatchingSampler: Send + Sync {
    /// The batches of `epoch`, counted from 0.
    fn batches(&self, epoch: u64) -> Result<Box<dyn EpochBatches>>;

    /// Which sampler this is, in words: as [`Sampler::identity`].
    fn identity(&self) -> String {
        identity::name_of::<Self>()
    }
}

/// The batches of one epoch. Any of them can be asked for at any time, from many threads at once.
///
/// # Contract
/// Both methods give the same at every call. What can fail has failed in [`BatchingSampler::batches`].
pub trait EpochBatches: Send + Sync {
    /// The number of batches.
    fn len(&self) -> usize;

    /// Replaces what is in `into` by the indices of batch `batch_in_epoch`. A vector that is used again is not allocated
    /// again.
    ///
    /// # Panics
    /// If `batch_in_epoch` is not below [`len`](Self::len).
    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>);

    /// Whether there is no batch at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The error of a batch without samples, in torch's words.
pub(crate) fn check_batch_size(batch_size: usize) -> Result<()> {
    if batch_size > 0 {
        return Ok(());
    }
    let reason = "batch_size should be a positive integer value, but got batch_size=0".to_owned();
    Err(Error::InvalidArgument { argument: "batch_size", reason })
}

/// Panics if one of `count` positions from `start` on, `step` apart, is not in an order of `len` indices.
fn check_positions(start: usize, step: usize, count: usize, len: usize) {
    let last = count.saturating_sub(1).checked_mul(step).and_then(|reach| reach.checked_add(start));
    assert!(
        count == 0 || last.is_some_and(|last| last < len),
        "{count} positions from {start} by {step} of an order of {len} indices"
    );
}
