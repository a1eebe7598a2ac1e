//! [`ItemDataset`]: samples that are values of any type, for those who want no fields; and its adaptors, one a file.

mod batch;
mod filter;
mod map;
mod mix;
mod pointers;
mod shuffle;
mod skip;
mod slices;
mod take;
mod window;
mod zip;

pub use batch::BatchItems;
pub use filter::FilterItems;
pub use map::MapItems;
pub use mix::MixItems;
pub use shuffle::ShuffleItems;
pub use skip::SkipItems;
pub use take::TakeItems;
pub use window::WindowItems;
pub use zip::ZipItems;

use crate::{Error, Result};

/// Items of any type, by index: what an [`ItemLoader`](crate::ItemLoader) reads.
///
/// A `&[T]` is one whose items are references into it, and a `Vec<T>` one whose items are clones; so are references, boxes and
/// `Arc`s of a dataset. Nothing is asked of the type of the items: they are made and collated on one thread. A dataset may
/// borrow from the stack.
///
/// The adaptors are lazy and hand batched reads on.
///
/// # Contract
/// - `get` and `get_many` are called from many threads at once.
/// - They are deterministic: the same index gives the same item.
/// - An index of `len()` or above is [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), never a panic.
///
/// # Example
/// ```
/// use sluicegate::{Error, ItemDataset, Result};
///
/// /// The squares of the numbers below this one.
/// struct Squares(usize);
///
/// impl ItemDataset for Squares {
///     type Item = usize;
///     fn len(&self) -> usize { self.0 }
///     fn get(&self, index: usize) -> Result<usize> {
///         if index < self.0 { Ok(index * index) } else { Err(Error::IndexOutOfRange { index, len: self.0 }) }
///     }
/// }
///
/// let texts = Squares(10).skip(2).map(|square| Ok(square.to_string()));
/// assert_eq!(texts.get_many(&[7, 0])?, ["81", "4"]);
/// assert!(texts.get(8).is_err());
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub trait ItemDataset: Send + Sync {
    /// What a sample is.
    type Item;

    /// The number of items.
    fn len(&self) -> usize;

    /// Item `index`.
    ///
    /// # Errors
    /// The index is out of range, or what lies underneath can't be read; an error of the user's own is
    /// [`Error::User`](crate::Error::User).
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// The items at `indices`, in that sequence: for datasets that read many at once cheaper than one by one.
    ///
    /// # Errors
    /// As [`get`](Self::get), for any of the indices.
    fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
        collected(indices.len(), indices.iter().map(|&index| self.get(index)))
    }

    /// Whether there is no item at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items that `map` makes of these.
    fn map<F, U>(self, map: F) -> MapItems<Self, F>
    where
        Self: Sized,
        F: Fn(Self::Item) -> Result<U> + Send + Sync,
    {
        MapItems::new(self, map)
    }

    /// The items for which `keep` is true. All of them are read for that here and now, once, a few hundred at a time; what is
    /// kept is their indices.
    ///
    /// # Errors
    /// Those of reading.
    fn filter(self, keep: impl FnMut(&Self::Item) -> bool) -> Result<FilterItems<Self>>
    where
        Self: Sized,
    {
        FilterItems::new(self, keep)
    }

    /// The first `items` of them, or all if there are fewer.
    fn take(self, items: usize) -> TakeItems<Self>
    where
        Self: Sized,
    {
        TakeItems::new(self, items)
    }

    /// All but the first `items`.
    fn skip(self, items: usize) -> SkipItems<Self>
    where
        Self: Sized,
    {
        SkipItems::new(self, items)
    }

    /// The same items in one fixed random sequence that follows from `seed` and their number; it takes no memory. A loader that
    /// is to have another order every epoch needs [`shuffle`](crate::ItemLoaderBuilder::shuffle) instead.
    fn shuffle(self, seed: u64) -> ShuffleItems<Self>
    where
        Self: Sized,
    {
        ShuffleItems::new(self, seed)
    }

    /// Vectors of `size` neighbouring items, one every `step` items; those that would reach past the end are left out.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `size` or `step` is 0.
    fn window(self, size: usize, step: usize) -> Result<WindowItems<Self>>
    where
        Self: Sized,
    {
        WindowItems::new(self, size, step)
    }

    /// Pairs of an item of this dataset and the one at the same index of `other`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] when one has more items.
    fn zip<D: ItemDataset>(self, other: D) -> Result<ZipItems<Self, D>>
    where
        Self: Sized,
    {
        ZipItems::new(self, other)
    }

    /// The items of both, each once, dealt so that any stretch has as much of each as their numbers say; the sequence of
    /// each stays.
    fn mix<D: ItemDataset<Item = Self::Item>>(self, other: D) -> MixItems<Self, D>
    where
        Self: Sized,
    {
        MixItems::new(self, other)
    }

    /// Vectors of `size` neighbouring items; the last may have fewer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `size` is 0.
    fn batch(self, size: usize) -> Result<BatchItems<Self>>
    where
        Self: Sized,
    {
        BatchItems::new(self, size)
    }
}

/// `len` items, or the first error. Collecting into a `Result` does not know how many will come, and moves them as it grows.
fn collected<T>(len: usize, items: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(len);
    for item in items {
        all.push(item?);
    }
    Ok(all)
}

/// Fails when there is no item `index` among `len`.
fn check_index(index: usize, len: usize) -> Result<()> {
    if index < len { Ok(()) } else { Err(Error::IndexOutOfRange { index, len }) }
}

/// As [`check_index`], for each of `indices`.
fn check_indices(indices: &[usize], len: usize) -> Result<()> {
    indices.iter().try_for_each(|&index| check_index(index, len))
}

/// Fails when `items`, an argument of this name, is 0.
fn check_positive(argument: &'static str, items: usize) -> Result<()> {
    if items > 0 {
        return Ok(());
    }
    Err(Error::InvalidArgument { argument, reason: "it is a number of items, and at least 1, but 0 was given".into() })
}

/// The items of `runs` stretches of `dataset`, each as a vector: stretch n is what `stretch(n)` says, first and one past the
/// last. They are read at once.
fn stretches<D: ItemDataset>(
    dataset: &D,
    runs: &[usize],
    stretch: impl Fn(usize) -> std::ops::Range<usize>,
) -> Result<Vec<Vec<D::Item>>> {
    let indices: Vec<usize> = runs.iter().flat_map(|&run| stretch(run)).collect();
    let items = dataset.get_many(&indices)?;
    if items.len() != indices.len() {
        let (given, asked) = (items.len(), indices.len());
        let reason = format!("get_many gave {given} items for {asked} indices: it must give one for each");
        return Err(Error::InvalidArgument { argument: "dataset", reason });
    }
    let mut items = items.into_iter();
    Ok(runs.iter().map(|&run| items.by_ref().take(stretch(run).len()).collect()).collect())
}
