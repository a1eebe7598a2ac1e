//! [`BurnLoader`]: makes our loaders usable for training with burn.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataloader::{DataLoader as BurnDataLoader, DataLoaderIterator, Progress};
use burn_core::data::dataset::DatasetError;
use burn_core::tensor::Device;

use super::epochs::{Epochs, Fields, Steps};
use crate::{
    Batch, DataLoader, DataLoaderBuilder, Dataset, DatasetExt, Error, ItemDataset, ItemDatasetExt, ItemLoader,
    ItemLoaderBuilder, LoaderState,
};

/// A loader that burn can train from: burn's trait `DataLoader`, over an [`ItemLoader`] or a [`DataLoader`]. Feature
/// `burn`.
///
/// Each `iter()` is the next epoch, from 0 on, in a different order if the loader shuffles. The order of batches is
/// determined by the seed, whatever the number of threads, and [`resume`](Self::resume) continues in the middle of an
/// epoch. A batch that cannot be loaded is an error in its place, a `DatasetError` whose `source()` is the [`Error`].
///
/// burn derives other loaders from it: [`to_device`](BurnDataLoader::to_device) returns one with the same epochs, whose
/// iterators are counted together with this one's; [`slice`](BurnDataLoader::slice) returns one for a part of the
/// dataset, in an order of that part. Both are created by the closure that configured this one. A sampler set in that
/// closure is for one dataset length, and batches of a slice that request indices outside the slice are errors;
/// [`shuffle`](ItemLoaderBuilder::shuffle) works for any length. The randomness of a sample is derived from its index
/// in the whole dataset, however the dataset is sliced. `num_items` is the length of the dataset or slice; the progress
/// of an iterator counts the samples received.
pub struct BurnLoader<O> {
    make: Arc<Make<O>>,
    items: Range<usize>,
    device: Device,
    /// The epochs that `make` created, or the reason for its failure.
    epochs: Result<Box<dyn Epochs<O>>, Arc<Error>>,
    /// Number of samples in one epoch: fewer than items if a shard or a dropped last batch omits some.
    samples: usize,
    place: Arc<Mutex<Place>>,
}

/// Creates the epochs of some items of the dataset, for a device.
type Make<O> = dyn Fn(Range<usize>, &Device) -> crate::Result<Box<dyn Epochs<O>>> + Send + Sync;

/// The epoch of the next iterator, and the position of the last one.
#[derive(Default)]
struct Place {
    next: u64,
    /// The state from which the next iterator resumes instead.
    resume: Option<LoaderState>,
    /// Number of iterators started, and the position of the last of them.
    begun: u64,
    last: Option<LoaderState>,
}

