//! [`Parse`]: what a format must know to be read from front to back.

use super::byte_stream::ByteStream;
use crate::Error;
use crate::dataset::format::field::decoding::Decoded;
use crate::dataset::format::field::typed_field::TypedField;

/// So many bytes at the beginning of the first source are looked at for what the fields are.
pub(in crate::dataset::format) const LOOK: u64 = 64 << 20;

/// What a format makes of the bytes of one source after the other.
pub(in crate::dataset::format) trait Parse: Send {
    /// The fields of all samples; not before [`look`](Self::look), where that is needed.
    fn fields(&self) -> &[TypedField];

    /// True if the fields follow from the first samples.
    fn needs_look(&self) -> bool {
        false
    }

    /// Finds out the fields. Called at the beginning of the first source, which is read from there again afterwards.
    fn look(&mut self, _bytes: &mut ByteStream) -> Found<()> {
        Ok(())
    }

    /// Reads what comes before the first sample of a source. Called at the beginning of each.
    fn begin(&mut self, _bytes: &mut ByteStream) -> Found<()> {
        Ok(())
    }

    /// Reads the next sample into the columns of `into`, or passes over it without looking at more than where it ends.
    fn next(&mut self, bytes: &mut ByteStream, sample: Sample<'_>) -> Found<Step>;

    /// Where the next sample begins.
    fn place(&self, bytes: &ByteStream) -> u64 {
        bytes.offset()
    }

    /// Goes to what was once the [`place`](Self::place) of a sample of this source.
    fn go_to(&mut self, bytes: &mut ByteStream, place: u64) -> Found<()> {
        bytes.seek(place)
    }
}

/// What is to become of the next sample.
pub(in crate::dataset::format) enum Sample<'a> {
    Decode(&'a mut Decoded),
    PassOver,
}

/// What was found of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dataset::format) enum Step {
    Sample,
    /// The source has no more.
    End,
}

/// What has come of an attempt to read on.
pub(in crate::dataset::format) type Found<T> = Result<T, Trouble>;

/// Why reading stopped.
#[derive(Debug)]
pub(in crate::dataset::format) enum Trouble {
    /// The source can't be read.
    Source(Error),
    /// One sample is damaged; those behind it can be read. It has its ordinal all the same.
    Sample { offset: u64, reason: String },
    /// Nobody can tell where the samples behind this place begin.
    Rest { offset: u64, reason: String },
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Source(error)
    }
}
