//! [`StreamDataset`]: samples read sequentially from pipes, from the output of programs, and from files.

use std::collections::HashMap;

use super::byte_stream::{ByteStream, StreamPacking};
use super::parse::{LOOK, Parse, Sample, Step, Trouble};
use super::source::{StreamSource, commands_are_allowed};
use super::stream_format::StreamFormat;
use crate::dataset::format::field::{SampleBlock, TypedField};
use crate::dataset::format::index::Damages;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::{Error, Result};

/// Default maximum size of a sample: 1 GiB.
const LARGEST_SAMPLE: u64 = 1 << 30;

/// Samples of several sources, one after the other, that are read sequentially.
///
/// Data compressed with gzip or Zstandard is decompressed on the fly. Samples that belong to other readers are skipped;
/// in an uncompressed file, their bytes may not even be read. Resuming in an uncompressed file seeks to the position;
/// with any other source, the one that contains the position is read again from its beginning.
///
/// # Example
/// ```
/// use sluicegate::{IterableDataset, SampleBlock, StopSignal, StreamDataset, StreamFormat, StreamPart, StreamPosition};
/// use sluicegate::StreamSource;
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 3".into())], StreamFormat::json_lines(None));
/// let mut stream = lines.stream(StreamPart::WHOLE, StreamPosition::default(), &StopSignal::new()?)?;
/// let mut block = SampleBlock::new(stream.fields().len());
/// stream.advance(&mut block)?;
/// assert_eq!(block.value(0, 0), b"1");
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StreamDataset {
    sources: Vec<StreamSource>,
    format: StreamFormat,
    packing: StreamPacking,
    damages: Damages,
    largest: u64,
    may_run_commands: bool,
}

impl StreamDataset {
    /// The samples of `sources`.
    #[must_use]
    pub fn new(sources: Vec<StreamSource>, format: StreamFormat) -> Self {
        let (packing, damages) = (StreamPacking::default(), Damages::default());
        Self { sources, format, packing, damages, largest: LARGEST_SAMPLE, may_run_commands: true }
    }

    /// Sets how the sources are compressed.
    #[doc(hidden)]
    #[must_use]
    pub fn packed(self, packing: StreamPacking) -> Self {
        Self { packing, ..self }
    }

    /// Sets how damaged samples are handled.
    #[must_use]
    pub fn on_damage(self, damages: Damages) -> Self {
        Self { damages, ..self }
    }

    /// Sets the maximum size of a sample in bytes; the default is 1 GiB.
    #[must_use]
    pub fn with_largest_sample(self, bytes: u64) -> Self {
        Self { largest: bytes, ..self }
    }

    /// Makes [`StreamSource::Command`] an error: for sources from untrusted origins. The environment variable
    /// `SLUICEGATE_ALLOW_PIPE=0` does the same for all streams of a process.
    #[must_use]
    pub fn without_commands(self) -> Self {
        Self { may_run_commands: false, ..self }
    }

    /// Fails if no stream can be read with these arguments.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] names the argument, and the reason.
    pub fn check(&self) -> Result<()> {
        self.check_commands()?;
        self.format.parse(self.largest).map(drop)
    }

    fn check_commands(&self) -> Result<()> {
        let command = self.sources.iter().find(|source| matches!(source, StreamSource::Command(_)));
        match command {
            Some(source) if !self.may_run_commands || !commands_are_allowed() => {
                let reason = format!(
                    "commands are turned off by an argument or by SLUICEGATE_ALLOW_PIPE, got the command {:?}; pass a \
                     path, or turn commands on",
                    source.name()
                );
                Err(Error::invalid("urls", reason))
            }
            _ => Ok(()),
        }
    }
}

impl IterableDataset for StreamDataset {
    /// A source that can't be read again resumes at its next byte: nothing is skipped.
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        self.check_commands()?;
        let (dataset, parse, stop) = (self.clone(), self.format.parse(self.largest)?, stop.clone());
        let mut samples =
            Samples { dataset, parse, bytes: None, looked_at: HashMap::new(), at: from, part, stop, has_failed: false };
        samples.begin()?;
        Ok(Box::new(samples))
    }

    fn is_repeatable(&self) -> bool {
        self.sources.iter().all(StreamSource::is_repeatable)
    }
}