impl<O: Send + 'static> BurnLoader<O> {
    /// Returns a loader of items: `batcher` makes batches of the items of `dataset`, on the fetching threads and for
    /// the device to which the loader is moved. `settings` configures everything else.
    ///
    /// # Errors
    /// Those of [`ItemLoaderBuilder::build`], and of the sampler.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "burn-flex")] {
    /// use burn_core::data::dataloader::{DataLoader, batcher::Batcher};
    /// use burn_core::tensor::Device;
    /// use sluicegate::BurnLoader;
    ///
    /// struct Sum;
    ///
    /// impl Batcher<i32, i32> for Sum {
    ///     fn batch(&self, items: Vec<i32>, _device: &Device) -> i32 { items.iter().sum() }
    /// }
    ///
    /// let numbers: Vec<i32> = (0..100).collect();
    /// let loader = BurnLoader::of_items(numbers, Sum, Device::flex(), |loader| loader.batch_size(8).shuffle(7).threads(2))?;
    /// let sums = loader.iter().collect::<Result<Vec<i32>, _>>().expect("numbers can be read");
    /// assert_eq!((sums.len(), sums.iter().sum::<i32>(), loader.num_items()), (13, 4950, 100));
    /// # }
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn of_items<D, B>(
        dataset: D,
        batcher: B,
        device: Device,
        settings: impl Fn(ItemLoaderBuilder<'static, O>) -> ItemLoaderBuilder<'static, O> + Send + Sync + 'static,
    ) -> crate::Result<Self>
    where
        D: ItemDataset + 'static,
        B: Batcher<D::Item, O> + 'static,
    {
        let (items, dataset, batcher) = (0..dataset.len(), Arc::new(dataset), Arc::new(batcher));
        let make = move |items: Range<usize>, device: &Device| {
            let dataset = ItemDatasetExt::take(ItemDatasetExt::skip(Arc::clone(&dataset), items.start), items.len());
            let (batcher, device) = (Arc::clone(&batcher), device.clone());
            let loader = ItemLoader::builder(dataset, move |items_of_batch| Ok(batcher.batch(items_of_batch, &device)));
            Ok(Box::new(settings(loader.first_index(items.start)).build()?) as Box<dyn Epochs<O>>)
        };
        Self::new(Arc::new(make), items, device, Arc::default())
    }

    /// Returns a loader of fields: `to_device` converts a [`Batch`] to the model's input, on the thread that requests
    /// it and for the device to which the loader is moved. `settings` configures everything else.
    ///
    /// # Errors
    /// Those of [`DataLoaderBuilder::build`], and of the sampler.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "burn-flex")] {
    /// use burn_core::data::dataloader::DataLoader;
    /// use burn_core::tensor::{Device, Tensor};
    /// use sluicegate::{BurnLoader, InMemory};
    ///
    /// let points = InMemory::from_vec("point", vec![0.5_f32; 2 * 100], [2])?;
    /// let to_device = |batch: sluicegate::Batch, device: &Device| {
    ///     Ok(Tensor::<2>::from_data(batch.field("point")?.to_burn()?, device))
    /// };
    /// let loader = BurnLoader::of_fields(points, to_device, Device::flex(), |loader| loader.batch_size(64).shuffle(7))?;
    /// let first = loader.iter().next().expect("100 points").expect("they are in memory");
    /// assert_eq!(first.dims(), [64, 2]);
    /// # }
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn of_fields(
        dataset: impl Dataset + 'static,
        to_device: impl Fn(Batch, &Device) -> crate::Result<O> + Send + Sync + 'static,
        device: Device,
        settings: impl Fn(DataLoaderBuilder) -> DataLoaderBuilder + Send + Sync + 'static,
    ) -> crate::Result<Self> {
        let (items, dataset, to_device) = (0..dataset.len(), Arc::new(dataset), Arc::new(to_device));
        let make = move |items: Range<usize>, device: &Device| {
            let dataset = DatasetExt::take(DatasetExt::skip(Arc::clone(&dataset), items.start), items.len());
            let loader = settings(DataLoader::builder(dataset).first_index(items.start)).build()?;
            let (to_device, device) = (Arc::clone(&to_device), device.clone());
            let made = Arc::new(move |batch| to_device(batch, &device));
            Ok(Box::new(Fields { loader, made }) as Box<dyn Epochs<O>>)
        };
        Self::new(Arc::new(make), items, device, Arc::default())
    }

    /// Makes the next iterator start epoch `epoch`, to continue an earlier training run.
    #[must_use]
    pub fn starting_at(self, epoch: u64) -> Self {
        self.place().next = epoch;
        self
    }

    /// Returns the position of the iterator that started last, here or on a device to which the loader was moved; None
    /// before the first one.
    #[must_use]
    pub fn state(&self) -> Option<LoaderState> {
        self.place().last.clone()
    }

    /// Makes the next iterator resume in the middle of the epoch in which `state` was saved; later iterators are for
    /// later epochs.
    ///
    /// # Errors
    /// As [`DataLoader::resume`].
    pub fn resume(&self, state: &LoaderState) -> crate::Result<()> {
        if let Ok(epochs) = &self.epochs {
            epochs.resume(state)?;
        }
        self.place().resume = Some(state.clone());
        Ok(())
    }

    fn new(make: Arc<Make<O>>, items: Range<usize>, device: Device, place: Arc<Mutex<Place>>) -> crate::Result<Self> {
        let epochs = make(items.clone(), &device)?;
        let samples = epochs.plan()?.samples().unwrap_or(items.len());
        Ok(Self { make, items, device, epochs: Ok(epochs), samples, place })
    }

    /// Returns the same loader for other items or a different device. burn's methods return no errors, so a failure is
    /// reported when reading.
    fn again(&self, items: Range<usize>, device: &Device, place: Arc<Mutex<Place>>) -> Arc<dyn BurnDataLoader<O>> {
        let (make, device) = (Arc::clone(&self.make), device.clone());
        Arc::new(
            Self::new(Arc::clone(&make), items.clone(), device.clone(), Arc::clone(&place))
                .unwrap_or_else(|error| Self { make, items, device, epochs: Err(Arc::new(error)), samples: 0, place }),
        )
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the next epoch; also returns the number of the iterator.
    fn begin(&self, epochs: &dyn Epochs<O>) -> crate::Result<(Box<dyn Steps<O>>, u64)> {
        let mut place = self.place();
        // If this fails, the next iterator is for the same epoch, at the same position.
        let (epoch, steps) = match &place.resume {
            Some(state) => (state.epoch(), epochs.resume(state)?),
            None => (place.next, epochs.start(place.next)?),
        };
        (place.resume, place.next) = (None, epoch.saturating_add(1));
        place.last = Some(steps.state());
        place.begun += 1;
        Ok((steps, place.begun))
    }
}

impl<O: Send + 'static> BurnDataLoader<O> for BurnLoader<O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let begun = match &self.epochs {
            Ok(epochs) => self.begin(&**epochs).map_err(DatasetError::new),
            Err(error) => Err(DatasetError::new(Arc::clone(error))),
        };
        let (steps, number) = match begun {
            Ok((steps, number)) => (Ok(steps), number),
            Err(error) => (Err(Some(error)), 0),
        };
        let left = steps.as_ref().ok().and_then(|steps| steps.samples()).unwrap_or(self.samples);
        Box::new(Iter { steps, number, processed: self.samples.saturating_sub(left), loader: self })
    }

    fn num_items(&self) -> usize {
        // Like burn's own loaders: burn splits a loader among devices by positions in the dataset.
        self.items.len()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn BurnDataLoader<O>> {
        self.again(self.items.clone(), device, Arc::clone(&self.place))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn BurnDataLoader<O>> {
        let at = |place: usize| self.items.start + place.min(self.items.len());
        let place = Place { next: self.place().next, ..Place::default() };
        self.again(at(start)..at(end.max(start)), &self.device, Arc::new(Mutex::new(place)))
    }
}

/// One epoch of a [`BurnLoader`].
struct Iter<'a, O> {
    /// The steps, or the reason that there are none; None once the reason was returned.
    steps: Result<Box<dyn Steps<O>>, Option<DatasetError>>,
    /// The number of this iterator of the loader.
    number: u64,
    processed: usize,
    loader: &'a BurnLoader<O>,
}

impl<O: Send + 'static> Iterator for Iter<'_, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let steps = match &mut self.steps {
            Ok(steps) => steps,
            Err(error) => return error.take().map(Err),
        };
        let (batch, items) = steps.step()?;
        self.processed += items;
        let mut place = self.loader.place();
        if place.begun == self.number {
            place.last = Some(steps.state());
        }
        Some(batch.map_err(DatasetError::new))
    }
}

impl<O: Send + 'static> DataLoaderIterator<O> for Iter<'_, O> {
    fn progress(&self) -> Progress {
        Progress::new(self.processed, self.loader.samples, Some("items".into()))
    }
}
