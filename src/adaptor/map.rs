//! [`Map`]: samples that a closure makes from other samples.

use std::sync::Arc;

use super::samples::Samples;
use super::{Sample, Transform};
use crate::dataset::{Blocks, Dataset, ReadMany};
use crate::memory::Slab;
use crate::{BatchWriter, Error, Result, SampleWriter, Schema};

/// Number of slots kept for reuse: this many threads can read at once without requesting memory from the operating
/// system.
const SPARE_SLOTS: usize = 16;

/// Makes one sample from another.
type Make = Box<dyn Fn(&Sample<'_>, &mut SampleWriter<'_>) -> Result<()> + Send + Sync>;

/// The samples that a closure makes from those of a dataset: the result of [`DatasetExt::map`](super::DatasetExt::map),
/// [`map_random`](super::DatasetExt::map_random), and, with a [`Transform`],
/// [`transform`](super::DatasetExt::transform).
pub(super) struct Map {
    dataset: Arc<dyn Dataset>,
    schema: Schema,
    make: Make,
    is_random: bool,
    slab: Slab,
}

impl Map {
    pub(super) fn new(dataset: Arc<dyn Dataset>, schema: Schema, make: Make) -> Result<Self> {
        if let Some(field) = schema.fields().iter().find(|field| field.is_variable()) {
            let reason = format!(
                "{field} is variable, but the size of a sample must be known before it is made; use a fixed shape, or \
                 implement Dataset and VariableSize"
            );
            return Err(Error::invalid("schema", reason));
        }
        Ok(Self { dataset, schema, make, is_random: false, slab: Slab::new(SPARE_SLOTS) })
    }

    /// Like `new`, for a closure that also receives the key of the sample.
    pub(super) fn random<F>(dataset: Arc<dyn Dataset>, schema: Schema, map: F) -> Result<Self>
    where
        F: Fn(&Sample<'_>, u64, &mut SampleWriter<'_>) -> Result<()> + Send + Sync + 'static,
    {
        let make = move |sample: &Sample<'_>, into: &mut SampleWriter<'_>| {
            let key = into.key().ok_or_else(no_key)?;
            map(sample, key, into)
        };
        Ok(Self { is_random: true, ..Self::new(dataset, schema, Box::new(make))? })
    }

    pub(super) fn by(dataset: Arc<dyn Dataset>, transform: impl Transform + 'static) -> Result<Self> {
        let (schema, is_random) = (transform.schema(dataset.schema())?, transform.is_random());
        let make = move |sample: &Sample<'_>, into: &mut SampleWriter<'_>| {
            if is_random && into.key().is_none() {
                return Err(no_key());
            }
            transform.apply(sample, into)
        };
        Ok(Self { is_random, ..Self::new(dataset, schema, Box::new(make))? })
    }
}

fn no_key() -> Error {
    let reason = "the samples are random and need a key each; read them with a loader that has a seed, or set the keys \
                  of the room";
    Error::invalid("keys", reason)
}

impl Dataset for Map {
    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        let key = into.key();
        let samples = Samples::read(&*self.dataset, &[index], key.as_ref().map(std::slice::from_ref), &self.slab)?;
        (self.make)(&samples.sample(0, index), into)
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        self.dataset.as_read_many().map(|_| self as &dyn ReadMany)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        self.dataset.as_blocks()
    }

    fn is_random(&self) -> bool {
        self.is_random || self.dataset.is_random()
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        // The field of the same name, or else any field, because all come from one sample.
        let name = self.schema.fields().get(field)?.name();
        let of = self.dataset.schema().fields().iter().position(|field| field.name() == name);
        self.dataset.origin(index, of.unwrap_or(0))
    }
}

impl ReadMany for Map {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let keys: Option<Vec<u64>> = (0..indices.len()).map(|row| into.key(row)).collect();
        let samples = Samples::read(&*self.dataset, indices, keys.as_deref(), &self.slab)?;
        let mut rows = indices.iter().enumerate();
        rows.try_for_each(|(row, &index)| (self.make)(&samples.sample(row, index), &mut into.sample(row)))
    }
}
