//! [`TfRecord`]: TensorFlow's files of byte strings, most often of `tf.train.Example`.

use std::path::PathBuf;

use super::decoding::{Decode, Decoded, Decoding, dataset_by_decoding};
use super::example_fields::{Inference, read_features};
use super::spans::Spans;
use super::tfrecord_scan::{checked, find_samples};
use super::typed_field::TypedField;
use crate::{Error, Result};

/// So many samples are looked at where features are not named.
pub(super) const INFERRED_FROM: usize = 100;

/// What is read of the samples of a [`TfRecord`].
#[derive(Debug, Clone)]
pub enum Features {
    /// The bytes of each, as the field `bytes`.
    Raw,
    /// These features of each `tf.train.Example`.
    Typed(Vec<TypedField>),
    /// All features that the first 100 samples have, by name: integers become `int64` and floats `float32`, scalars where
    /// each of those samples has one value and variable otherwise; one byte string becomes bytes.
    Inferred,
}

/// TFRecord files, one after the other. Where the samples are is found by one scan of the lengths, file beside file, which is
/// kept in an index for files of 4 MiB and more.
///
/// The checksums of the lengths are checked by that scan, those of the data when it is read. A feature of byte strings that
/// is read as numbers is taken as their bytes, little-endian.
///
/// Source: the descriptions of TFRecord and `tf.train.Example` in TensorFlow's guide, and of the encoding in that of protocol
/// buffers.
///
/// # Example
/// ```
/// use sluicegate::{Dataset, Features, TfRecord};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # std::fs::write(&path, []).unwrap();
/// let samples = TfRecord::open(vec![path.to_path_buf()], Features::Raw, None).unwrap();
/// assert_eq!(samples.schema().to_string(), "(bytes: uint8[*])");
/// ```
pub struct TfRecord {
    decoding: Decoding<Examples>,
}

struct Examples {
    spans: Spans,
    shape: Shape,
    fields: Vec<TypedField>,
}

enum Shape {
    Raw,
    Features,
}

impl TfRecord {
    /// The samples of the files at `paths`. The index is kept in `index_folder`, or beside the first file (in the user's
    /// cache where that can't be).
    ///
    /// # Errors
    /// [`Error::Io`] when a file can't be read; [`Error::Format`] when one is truncated, or the checksum of a length is
    /// wrong; or when features are inferred from samples that differ, or that are no `tf.train.Example`.
    pub fn open(paths: Vec<PathBuf>, features: Features, index_folder: Option<PathBuf>) -> Result<Self> {
        let spans = Spans::open(paths, ("tfrecord 1", ""), index_folder, find_samples)?;
        let (shape, fields) = match features {
            Features::Raw => (Shape::Raw, vec![TypedField::bytes("bytes")]),
            Features::Typed(fields) => (Shape::Features, fields),
            Features::Inferred => (Shape::Features, infer(&spans)?),
        };
        Ok(Self { decoding: Decoding::new(Examples { spans, shape, fields }) })
    }

    /// The fields of a sample, and what they hold.
    #[must_use]
    pub fn fields(&self) -> &[TypedField] {
        &self.decoding.decoder().fields
    }
}

fn infer(spans: &Spans) -> Result<Vec<TypedField>> {
    let mut inference = Inference::default();
    let first: Vec<usize> = (0..spans.len().min(INFERRED_FROM)).collect();
    spans.visit(&first, |file, offset, whole| {
        let seen = inference.see(checked(file, offset, whole)?);
        seen.map_err(|reason| Error::Format { path: file.source().path.clone(), offset, reason })
    })?;
    inference.fields().map_err(|reason| Error::InvalidArgument { argument: "features", reason })
}

impl Decode for Examples {
    fn len(&self) -> usize {
        self.spans.len()
    }

    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn decode(&self, indices: &[usize], into: &mut Decoded) -> Result<()> {
        self.spans.visit(indices, |file, offset, whole| {
            let refuse = |reason| Error::Format { path: file.source().path.clone(), offset, reason };
            let data = checked(file, offset, whole)?;
            match self.shape {
                Shape::Raw => into.column(0).bytes.extend(data),
                Shape::Features => read_features(data, &self.fields, into).map_err(refuse)?,
            }
            into.end_sample(&self.fields).map_err(refuse)
        })
    }
}

dataset_by_decoding!(TfRecord);
