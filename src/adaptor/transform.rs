//! The trait [`Transform`]: a reusable step that changes samples.

use std::sync::Arc;

use super::Sample;
use crate::{Result, SampleWriter, Schema};

/// A step that makes one sample from another, for [`DatasetExt::transform`](super::DatasetExt::transform): it has
/// settings, declares which samples it accepts, and is reusable. For one-off changes, a closure is enough
/// ([`DatasetExt::map`](super::DatasetExt::map)).
///
/// # Contract
/// - [`apply`](Self::apply) is called from many threads at once, with samples of the schema that was passed to
///   [`schema`](Self::schema) and a writer for the schema that it returned. It must fill every field of the writer.
/// - It must return the same for the same sample, and, if [`is_random`](Self::is_random) returns true, the same key.
///
/// # Example
/// ```
/// use sluicegate::{DType, DataLoader, DatasetExt, Error, Field, InMemory, Result, Sample, SampleWriter, Schema, Transform};
///
/// /// Bytes as floats, with this mean and this standard deviation.
/// struct Normalize {
///     mean: f32,
///     deviation: f32,
/// }
///
/// impl Transform for Normalize {
///     fn schema(&self, of: &Schema) -> Result<Schema> {
///         match of.fields() {
///             [field] if field.dtype() == DType::UInt8 => {
///                 Ok(Schema::new([Field::new(field.name(), DType::Float32, field.shape())]))
///             }
///             _ => Err(Error::InvalidArgument { argument: "dataset", reason: format!("{of} is not one field of bytes") }),
///         }
///     }
///
///     fn apply(&self, sample: &Sample<'_>, into: &mut SampleWriter<'_>) -> Result<()> {
///         let (values, _) = into.field(0).as_chunks_mut::<4>();
///         for (value, &byte) in values.iter_mut().zip(sample.bytes(0)) {
///             *value = ((f32::from(byte) - self.mean) / self.deviation).to_ne_bytes();
///         }
///         Ok(())
///     }
/// }
///
/// let images = InMemory::from_vec("image", vec![255_u8; 10 * 28 * 28], [28, 28])?;
/// let dataset = images.transform(Normalize { mean: 127.5, deviation: 127.5 })?;
/// let batch = DataLoader::builder(dataset).batch_size(4).build()?.epoch(0)?.next().expect("ten images")?;
/// assert_eq!(batch.field("image")?.shape(), [4, 28, 28]);
/// assert_eq!(batch.field("image")?.view::<f32>()?[0], 1.0);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub trait Transform: Send + Sync {
    /// Returns the schema of the results for samples of schema `of`: fields of fixed size.
    ///
    /// # Errors
    /// An error that says why such samples are not supported.
    fn schema(&self, of: &Schema) -> Result<Schema>;

    /// Makes a sample from `sample`, and writes it to `into`.
    ///
    /// # Errors
    /// Any error; the batch becomes that error.
    fn apply(&self, sample: &Sample<'_>, into: &mut SampleWriter<'_>) -> Result<()>;

    /// True if the result also depends on [`SampleWriter::key`], which is then available: it is derived from the
    /// loader's seed, the epoch, and the index of the sample.
    fn is_random(&self) -> bool {
        false
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<T: Transform + ?Sized> Transform for $pointer {
            fn schema(&self, of: &Schema) -> Result<Schema> {
                (**self).schema(of)
            }

            fn apply(&self, sample: &Sample<'_>, into: &mut SampleWriter<'_>) -> Result<()> {
                (**self).apply(sample, into)
            }

            fn is_random(&self) -> bool {
                (**self).is_random()
            }
        }
    )*};
}
forward!(Arc<T>, Box<T>);
