//! Which index comes next: a [`Sampler`] creates an [`EpochOrder`] for every epoch.
//!
//! One sampler per file. A sampler has a length and possibly a seed; it does not depend on datasets, batches in memory,
//! or ranks.

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
mod mixture_weights;
mod packed_batch;
mod packed_rows;
mod packing;
mod plan;
mod random;
mod repeat;
mod sequential;
mod shuffle_buffer;
mod shuffled_blocks;
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
pub use mixture::MixtureSampler;
pub use mixture_weights::{MixtureWeights, StopCriteria};
pub use packed_batch::{PackedBatchSampler, PieceCode};
pub use packing::Packing;
pub use plan::{EpochPlan, PlannedBatch};
pub use random::RandomSampler;
pub use repeat::RepeatSampler;
pub use sequential::SequentialSampler;
pub use shuffle_buffer::{BufferBound, BufferPosition, ShuffleBuffer};
pub use shuffling::Shuffling;
pub use stratified_batch::StratifiedBatchSampler;
pub use subset_random::SubsetRandomSampler;
pub use torch_random::TorchRandomSampler;
pub use weighted_random::WeightedRandomSampler;

use crate::error::{Error, Result};

/// Determines which samples an epoch reads, and in which order.
///
/// # Contract
/// - **Determinism.** The order is a pure function of the sampler and `epoch`: it is the same at every call, for any
///   sequence of epochs, on any thread, in another process, or after a restart. Resuming depends on this.
/// - **Threads.** `order` may be called from many threads at once, and may run while other epochs are read.
/// - **Cost.** It is called once per epoch, before the first batch, and delays the epoch by the time it takes.
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
    /// Returns the order of `epoch`, counted from 0.
    ///
    /// # Errors
    /// Any error that prevents the order from being created: no memory for it, or a user's own error as
    /// [`Error::User`](crate::Error::User).
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>>;

    /// Returns a text that identifies this sampler: samplers with different orders should have different texts, and a
    /// sampler must have the same text in every process. The text is saved in states, and a state with a different text
    /// is rejected.
    ///
    /// By default it is the name of the type. A sampler with a seed, or with other parameters that determine its
    /// orders, should override this and include them. It may cost as much as an order; it is called once, when a loader
    /// is created.
    fn identity(&self) -> String {
        identity::name_of::<Self>()
    }
}

/// The order of one epoch: which index is read at each position.
///
/// # Contract
/// - **Determinism.** Both methods return the same at every call, in whatever sequence positions are requested.
/// - **Threads.** Both may be called from many threads at once.
/// - **Cost.** `index_at` is called for every sample: it should take nanoseconds, without locks or system calls.
///   Anything that can fail must fail in [`Sampler::order`].
///
/// # Panics
/// `index_at` may panic if `position` is not below `len`; it is never called with such a position.
pub trait EpochOrder: Send + Sync {
    /// Returns the number of positions, which may differ from the number of samples in the dataset.
    fn len(&self) -> usize;

    /// Returns the index to read at `position`.
    fn index_at(&self, position: usize) -> usize;

    /// Fills `into` with the indices from position `start` on: [`index_at`](Self::index_at) of each position.
    ///
    /// # Panics
    /// As `index_at`, if one of the positions is not below `len`.
    fn indices(&self, start: usize, into: &mut [usize]) {
        self.indices_by(start, 1, into);
    }

    /// Fills `into` with the indices at the positions `start`, `start + step`, and so on: the positions that one rank
    /// reads.
    ///
    /// An order that computes several indices faster together than one by one should override this, which also speeds
    /// up [`indices`](Self::indices).
    ///
    /// # Panics
    /// As `index_at`, if one of the positions is not below `len`.
    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        for (place, index) in into.iter_mut().enumerate() {
            *index = self.index_at(start + place * step);
        }
    }

    /// True if the epoch has no positions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Determines which samples each batch of an epoch contains, for samplers that do more than cut an order into equal
/// parts.
///
/// # Contract
/// As for [`Sampler`]: the batches are a pure function of the sampler and `epoch`.
pub trait BatchingSampler: Send + Sync {
    /// Returns the batches of `epoch`, counted from 0.
    ///
    /// # Errors
    /// As [`Sampler::order`].
    fn batches(&self, epoch: u64) -> Result<Box<dyn EpochBatches>>;

    /// Returns a text that identifies this sampler, like [`Sampler::identity`].
    fn identity(&self) -> String {
        identity::name_of::<Self>()
    }
}

/// The batches of one epoch. Any of them can be requested at any time, from many threads at once.
///
/// # Contract
/// Both methods return the same at every call. Anything that can fail must fail in [`BatchingSampler::batches`].
pub trait EpochBatches: Send + Sync {
    /// Returns the number of batches.
    fn len(&self) -> usize;

    /// Replaces the contents of `into` with the indices of batch `batch_in_epoch`. Reusing a vector avoids an
    /// allocation.
    ///
    /// # Panics
    /// If `batch_in_epoch` is not below [`len`](Self::len).
    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>);

    /// True if there are no batches.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Fails if `number` is 0, with the message that torch has for `batch_size`.
pub(crate) fn check_positive(argument: &'static str, number: usize) -> Result<()> {
    if number > 0 {
        return Ok(());
    }
    Err(Error::invalid(argument, format!("{argument} should be a positive integer value, but got {argument}=0")))
}

/// Panics if one of `count` positions from `start` on, `step` apart, is not in an order of `len` indices.
fn check_positions(start: usize, step: usize, count: usize, len: usize) {
    let last = count.saturating_sub(1).checked_mul(step).and_then(|reach| reach.checked_add(start));
    assert!(
        count == 0 || last.is_some_and(|last| last < len),
        "{count} positions from {start} by {step} of an order of {len} indices"
    );
}