/// One pass over the dataset.
struct Samples {
    dataset: StreamDataset,
    parse: Box<dyn Parse>,
    /// The source that `at` is in, once it is open.
    bytes: Option<ByteStream>,
    /// Sources that the fields were inferred from, at their beginning: some can't be opened again.
    looked_at: HashMap<u64, ByteStream>,
    at: StreamPosition,
    part: StreamPart,
    stop: StopSignal,
    /// True if the current sample is damaged, but those after it can be read.
    has_failed: bool,
}

impl Samples {
    fn begin(&mut self) -> Result<()> {
        if self.parse.needs_look() {
            self.look()?;
        }
        let sources = self.dataset.sources.len();
        let Some(source) = self.dataset.sources.get(self.at.source as usize).cloned() else {
            // At the end of the stream, the position may be the start of the next source, and nothing else.
            if self.at.source > sources as u64 || self.at.ordinal > self.at.first_of_source {
                let reason = format!(
                    "its position is in source {} of the stream, which now has only {sources}; resume with the data \
                     that was read when the state was saved",
                    self.at.source.saturating_add(1)
                );
                return Err(Error::State { reason });
            }
            return Ok(());
        };
        if !source.is_repeatable() || self.at.ordinal <= self.at.first_of_source {
            return Ok(());
        }
        // Samples before the position are not parsed again.
        let to = self.at;
        if self.bytes.is_none() {
            self.open()?;
        }
        let Some(bytes) = &mut self.bytes else { return Ok(()) };
        if bytes.can_seek() {
            // A seek past the end of a file succeeds, and would look as if everything had been read.
            if bytes.ends_before(to.offset) {
                let reason = format!(
                    "{} had been read up to byte {}, but ends before that; resume with the data that was read when the \
                     state was saved",
                    source.name().display(),
                    to.offset
                );
                return Err(Error::State { reason });
            }
            let outcome = self.parse.go_to(bytes, to.offset);
            return outcome.map_err(|trouble| self.error(trouble));
        }
        self.at.ordinal = to.first_of_source;
        while self.at.ordinal < to.ordinal {
            let Some(bytes) = &mut self.bytes else { break };
            match self.parse.next(bytes, Sample::PassOver) {
                Ok(Step::Sample) | Err(Trouble::Sample { .. }) => self.at.ordinal += 1,
                Ok(Step::End) => break,
                Err(trouble) => {
                    let error = self.error(trouble);
                    self.refuse(error)?;
                    break;
                }
            }
        }
        if self.at.ordinal < to.ordinal {
            let reason = format!(
                "{} has {} samples, but {} of it had been read; resume with the data that was read when the state was \
                 saved",
                source.name().display(),
                self.at.ordinal - to.first_of_source,
                to.ordinal - to.first_of_source
            );
            return Err(Error::State { reason });
        }
        Ok(())
    }

    /// Infers the fields from the first source that has a sample.
    fn look(&mut self) -> Result<()> {
        for number in 0..self.dataset.sources.len() {
            if self.look_at(number)? {
                break;
            }
        }
        Ok(())
    }

    /// Infers the fields from this source; returns false if it has no samples.
    fn look_at(&mut self, number: usize) -> Result<bool> {
        let source = &self.dataset.sources[number];
        let (is_last, is_repeatable) = (number + 1 == self.dataset.sources.len(), source.is_repeatable());
        if self.at.ordinal > 0 && !is_repeatable {
            let reason = "they must be named, because the first samples, from which they are inferred, have been read \
                          and can't be read again"
                .to_owned();
            return Err(Error::invalid("fields", reason));
        }
        let named = |trouble| named(source, "its first samples", trouble);
        let mut bytes = ByteStream::open(source, self.dataset.packing, &self.stop).map_err(named)?;
        // Leaves room for names, and for what is skipped before the first sample.
        bytes.keep(self.dataset.largest.saturating_add(LOOK));
        let has_samples = self.parse.look(&mut bytes, is_last).map_err(named)?;
        // The others can be opened again: any number of empty files would otherwise stay open.
        if number as u64 >= self.at.source && (has_samples || !is_repeatable) {
            bytes.rewind();
            self.looked_at.insert(number as u64, bytes);
        }
        Ok(has_samples)
    }

