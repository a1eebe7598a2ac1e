//! HOW a dataset becomes another: [`DatasetExt`], [`ItemDatasetExt`] for datasets of items and [`IterableDatasetExt`] for
//! streams; one adaptor a file.
//!
//! An adaptor passes on all that its dataset can do: batched reads, blocks, sizes, randomness and where a sample is from.

mod filter;
mod items;
mod map;
mod mix;
mod sample;
mod samples;
mod shuffle;
mod span;
mod stream;
mod transform;
mod window;

pub use items::{ConcatItems, ItemDatasetExt, MapItems, MapRandomItems, MixItems, SubsetItems, WindowItems, ZipItems};
pub use map::Map;
pub use sample::Sample;
pub use stream::{
    IterableDatasetExt, StreamFilter, StreamMap, StreamMix, StreamPrefetch, StreamSample, StreamSkip, StreamTake,
    StreamWindow, StreamZip,
};
pub use transform::Transform;
pub use window::Window;

use std::sync::Arc;

use self::mix::Mixed;
use self::shuffle::Shuffled;
use self::span::Span;
use crate::dataset::{Concat, Dataset, Stack, Subset, shared};
use crate::sampler::{MixtureWeights, StopCriteria};
use crate::{Result, SampleWriter, Schema};

/// Adaptors of every [`Dataset`], which they take whole: give a clone of an `Arc` to keep it. None reads ahead: a loader does,
/// on its [`threads`](crate::DataLoaderBuilder::threads).
///
/// # Example
/// ```
/// use sluicegate::{DType, DataLoader, DatasetExt, Field, InMemory, Schema};
///
/// let numbers = InMemory::from_vec("number", (0..100_i64).collect(), [])?;
/// let halves = Schema::new([Field::new("half", DType::Float32, [])]);
/// let thirds = numbers.filter(|sample| Ok(sample.values::<i64>(0)?[0] % 3 == 0))?;
/// let dataset = thirds.skip(1).take(10).map(halves, |sample, into| {
///     let half = sample.values::<i64>(0)?[0] as f32 / 2.0;
///     into.field(0).copy_from_slice(&half.to_ne_bytes());
///     Ok(())
/// })?;
/// let batch = DataLoader::builder(dataset).batch_size(3).build()?.epoch(0)?.next().expect("ten samples")?;
/// assert_eq!(batch.field("half")?.view::<f32>()?, [1.5, 3.0, 4.5]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub trait DatasetExt: Dataset + Sized + 'static {
    /// Samples of `schema` that `map` makes of these, one of each. It fills every field of the room that it is given, is
    /// called from many threads at once, and like [`Dataset::read`] gives the same for the same sample. Samples that are read
    /// together are still read together, into memory that is used again.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when `schema` has a variable field: how large a sample is must
    /// be known before it is made.
    fn map<F>(self, schema: Schema, map: F) -> Result<Map>
    where
        F: Fn(&Sample<'_>, &mut SampleWriter<'_>) -> Result<()> + Send + Sync + 'static,
    {
        Map::new(shared(self), schema, Box::new(map))
    }

    /// As [`map`](Self::map), for a closure that draws: all that is random about a sample follows from the key that it is given. A
    /// key follows from the loader's [`seed`](crate::DataLoaderBuilder::seed), the epoch and the index that the loader asked
    /// for ([`sample_key`](crate::sample_key)): what comes is the same for any number of threads, and after a resume. A loader
    /// of such samples needs a seed; several of these, one over the other, get one key.
    ///
    /// # Errors
    /// Those of [`map`](Self::map).
    ///
    /// # Example
    /// ```
    /// use sluicegate::{DType, DataLoader, DatasetExt, Field, InMemory, Schema};
    ///
    /// let schema = Schema::new([Field::new("noise", DType::UInt64, [])]);
    /// let noise = InMemory::from_vec("number", (0..4_u64).collect(), [])?.map_random(schema, |_, key, into| {
    ///     into.field(0).copy_from_slice(&key.to_ne_bytes());
    ///     Ok(())
    /// })?;
    /// let loader = DataLoader::builder(noise).batch_size(4).seed(7).build()?;
    /// let noise = |epoch| loader.epoch(epoch)?.next().expect("four samples")?.to_vec::<u64>(0);
    /// assert_eq!(noise(0)?, noise(0)?);
    /// assert_ne!(noise(0)?, noise(1)?);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn map_random<F>(self, schema: Schema, map: F) -> Result<Map>
    where
        F: Fn(&Sample<'_>, u64, &mut SampleWriter<'_>) -> Result<()> + Send + Sync + 'static,
    {
        Map::random(shared(self), schema, map)
    }

    /// Samples as `transform` makes them, one of each; it says what they are. They are read together as those of
    /// [`map`](Self::map) are, and random where the transform is: a loader of such needs a seed.
    ///
    /// # Errors
    /// Those of [`Transform::schema`], and as for [`map`](Self::map).
    fn transform(self, transform: impl Transform + 'static) -> Result<Map> {
        Map::by(shared(self), transform)
    }

    /// The samples that `is_kept` says yes to, in their order. All of them are read, once, here: a dataset says how many
    /// samples it has. Takes 8 bytes for each that is kept.
    ///
    /// # Errors
    /// Those of reading, and of `is_kept`; [`Error::InvalidArgument`](crate::Error::InvalidArgument) when samples are random, and
    /// the ones that are read later would not be those that were kept.
    fn filter(self, is_kept: impl FnMut(&Sample<'_>) -> Result<bool>) -> Result<Subset> {
        filter::filter(shared(self), is_kept)
    }

    /// The samples whose indices `is_kept` says yes to, in their order. Nothing is read; takes 8 bytes for each that is kept.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{Dataset, DatasetExt, InMemory};
    ///
    /// let even = InMemory::from_vec("x", vec![5_u8, 6, 7], [])?.filter_indices(|index| index % 2 == 0);
    /// assert_eq!(even.len(), 2);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn filter_indices(self, mut is_kept: impl FnMut(usize) -> bool) -> Subset {
        let kept: Vec<usize> = (0..self.len()).filter(|&index| is_kept(index)).collect();
        Subset::selected(shared(self), kept)
    }

    /// The first `samples` samples, or all where there are fewer.
    fn take(self, samples: usize) -> Subset {
        let span = Span::new(self.len(), 0, samples);
        Subset::selected(shared(self), span)
    }

    /// All samples but the first `samples`.
    fn skip(self, samples: usize) -> Subset {
        let span = Span::new(self.len(), samples, usize::MAX);
        Subset::selected(shared(self), span)
    }

    /// All samples in a random order, which is a pure function of `seed` and their number, and takes no memory: that of
    /// [`Permutation`](crate::Permutation) in epoch 0. It is the same in every epoch; a loader's own shuffle
    /// ([`DataLoaderBuilder::shuffle`](crate::DataLoaderBuilder::shuffle)) gives each epoch another.
    fn shuffle(self, seed: u64) -> Subset {
        let order = Shuffled::new(self.len(), seed);
        Subset::selected(shared(self), order)
    }

    /// Windows of `len` consecutive samples, stacked: each field has a first axis of `len` more. The first begins at sample 0,
    /// each other `stride` samples after the one before; there is none that is not full.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when `len` or `stride` is 0, or a field is variable: such
    /// samples can't be stacked.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{DataLoader, Dataset, DatasetExt, InMemory};
    ///
    /// let windows = InMemory::from_vec("x", (0..8_i64).collect(), [])?.window(4, 2)?;
    /// assert_eq!((windows.len(), windows.schema().to_string().as_str()), (3, "(x: int64[4])"));
    /// let last = DataLoader::builder(windows).build()?.epoch(0)?.last().expect("three windows")?;
    /// assert_eq!(last.field("x")?.view::<i64>()?, [4, 5, 6, 7]);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn window(self, len: usize, stride: usize) -> Result<Window> {
        Window::new(shared(self), len, stride)
    }

    /// Batches of `size` neighbouring samples, stacked, as one sample each: every field has a first axis of `size` more. Samples at
    /// the end that do not fill one are left out. For what belongs together however it is shuffled; a loader makes its batches
    /// itself, a last one that is smaller too.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when `size` is 0, or a field is variable: such samples can't be
    /// stacked.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{Dataset, DatasetExt, InMemory};
    ///
    /// let pairs = InMemory::from_vec("x", (0..5_i64).collect(), [])?.batch(2)?;
    /// assert_eq!((pairs.len(), pairs.schema().to_string().as_str()), (2, "(x: int64[2])"));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn batch(self, size: usize) -> Result<Window> {
        Window::batches(shared(self), size)
    }

    /// These samples and those of `other` side by side: sample i has the fields of both. [`Stack::new`] does it for any
    /// number of datasets, and names them.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) when one has more samples;
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when both have a field of one name.
    fn zip(self, other: impl Dataset + 'static) -> Result<Stack> {
        Stack::zipped(shared(self), shared(other))
    }

    /// These samples and those of `others` in proportion to `weights`, each dataset in a random order of its own: the first
    /// epoch of a [`MixtureSampler`](crate::MixtureSampler), which does it with another order in every epoch.
    ///
    /// # Errors
    /// [`Error::SchemaMismatch`](crate::Error::SchemaMismatch) when samples differ in data types or shapes; those of
    /// [`MixtureSampler::new`](crate::MixtureSampler::new).
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{Dataset, DatasetExt, InMemory, MixtureWeights, StopCriteria};
    ///
    /// let common = InMemory::from_vec("x", vec![0_u8; 300], [])?;
    /// let rare = Arc::new(InMemory::from_vec("x", vec![1_u8; 10], [])?);
    /// let weights = MixtureWeights::constant([3.0, 1.0]);
    /// let mixed = common.mix(vec![rare], &weights, StopCriteria::CycleForever(400), 7)?;
    /// assert_eq!(mixed.len(), 400);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn mix(
        self,
        others: Vec<Arc<dyn Dataset>>,
        weights: &MixtureWeights,
        stop: StopCriteria,
        seed: u64,
    ) -> Result<Subset> {
        let mut parts = vec![shared(self)];
        parts.extend(others);
        let lens: Vec<usize> = parts.iter().map(Dataset::len).collect();
        let parts = Arc::new(Concat::new(parts)?);
        Ok(Subset::selected(parts, Mixed::new(&lens, weights, stop, seed)?))
    }
}

impl<D: Dataset + 'static> DatasetExt for D {}
