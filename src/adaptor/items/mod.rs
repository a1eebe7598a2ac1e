//! [`ItemDatasetExt`]: adaptors for datasets whose samples are values of any type.

mod concat;
mod filter;
mod map;
mod map_random;
mod subset;
mod window;
mod zip;

pub use concat::ConcatItems;
pub use map::MapItems;
pub use map_random::MapRandomItems;
pub use subset::SubsetItems;
pub use window::WindowItems;
pub use zip::ZipItems;

use std::sync::Arc;

use super::mix::Mixed;
use super::shuffle::Shuffled;
use super::span::Span;
use super::window::check_counts;
use crate::Result;
use crate::dataset::ItemDataset;
use crate::sampler::{MixtureWeights, StopCriteria};

/// Adaptors for every [`ItemDataset`]. They take ownership: pass a reference or a clone of an `Arc` to keep the
/// dataset. Their names, arguments, and meanings are those of [`DatasetExt`](crate::DatasetExt). They are lazy (except
/// `filter`, which must read), and forward batched reads and keys. None of them reads ahead; a loader does, on its
/// threads.
///
/// A vector has these methods in addition to its own. To call another trait's method of the same name (such as
/// `shuffle` of the crate `rand`), call it on the slice: `vector[..].shuffle(...)`.
///
/// # Example
/// ```
/// use sluicegate::{ItemDataset, ItemDatasetExt};
///
/// let numbers: Vec<i32> = (0..100).collect();
/// let thirds = numbers.filter(|number| Ok(number % 3 == 0))?;
/// let halves = thirds.skip(1).take(10).map(|number| Ok(f64::from(number) / 2.0));
/// assert_eq!((halves.len(), halves.items(&[0, 1, 2])?), (10, vec![1.5, 3.0, 4.5]));
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub trait ItemDatasetExt: ItemDataset + Sized {
    /// Returns the results of `map` for each item. `map` is called from many threads at once, and must return the same
    /// for the same item.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{Error, ItemDataset, ItemDatasetExt};
    ///
    /// let numbers = vec!["1", "2", "many"].map(|text: &str| text.parse::<i32>().map_err(|error| Error::User(error.into())));
    /// assert_eq!(numbers.items(&[1, 0])?, [2, 1]);
    /// assert!(matches!(numbers.item(2), Err(Error::User(_))));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn map<F, U>(self, map: F) -> MapItems<Self, F>
    where
        F: Fn(Self::Item) -> Result<U> + Send + Sync,
    {
        MapItems::new(self, map)
    }

    /// Returns the results of `map` for each item and its key, from which everything random must be derived. A key is
    /// derived from the loader's [`seed`](crate::ItemLoaderBuilder::seed), the epoch, and the index that the loader
    /// requested ([`sample_key`](crate::sample_key)), so results are the same for any number of threads, and after a
    /// resume. A loader of such items needs a seed; nested random maps all receive the same key.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{ItemDatasetExt, ItemLoader};
    ///
    /// let noisy = vec![0_u64; 4].map_random(|zero, key| Ok(zero + key % 100));
    /// let loader = ItemLoader::builder(noisy, |items: Vec<u64>| Ok(items)).batch_size(4).seed(7).threads(2).build()?;
    /// let items = |epoch| loader.epoch(epoch)?.next().expect("four items");
    /// assert_eq!(items(0)?, items(0)?);
    /// assert_ne!(items(0)?, items(1)?);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn map_random<F, U>(self, map: F) -> MapRandomItems<Self, F>
    where
        F: Fn(Self::Item, u64) -> Result<U> + Send + Sync,
    {
        MapRandomItems::new(self, map)
    }

    /// Returns the items for which `is_kept` returns true, in order. All items are read once, immediately, a few
    /// hundred at a time. Takes 8 bytes for each item that is kept.
    ///
    /// # Errors
    /// Those of reading and of `is_kept`; [`Error::InvalidArgument`](crate::Error::InvalidArgument) if items are
    /// random, because later reads would return items other than the ones that were checked.
    fn filter(self, is_kept: impl FnMut(&Self::Item) -> Result<bool>) -> Result<SubsetItems<Self>> {
        filter::filter(self, is_kept)
    }

    /// Returns the items for whose indices `is_kept` returns true, in order. Reads nothing; takes 8 bytes per kept
    /// item.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{ItemDataset, ItemDatasetExt};
    ///
    /// assert_eq!(vec!['a', 'b', 'c'].filter_indices(|index| index % 2 == 0).item(1)?, 'c');
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn filter_indices(self, mut is_kept: impl FnMut(usize) -> bool) -> SubsetItems<Self> {
        let kept: Vec<usize> = (0..self.len()).filter(|&index| is_kept(index)).collect();
        SubsetItems::selected(self, kept)
    }

    /// Returns the first `items` items, or all of them if there are fewer.
    fn take(self, items: usize) -> SubsetItems<Self> {
        let span = Span::new(self.len(), 0, items);
        SubsetItems::selected(self, span)
    }

    /// Returns all items except the first `items`.
    fn skip(self, items: usize) -> SubsetItems<Self> {
        let span = Span::new(self.len(), items, usize::MAX);
        SubsetItems::selected(self, span)
    }

    /// Returns all items in a random order, which is a pure function of `seed` and their number, and takes no memory:
    /// that of [`Permutation`](crate::Permutation) in epoch 0. It is the same in every epoch; a loader's own shuffle
    /// ([`ItemLoaderBuilder::shuffle`](crate::ItemLoaderBuilder::shuffle)) gives each epoch a different order.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{ItemDataset, ItemDatasetExt};
    ///
    /// let shuffled = (0..100).collect::<Vec<_>>().shuffle(7);
    /// let mut items = shuffled.items(&(0..100).collect::<Vec<_>>())?;
    /// assert!(!items.is_sorted());
    /// items.sort();
    /// assert!(items.into_iter().eq(0..100));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn shuffle(self, seed: u64) -> SubsetItems<Self> {
        let order = Shuffled::new(self.len(), seed);
        SubsetItems::selected(self, order)
    }

    /// Returns vectors of `len` consecutive items. The first begins at item 0, and each later one `stride` items after
    /// the previous one. Every vector is full.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `len` or `stride` is 0.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{ItemDataset, ItemDatasetExt};
    ///
    /// let windows = (0..10).collect::<Vec<_>>().window(4, 3)?;
    /// assert_eq!(windows.len(), 3);
    /// assert_eq!(windows.item(2)?, [6, 7, 8, 9]);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn window(self, len: usize, stride: usize) -> Result<WindowItems<Self>> {
        check_counts(&[("len", len), ("stride", stride)])?;
        Ok(WindowItems::new(self, len, stride))
    }

    /// Returns vectors of `size` neighboring items; items at the end that do not fill a vector are dropped. Use this
    /// for items that must stay together when shuffled; otherwise let the loader make batches, including a smaller last
    /// one.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `size` is 0.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{ItemDataset, ItemDatasetExt};
    ///
    /// let pairs = vec!['a', 'b', 'c', 'd', 'e'].batch(2)?;
    /// assert_eq!(pairs.len(), 2);
    /// assert_eq!(pairs.item(1)?, ['c', 'd']);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn batch(self, size: usize) -> Result<WindowItems<Self>> {
        check_counts(&[("size", size)])?;
        Ok(WindowItems::new(self, size, size))
    }

    /// Returns pairs of an item of this dataset and the item at the same index of `other`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) if the numbers of items differ.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{ItemDataset, ItemDatasetExt};
    ///
    /// let pairs = vec!["cat", "dog"].zip(vec![0, 1])?;
    /// assert_eq!(pairs.item(1)?, ("dog", 1));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn zip<D: ItemDataset>(self, other: D) -> Result<ZipItems<Self, D>> {
        ZipItems::new(self, other)
    }

    /// Returns these items and those of `others` in proportion to `weights`, each dataset in its own random order: the
    /// first epoch of a [`MixtureSampler`](crate::MixtureSampler). Use the sampler itself to get a different order in
    /// every epoch.
    ///
    /// # Errors
    /// Those of [`MixtureSampler::new`](crate::MixtureSampler::new).
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{ItemDataset, ItemDatasetExt, MixtureWeights, StopCriteria};
    ///
    /// let weights = MixtureWeights::constant([3.0, 1.0]);
    /// let mixed = vec!['a'; 300].mix(vec![Arc::new(vec!['b'; 10])], &weights, StopCriteria::CycleForever(400), 7)?;
    /// let all = mixed.items(&(0..400).collect::<Vec<_>>())?;
    /// assert_eq!(all.iter().filter(|&&item| item == 'a').count(), 300);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn mix<'a>(
        self,
        others: Vec<Arc<dyn ItemDataset<Item = Self::Item> + 'a>>,
        weights: &MixtureWeights,
        stop: StopCriteria,
        seed: u64,
    ) -> Result<impl ItemDataset<Item = Self::Item> + Clone + 'a>
    where
        Self: 'a,
    {
        let mut parts: Vec<Arc<dyn ItemDataset<Item = Self::Item> + 'a>> = vec![Arc::new(self)];
        parts.extend(others);
        let lens: Vec<usize> = parts.iter().map(ItemDataset::len).collect();
        let order = Mixed::new(&lens, weights, stop, seed)?;
        Ok(SubsetItems::selected(ConcatItems::new(parts)?, order))
    }
}

impl<D: ItemDataset> ItemDatasetExt for D {}

/// Returns the items of `dataset` at `indices`, with these keys if there are any.
fn read<D: ItemDataset>(dataset: &D, indices: &[usize], keys: Option<&[u64]>) -> Result<Vec<D::Item>> {
    match keys {
        Some(keys) => dataset.items_with_keys(indices, keys),
        None => dataset.items(indices),
    }
}

/// Defines the methods of an adaptor that read many items, in terms of its `read`, which handles both cases: with and
/// without keys.
macro_rules! read_methods {
    () => {
        fn items(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
            self.read(indices, None)
        }

        fn items_with_keys(&self, indices: &[usize], keys: &[u64]) -> Result<Vec<Self::Item>> {
            self.read(indices, Some(keys))
        }
    };
}
use read_methods;
