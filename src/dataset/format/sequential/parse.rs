//! [`Parse`]: what a format implements to be read sequentially.

use super::byte_stream::ByteStream;
use crate::Error;
use crate::dataset::format::field::decoding::Decoded;
use crate::dataset::format::field::typed_field::TypedField;

/// Bytes at the beginning of a source that are read to infer the fields.
pub(crate) const LOOK: u64 = 64 << 20;

/// Parses the bytes of one source after the other.
pub(crate) trait Parse: Send {
    /// The fields of all samples; available only after [`look`](Self::look), if that is needed.
    fn fields(&self) -> &[TypedField];

    /// True if the fields are inferred from the first samples.
    fn needs_look(&self) -> bool {
        false
    }

    /// Infers the fields; returns false if the source has no sample to infer them from. Called at the beginning of the
    /// first source, and of the following ones until one has a sample; `is_last` if there are no more. They are then read
    /// again from there.
    fn look(&mut self, _bytes: &mut ByteStream, _is_last: bool) -> Found<bool> {
        Ok(true)
    }

    /// Reads what comes before the first sample. Called at the beginning of each source.
    fn begin(&mut self, _bytes: &mut ByteStream) -> Found<()> {
        Ok(())
    }

    /// Reads the next sample into the columns of `into`, or skips it, looking only for its end.
    fn next(&mut self, bytes: &mut ByteStream, sample: Sample<'_>) -> Found<Step>;

    /// The position of the next sample.
    fn place(&self, bytes: &ByteStream) -> u64 {
        bytes.offset()
    }

    /// Goes to a position that [`place`](Self::place) returned for this source.
    fn go_to(&mut self, bytes: &mut ByteStream, place: u64) -> Found<()> {
        bytes.seek(place)
    }
}

/// What to do with the next sample.
pub(crate) enum Sample<'a> {
    Decode(&'a mut Decoded),
    PassOver,
}

/// The result of reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Sample,
    /// There are no more samples in the source.
    End,
}

/// The result of an attempt to read.
pub(crate) type Found<T> = Result<T, Trouble>;

/// Why reading stopped.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The source can't be read.
    Source(Error),
    /// One sample is damaged, and keeps its ordinal; those after it can be read.
    Sample { offset: u64, reason: String },
    /// The start of the samples after this position is unknown.
    Rest { offset: u64, reason: String },
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Source(error)
    }
}
