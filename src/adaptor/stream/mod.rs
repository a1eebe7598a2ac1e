//! [`IterableDatasetExt`]: adaptors for datasets without an index.

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

pub use sample::StreamSample;

use std::sync::Arc;

use self::filter::StreamFilter;
use self::map::StreamMap;
use self::mix::StreamMix;
use self::prefetch::StreamPrefetch;
use self::skip::StreamSkip;
use self::take::StreamTake;
use self::window::StreamWindow;
use self::zip::StreamZip;
use super::window::check_counts;
use crate::dataset::IterableDataset;
use crate::{Result, TypedField};

/// Adaptors for every [`IterableDataset`]. They take ownership: pass a clone of an `Arc` to keep the dataset. Their
/// results have no names: store one as `Arc<dyn IterableDataset>`, which costs nothing per sample.
///
/// Samples keep the ordinals and positions of the underlying stream, so reading a part, splitting among ranks, and
/// resuming at a position work as without the adaptor. Windows and batches have their own ordinals.
///
/// A panic in a closure becomes [`Error::Panic`](crate::Error::Panic), with the ordinal of its sample. None of these
/// adaptors shuffles, because a position is not enough to resume a shuffled stream. Use
/// [`StreamBatches::shuffle`](crate::StreamBatches::shuffle), whose [`StreamState`](crate::StreamState) also records
/// the held samples.
///
/// # Example
/// ```
/// use sluicegate::{DType, Field, IterableDatasetExt, StreamBatches, StreamDataset, StreamFormat, StreamSource, TypedField};
///
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 9".into())], StreamFormat::json_lines(None));
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
    /// Returns samples of `fields`, each made by `map` from one sample: `map` appends the bytes of each field to the
    /// vector at the same position. It is called in stream order, by one thread per pass. Derive randomness from
    /// [`sample_key`](crate::sample_key) of a seed, an epoch, and the [ordinal](StreamSample::ordinal).
    fn map<F>(self, fields: Vec<TypedField>, map: F) -> impl IterableDataset
    where
        F: Fn(&StreamSample<'_>, &mut [Vec<u8>]) -> Result<()> + Send + Sync + 'static,
    {
        StreamMap::new(self, fields, map)
    }

    /// Returns the samples for which `is_kept` returns true. The ordinals of the others are unused.
    fn filter<F>(self, is_kept: F) -> impl IterableDataset
    where
        F: Fn(&StreamSample<'_>) -> Result<bool> + Send + Sync + 'static,
    {
        StreamFilter::new(self, is_kept)
    }

    /// Returns the samples with ordinals below `samples`, without waiting for later ones.
    fn take(self, samples: u64) -> impl IterableDataset {
        StreamTake::new(self, samples)
    }

    /// Returns the samples with ordinals from `samples` on. Earlier samples are skipped without being decoded, if the
    /// format allows it.
    fn skip(self, samples: u64) -> impl IterableDataset {
        StreamSkip::new(self, samples)
    }

    /// Returns the same samples, reading up to `samples` of them ahead on a separate thread: an expensive `map` before
    /// this adaptor runs in parallel with everything after it. The thread starts with the pass. Dropping the pass tells
    /// the thread to stop and waits up to 10 seconds for it. A panic becomes an error in the place of its sample. (For
    /// datasets with an index, the loader reads ahead.)
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `samples` is 0.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{IterableDatasetExt, StreamBatches, StreamDataset, StreamFormat, StreamSource};
    ///
    /// let lines = StreamDataset::new(vec![StreamSource::Command("seq 5".into())], StreamFormat::json_lines(None));
    /// let kept = lines.prefetch(8)?.filter(|sample| Ok(sample.bytes(0) != b"3")).prefetch(8)?;
    /// assert_eq!(StreamBatches::new(kept, 4)?.next().expect("four samples")?.samples(), 4);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn prefetch(self, samples: usize) -> Result<impl IterableDataset> {
        StreamPrefetch::new(self, samples)
    }

    /// Returns windows of `len` consecutive samples, stacked: each field gets a new first axis of size `len`. Window w
    /// contains the samples with ordinals from w times `stride` on; a window is skipped if one of its samples was
    /// skipped (by a `filter`, or because of damage).
    ///
    /// Resuming at a position skips everything before it; each rank or worker also reads the samples of the others.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `len` or `stride` is 0; when reading starts, if a
    /// field is variable, because such samples cannot be stacked.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{DType, Field, IterableDatasetExt, StreamBatches, StreamDataset, StreamFormat, StreamSource, TypedField};
    ///
    /// let number = vec![TypedField::number(Field::new("x", DType::UInt8, []))?];
    /// let lines = StreamDataset::new(vec![StreamSource::Command("seq 0 5".into())], StreamFormat::json_lines(None));
    /// let numbers = lines.map(number, |sample, into| {
    ///     into[0].extend(sample.bytes(0));
    ///     Ok(())
    /// });
    /// let batch = StreamBatches::new(numbers.window(3, 2)?, 8)?.next().expect("two windows")?;
    /// assert_eq!((batch.field("x")?.shape(), batch.field("x")?.view::<u8>()?), (&[2, 3][..], &b"012234"[..]));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn window(self, len: usize, stride: usize) -> Result<impl IterableDataset> {
        check_counts(&[("len", len), ("stride", stride)])?;
        Ok(StreamWindow::new(self, len, stride))
    }

    /// Returns batches of `size` neighboring samples, stacked, as one sample each: `window(size, size)`. Samples at the
    /// end that do not fill a batch are dropped. Use this for samples that must stay together;
    /// [`StreamBatches`](crate::StreamBatches) makes batches for training.
    ///
    /// # Errors
    /// Those of [`window`](Self::window).
    fn batch(self, size: usize) -> Result<impl IterableDataset> {
        check_counts(&[("size", size)])?;
        Ok(StreamWindow::new(self, size, size))
    }

    /// Returns these samples and those of `other` with the same ordinals side by side: each has the fields of both. The
    /// stream ends where the shorter one ends. When reading starts, it fails if both have a field with the same name.
    ///
    /// Resuming at a position skips everything before it, without decoding if the formats allow that.
    fn zip<D: IterableDataset + 'static>(self, other: D) -> impl IterableDataset {
        StreamZip::new(self, other)
    }

    /// Returns these samples and those of `others` in proportion to constant `weights`, each stream in its own order.
    /// The sequence of streams is a pure function of `seed`, the same in which a
    /// [`MixtureSampler`](crate::MixtureSampler) shuffles parts. The stream ends when the next sample's part has ended.
    /// When reading starts, it fails with [`Error::SchemaMismatch`](crate::Error::SchemaMismatch) if samples differ in
    /// data types or shapes.
    ///
    /// Resuming at a position skips everything before it, without decoding if the formats allow that; each rank or
    /// worker also decodes the samples of the others.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the number of weights differs from the number of
    /// streams, or a weight is invalid.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{IterableDatasetExt, StreamBatches, StreamDataset, StreamFormat, StreamSource};
    ///
    /// let lines = |command: &str| {
    ///     StreamDataset::new(vec![StreamSource::Command(command.into())], StreamFormat::json_lines(None))
    /// };
    /// let mixed = lines("yes 1").mix(vec![Arc::new(lines("yes 2"))], &[3.0, 1.0], 7)?;
    /// let batch = StreamBatches::new(mixed, 1024)?.next().expect("both are endless")?;
    /// let ones = (0..1024).filter(|&row| batch.sample(0, row) == b"1").count();
    /// assert_eq!(ones, 768);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    fn mix(self, others: Vec<Arc<dyn IterableDataset>>, weights: &[f64], seed: u64) -> Result<impl IterableDataset> {
        let mut parts: Vec<Arc<dyn IterableDataset>> = vec![Arc::new(self)];
        parts.extend(others);
        StreamMix::new(parts, weights, seed)
    }
}

impl<D: IterableDataset + 'static> IterableDatasetExt for D {}
