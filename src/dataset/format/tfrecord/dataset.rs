//! [`TfRecord`]: TensorFlow's files of byte strings, usually `tf.train.Example` messages.

use std::path::PathBuf;

use super::example_fields::{Inference, check_features, read_features};
use super::scan::{checked, find_samples, rest_of_file};
use crate::dataset::format::field::decoding::{Decode, Decoded, Decoding};
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::index::broken::{Broken, is_damage};
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::spans::Spans;
use crate::dataset::format::index::whole_samples::WholeSamples;
use crate::dataset::forward_dataset::forward_dataset;
use crate::{Error, Result};

/// The number of samples from which features are inferred.
pub(crate) const INFERRED_FROM: usize = 100;

/// Which fields are read from the samples of a [`TfRecord`].
#[derive(Debug, Clone)]
pub enum Features {
    /// The bytes of each sample, as the field `bytes`.
    Raw,
    /// These features of each `tf.train.Example`.
    Typed(Vec<TypedField>),
    /// All features of the first 100 samples, by name: integers become `int64` and floats `float32`, scalar if each of
    /// these samples has exactly one value, variable otherwise; byte strings become bytes, or lists of byte strings.
    Inferred,
}

/// TFRecord files, one after the other. One scan of the lengths, with files in parallel, finds the samples; for files
/// of 4 MiB and more, the result is kept in an index.
///
/// The scan verifies the checksums of the lengths; those of the data are verified when it is read. A feature of byte
/// strings that is read as numbers is interpreted as their bytes, little-endian.
///
/// Source: the descriptions of TFRecord and `tf.train.Example` in TensorFlow's guide, and that of the encoding in the
/// documentation of protocol buffers.
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

#[derive(Debug)]
enum Shape {
    Raw,
    Features,
}

impl TfRecord {
    /// Opens the files at `paths`. The index is kept in `index_folder`, or next to the first file (in the user's cache
    /// if that isn't possible).
    ///
    /// # Errors
    /// [`Error::Io`] if a file can't be read; [`Error::Format`] if one is truncated, the checksum of a length is wrong,
    /// or features are inferred from samples that differ or are not `tf.train.Example` messages.
    pub fn open(paths: Vec<PathBuf>, features: Features, index_folder: Option<PathBuf>) -> Result<Self> {
        Self::open_with(paths, features, index_folder, Damages::Refuse)
    }

    /// The same without broken samples, and without what follows a broken length. This reads all samples once.
    ///
    /// # Errors
    /// As [`open`](Self::open), but [`Error::Format`] only if the samples that features are inferred from disagree.
    pub fn open_whole(
        paths: Vec<PathBuf>,
        features: Features,
        index_folder: Option<PathBuf>,
    ) -> Result<WholeSamples<Self>> {
        let samples = Self::open_with(paths, features, index_folder.clone(), Damages::LeaveOut)?;
        let Examples { spans, shape, fields } = samples.decoding.decoder();
        let (parameters, files) = (format!("{shape:?} {fields:?}"), spans.pool().shared_files());
        WholeSamples::open(samples, ("tfrecord", &parameters), &files, index_folder, |samples| {
            let mut broken = samples.decoding.find_broken()?;
            samples.decoding.decoder().unread_rests(&mut broken)?;
            Ok(broken)
        })
    }

    fn open_with(
        paths: Vec<PathBuf>,
        features: Features,
        index_folder: Option<PathBuf>,
        damages: Damages,
    ) -> Result<Self> {
        let parameters = if damages == Damages::Refuse { "" } else { "leave out" };
        let kind = ("tfrecord 1", parameters);
        let spans = Spans::open(paths, kind, index_folder, |pool| find_samples(pool, damages))?;
        let (shape, fields) = match features {
            Features::Raw => (Shape::Raw, vec![TypedField::bytes("bytes")]),
            Features::Typed(fields) => (Shape::Features, fields),
            Features::Inferred => (Shape::Features, infer(&spans, damages)?),
        };
        Ok(Self { decoding: Decoding::new(Examples { spans, shape, fields }) })
    }

    /// The fields of a sample, and what they hold.
    #[must_use]
    pub fn fields(&self) -> &[TypedField] {
        &self.decoding.decoder().fields
    }
}

impl Examples {
    /// Adds to `broken` what follows broken lengths.
    fn unread_rests(&self, broken: &mut Broken) -> Result<()> {
        for (number, end) in self.spans.ends()?.into_iter().enumerate() {
            let file = self.spans.pool().file(number)?;
            match rest_of_file(&file, end) {
                Err(error) if is_damage(&error) => broken.push_rest(&error),
                whole => whole?,
            }
        }
        Ok(())
    }
}

fn infer(spans: &Spans, damages: Damages) -> Result<Vec<TypedField>> {
    let mut inference = Inference::default();
    let first: Vec<usize> = (0..spans.len().min(INFERRED_FROM)).collect();
    spans.visit(&first, |file, offset, whole| {
        let data = match checked(file, offset, whole) {
            Err(_) if damages == Damages::LeaveOut => return Ok(()),
            data => data?,
        };
        if damages == Damages::LeaveOut && check_features(data).is_err() {
            return Ok(());
        }
        let refuse = |reason| Error::Format { path: file.source().path.clone(), offset, reason };
        inference.see(data).map_err(refuse)
    })?;
    inference.fields().map_err(|reason| Error::invalid("features", reason))
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

forward_dataset!([] TfRecord, self => self.decoding);