    /// Opens the next source; returns false if there is none.
    fn open(&mut self) -> Result<bool> {
        let Some(source) = self.dataset.sources.get(self.at.source as usize) else { return Ok(false) };
        let opened = match self.looked_at.remove(&self.at.source) {
            Some(bytes) => Ok(bytes),
            None => ByteStream::open(source, self.dataset.packing, &self.stop),
        };
        let opened = opened.and_then(|mut bytes| {
            // A resumed source is already past its beginning.
            if source.is_repeatable() || self.at.ordinal <= self.at.first_of_source {
                self.parse.begin(&mut bytes)?;
            }
            Ok(bytes)
        });
        self.bytes = Some(opened.map_err(|trouble| self.error(trouble))?);
        Ok(true)
    }

    /// Moves on to the next source.
    fn leave(&mut self) {
        self.bytes = None;
        let ordinal = self.at.ordinal;
        self.at = StreamPosition { ordinal, source: self.at.source + 1, first_of_source: ordinal, offset: 0 };
    }

    fn error(&self, trouble: Trouble) -> Error {
        match self.dataset.sources.get(self.at.source as usize) {
            Some(source) => named(source, &format!("sample {}", self.at.ordinal), trouble),
            None => Error::State { reason: "it has a position in a source that the stream does not have".into() },
        }
    }

    /// Returns `error`, unless damage is left out: then its text.
    fn refuse(&self, error: Error) -> Result<String> {
        match (self.dataset.damages, &error) {
            (Damages::LeaveOut, Error::Format { .. }) => Ok(error.to_string()),
            _ => Err(error),
        }
    }
}

fn named(source: &StreamSource, what: &str, trouble: Trouble) -> Error {
    match trouble {
        Trouble::Source(error) => error,
        Trouble::Sample { offset, reason } | Trouble::Rest { offset, reason } => {
            Error::Format { path: source.name(), offset, reason: format!("{what}: {reason}") }
        }
    }
}

impl SampleStream for Samples {
    fn fields(&self) -> &[TypedField] {
        self.parse.fields()
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        loop {
            self.has_failed = false;
            if self.bytes.is_none() {
                match self.open() {
                    Ok(true) => {}
                    Ok(false) => return Ok(Advance::End),
                    Err(error) => {
                        into.left_out.push(self.refuse(error)?);
                        self.leave();
                        continue;
                    }
                }
            }
            let Some(bytes) = &mut self.bytes else { return Ok(Advance::End) };
            let is_own = self.part.owns(self.at.ordinal);
            let sample = if is_own { Sample::Decode(&mut into.decoded) } else { Sample::PassOver };
            let mut found = self.parse.next(bytes, sample);
            if let (Ok(Step::Sample), true) = (&found, is_own) {
                let offset = self.parse.place(bytes);
                let position = StreamPosition { ordinal: self.at.ordinal + 1, offset, ..self.at };
                match into.end_sample(self.parse.fields(), position) {
                    Ok(()) => {
                        self.at = position;
                        return Ok(Advance::Sample);
                    }
                    Err(reason) => found = Err(Trouble::Sample { offset: self.at.offset, reason }),
                }
            }
            match found {
                Ok(Step::Sample) => self.pass(),
                Ok(Step::End) => self.leave(),
                Err(trouble) => {
                    into.decoded.abandon_sample();
                    self.has_failed = matches!(trouble, Trouble::Sample { .. });
                    let error = self.error(trouble);
                    // A damaged sample is reported by its owner.
                    if is_own || !self.has_failed {
                        into.left_out.push(self.refuse(error)?);
                    }
                    if self.has_failed { self.pass() } else { self.leave() }
                }
            }
        }
    }

    fn pass_failed(&mut self) -> Option<u64> {
        let ordinal = self.at.ordinal;
        std::mem::take(&mut self.has_failed).then(|| self.pass()).map(|()| ordinal)
    }

    fn would_wait(&self) -> bool {
        self.bytes.as_ref().is_some_and(ByteStream::would_wait)
    }
}

impl Samples {
    /// Moves past the current sample.
    fn pass(&mut self) {
        self.at.ordinal += 1;
        if let Some(bytes) = &self.bytes {
            self.at.offset = self.parse.place(bytes);
        }
    }
}
