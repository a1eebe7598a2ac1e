//! How one dataset becomes another: [`DatasetExt`], [`ItemDatasetExt`] for datasets of items, and
//! [`IterableDatasetExt`] for streams; one adaptor per file.
//!
//! An adaptor preserves all capabilities of its dataset: batched reads, blocks, sizes, randomness, and sample origins.

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

pub use items::{ConcatItems, ItemDatasetExt, MapItems, MapRandomItems, SubsetItems, WindowItems, ZipItems};
pub use sample::Sample;
pub use stream::{IterableDatasetExt, StreamSample};
pub use transform::Transform;

use std::sync::Arc;

use self::map::Map;
use self::mix::Mixed;
use self::shuffle::Shuffled;
use self::span::Span;
use self::window::{Window, check_counts};
use crate::dataset::{Concat, Dataset, Stack, Subset, shared};
use crate::sampler::{MixtureWeights, StopCriteria};
use crate::{Result, SampleWriter, Schema};

/// Adaptors for every [`Dataset`]. They take ownership: pass a clone of an `Arc` to keep the dataset. A result without
/// a name can be stored as `Arc<dyn Dataset>`. None of them reads ahead; a loader does, on its
/// [`threads`](crate::DataLoaderBuilder::threads).
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
    /// Returns samples of `schema`, each made by `map` from one sample of this dataset. `map` must fill every field of
    /// the writer that it receives. It is called from many threads at once, and like [`Dataset::read`] must return the
    /// same for the same sample. Samples that are read together are still read together, into memory that is reused.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `schema` has a variable field: the size of a sample
    /// must be known before the sample is made.
    fn map<F>(self, schema: Schema, map: F) -> Result<impl Dataset>
    where
        F: Fn(&Sample<'_>, &mut SampleWriter<'_>) -> Result<()> + Send + Sync + 'static,
    {
        Map::new(shared(self), schema, Box::new(map))
    }

    /// Like [`map`](Self::map), for a closure with randomness: everything random about a sample must be derived from
    /// the key that the closure receives. A key is derived from the loader's [`seed`](crate::DataLoaderBuilder::seed),
    /// the epoch, and the index that the loader requested ([`sample_key`](crate::sample_key)), so results are the same
    /// for any number of threads, and after a resume. A loader of such samples needs a seed; nested random maps all
    /// receive the same key.
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
    fn map_random<F>(self, schema: Schema, map: F) -> Result<impl Dataset>
    where
        F: Fn(&Sample<'_>, u64, &mut SampleWriter<'_>) -> Result<()> + Send + Sync + 'static,
    {
        Map::random(shared(self), schema, map)
    }

    /// Returns the results of `transform` for each sample; the transform defines their schema. They are read together
    /// like those of [`map`](Self::map), and are random if the transform is: a loader of random samples needs a seed.
    ///
    /// # Errors
    /// Those of [`Transform::schema`] and of [`map`](Self::map).
    fn transform(self, transform: impl Transform + 'static) -> Result<impl Dataset> {
        Map::by(shared(self), transform)
    }

    /// Returns the samples for which `is_kept` returns true, in order. All samples are read once, immediately, because
    /// a dataset must know its length. Takes 8 bytes for each sample that is kept.
    ///
    /// # Errors
    /// Those of reading and of `is_kept`; [`Error::InvalidArgument`](crate::Error::InvalidArgument) if samples are
    /// random, because later reads would return samples other than the ones that were checked.
    fn filter(self, is_kept: impl FnMut(&Sample<'_>) -> Result<bool>) -> Result<Subset> {
        filter::filter(shared(self), is_kept)
    }

    /// Returns the samples for whose indices `is_kept` returns true, in order. Reads nothing; takes 8 bytes per kept
    /// sample.
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

    /// Returns the first `samples` samples, or all of them if there are fewer.
    fn take(self, samples: usize) -> Subset {
        let span = Span::new(self.len(), 0, samples);
        Subset::selected(shared(self), span)
    }

    /// Returns all samples except the first `samples`.
    fn skip(self, samples: usize) -> Subset {
        let span = Span::new(self.len(), samples, usize::MAX);
        Subset::selected(shared(self), span)
    }

    /// Returns all samples in a random order, which is a pure function of `seed` and their number, and takes no memory:
    /// that of [`Permutation`](crate::Permutation) in epoch 0. It is the same in every epoch; a loader's own shuffle
    /// ([`DataLoaderBuilder::shuffle`](crate::DataLoaderBuilder::shuffle)) gives each epoch a different order.
    fn shuffle(self, seed: u64) -> Subset {
        let order = Shuffled::new(self.len(), seed);
        Subset::selected(shared(self), order)
    }

    /// Returns windows of `len` consecutive samples, stacked: each field gets a new first axis of size `len`. The first
    /// window begins at sample 0, and each later one `stride` samples after the previous one. Every window is full.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `len` or `stride` is 0, or a field is variable,
    /// because such samples cannot be stacked.
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
    fn window(self, len: usize, stride: usize) -> Result<impl Dataset> {
        check_counts(&[("len", len), ("stride", stride)])?;
        Window::new(shared(self), len, stride)
    }

    /// Returns batches of `size` neighboring samples, stacked, as one sample each: every field gets a new first axis of
    /// size `size`. Samples at the end that do not fill a batch are dropped. Use this for samples that must stay
    /// together when shuffled; otherwise let the loader make batches, including a smaller last one.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `size` is 0, or a field is variable, because such
    /// samples cannot be stacked.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{Dataset, DatasetExt, InMemory};
    ///
    /// let pairs = InMemory::from_vec("x", (0..5_i64).collect(), [])?.batch(2)?;
    /// assert_eq!((pairs.len(), pairs.schema().to_string().as_str()), (2, "(x: int64[2])"));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn batch(self, size: usize) -> Result<impl Dataset> {
        check_counts(&[("size", size)])?;
        Window::new(shared(self), size, size)
    }

    /// Returns these samples and those of `other` side by side: sample i has the fields of both. [`Stack::new`] does
    /// this for any number of datasets, and names them.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) if the numbers of samples differ;
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if both have a field with the same name.
    fn zip(self, other: impl Dataset + 'static) -> Result<Stack> {
        Stack::zipped(shared(self), shared(other))
    }

    /// Returns these samples and those of `others` in proportion to `weights`, each dataset in its own random order:
    /// the first epoch of a [`MixtureSampler`](crate::MixtureSampler). Use the sampler itself to get a different order
    /// in every epoch.
    ///
    /// # Errors
    /// [`Error::SchemaMismatch`](crate::Error::SchemaMismatch) if samples differ in data types or shapes; those of
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
