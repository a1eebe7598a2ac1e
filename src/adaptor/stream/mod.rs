//! [`IterableDatasetExt`]: adaptors of datasets without an index.

mod filter;
mod map;
mod mix;
mod peeked;
mod prefetch;
mod sample;
mod skip;
mod take;
mod window;
mod zip;

pub use filter::StreamFilter;
pub use map::StreamMap;
pub use mix::StreamMix;
pub use prefetch::StreamPrefetch;
pub use sample::StreamSample;
pub use skip::StreamSkip;
pub use take::StreamTake;
pub use window::StreamWindow;
pub use zip::StreamZip;

use std::sync::Arc;

use crate::dataset::IterableDataset;
use crate::{Result, TypedField};

/// Adaptors of every [`IterableDataset`], which they take whole: give a clone of an `Arc` to keep it.
///
/// Samples keep the ordinals and positions that they have in what is adapted: whoever reads some of it, splits it among ranks or
/// goes on at a position says the same as without the adaptor. Windows and batches have ordinals of their own.
///
/// A panic in a closure is [`Error::Panic`](crate::Error::Panic), with the ordinal of its sample. None of these shuffles: a position
/// of a shuffled stream is more than a place in it. [`StreamBatches::shuffle`](crate::StreamBatches::shuffle) does, whose
/// [`StreamState`](crate::StreamState) has all of it.
///
/// # Example
/// ```
/// use sluicegate::{DType, Field, IterableDatasetExt, StreamBatches, StreamDataset, StreamFormat, StreamSource, TypedField};
///
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 9".into())], StreamFormat::JsonLines(None));
/// let lengths = vec![TypedField::number(Field::new("length", DType::Int64, []))?];
/// let dataset = lines.skip(2).filter(|sample| Ok(sample.bytes(0) != b"5")).map(lengths, |sample, into| {
///     into[0].extend((sample.bytes(0).len() as i64).to_ne_bytes());
///     Ok(())
/// });
/// let batches = StreamBatches::new(dataset.take(8), 4)?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(batches.iter().map(|batch| batch.samples()).collect::<Vec<_>>(), [4, 1]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub trait IterableDatasetExt: IterableDataset + Sized + 'static {
    /// Samples of `fields` that `map` makes of these, one of each: it appends the bytes of each field to the vector in its
    /// place. It is called in the order of the stream, by one thread in each pass. What is random is drawn from
    /// [`sample_key`](crate::sample_key) of a seed, an epoch and the [ordinal](StreamSample::ordinal).
    fn map<F>(self, fields: Vec<TypedField>, map: F) -> StreamMap<Self, F>
    where
        F: Fn(&StreamSample<'_>, &mut [Vec<u8>]) -> Result<()> + Send + Sync + 'static,
    {
        StreamMap::new(self, fields, map)
    }

    /// The samples that `is_kept` says yes to. The ordinals of the others are nobody's.
    fn filter<F>(self, is_kept: F) -> StreamFilter<Self, F>
    where
        F: Fn(&StreamSample<'_>) -> Result<bool> + Send + Sync + 'static,
    {
        StreamFilter::new(self, is_kept)
    }

    /// The samples with ordinals below `samples`. What comes behind them is not waited for.
    fn take(self, samples: u64) -> StreamTake<Self> {
        StreamTake::new(self, samples)
    }

    /// The samples with ordinals from `samples` on. Those before are passed over without being decoded, where the format
    /// allows it.
    fn skip(self, samples: u64) -> StreamSkip<Self> {
        StreamSkip::new(self, samples)
    }

    /// The same samples, up to `samples` of which are read ahead on a thread of its own: an expensive `map` before it runs while
    /// what comes behind it does. The thread begins with the pass and ends when the pass is dropped, which has it leave off and
    /// waits for that, for 10 seconds at most. A panic is an error in its place. (By index a loader reads ahead.)
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when `samples` is 0.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{IterableDatasetExt, StreamBatches, StreamDataset, StreamFormat, StreamSource};
    ///
    /// let lines = StreamDataset::new(vec![StreamSource::Command("seq 5".into())], StreamFormat::JsonLines(None));
    /// let kept = lines.prefetch(8)?.filter(|sample| Ok(sample.bytes(0) != b"3")).prefetch(8)?;
    /// assert_eq!(StreamBatches::new(kept, 4)?.next().expect("four samples")?.samples(), 4);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn prefetch(self, samples: usize) -> Result<StreamPrefetch<Self>> {
        StreamPrefetch::new(self, samples)
    }

    /// Windows of `len` consecutive samples, stacked: each field has a first axis of `len` more. Window w has the samples with
    /// the ordinals from w times `stride` on; one of which a sample was left out (by a `filter`, or for a damage) is left out.
    ///
    /// A position leads to the rest by passing over what was read; a rank or worker reads what belongs to the others too.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when `len` or `stride` is 0; when it begins where a field is
    /// variable: such samples can't be stacked.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{DType, Field, IterableDatasetExt, StreamBatches, StreamDataset, StreamFormat, StreamSource, TypedField};
    ///
    /// let number = vec![TypedField::number(Field::new("x", DType::UInt8, []))?];
    /// let lines = StreamDataset::new(vec![StreamSource::Command("seq 0 5".into())], StreamFormat::JsonLines(None));
    /// let numbers = lines.map(number, |sample, into| {
    ///     into[0].extend(sample.bytes(0));
    ///     Ok(())
    /// });
    /// let batch = StreamBatches::new(numbers.window(3, 2)?, 8)?.next().expect("two windows")?;
    /// assert_eq!((batch.field("x")?.shape(), batch.field("x")?.view::<u8>()?), (&[2, 3][..], &b"012234"[..]));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn window(self, len: usize, stride: usize) -> Result<StreamWindow<Self>> {
        StreamWindow::new(self, len, stride)
    }

    /// Batches of `size` neighbouring samples, stacked, as one sample each: `window(size, size)`. Samples at the end that do not
    /// fill one are left out. For what belongs together; [`StreamBatches`](crate::StreamBatches) makes batches to train on.
    ///
    /// # Errors
    /// As [`window`](Self::window).
    fn batch(self, size: usize) -> Result<StreamWindow<Self>> {
        StreamWindow::batches(self, size)
    }

    /// These samples and those of `other` of the same ordinals side by side: each has the fields of both. It ends where one of
    /// the two does, and when it begins fails where both have a field of one name.
    ///
    /// A position leads to the rest by passing over what was read, without decoding it where the formats allow that.
    fn zip<D: IterableDataset + 'static>(self, other: D) -> StreamZip<Self, D> {
        StreamZip::new(self, other)
    }

    /// These samples and those of `others`, in proportion to constant `weights` and each in its own order: which comes where is
    /// a pure function of `seed`, as a [`MixtureSampler`](crate::MixtureSampler) shuffles parts. It ends where the one that is
    /// next does, and when it begins fails with [`Error::SchemaMismatch`](crate::Error::SchemaMismatch) where samples differ in
    /// data types or shapes.
    ///
    /// A position leads to the rest by passing over what was read, without decoding it where the formats allow that; a rank
    /// or worker decodes what belongs to the others too.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when there is not a weight for each, or one is none.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{IterableDatasetExt, StreamBatches, StreamDataset, StreamFormat, StreamSource};
    ///
    /// let lines = |command: &str| {
    ///     StreamDataset::new(vec![StreamSource::Command(command.into())], StreamFormat::JsonLines(None))
    /// };
    /// let mixed = lines("yes 1").mix(vec![Arc::new(lines("yes 2"))], &[3.0, 1.0], 7)?;
    /// let batch = StreamBatches::new(mixed, 1024)?.next().expect("both are endless")?;
    /// let ones = (0..1024).filter(|&row| batch.sample(0, row) == b"1").count();
    /// assert_eq!(ones, 768);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn mix(self, others: Vec<Arc<dyn IterableDataset>>, weights: &[f64], seed: u64) -> Result<StreamMix> {
        let mut parts: Vec<Arc<dyn IterableDataset>> = vec![Arc::new(self)];
        parts.extend(others);
        StreamMix::new(parts, weights, seed)
    }
}

impl<D: IterableDataset + 'static> IterableDatasetExt for D {}
