//! [`TfRecordParse`]: TFRecords that are read sequentially.

use super::dataset::{Features, INFERRED_FROM};
use super::example_fields::{Inference, read_features};
use super::scan::{FOOTER, HEADER, number};
use crate::Error;
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::file::masked_checksum::masked;
use crate::dataset::format::sequential::StreamFormat;
use crate::dataset::format::sequential::byte_stream::ByteStream;
use crate::dataset::format::sequential::parse::{Found, LOOK, Parse, Sample, Step, Trouble};

/// Parses the same samples as [`TfRecord`](crate::TfRecord).
struct TfRecordParse {
    /// `None` until they are inferred.
    fields: Option<Vec<TypedField>>,
    is_raw: bool,
    largest: u64,
    data: Vec<u8>,
}

impl StreamFormat {
    /// TensorFlow's files of byte strings.
    #[must_use]
    pub fn tfrecord(features: Features) -> Self {
        Self::new("TFRecord", move |largest| Ok(TfRecordParse::new(features.clone(), largest)))
    }
}

impl TfRecordParse {
    fn new(features: Features, largest: u64) -> Self {
        let is_raw = matches!(features, Features::Raw);
        let fields = match features {
            Features::Raw => Some(vec![TypedField::bytes("bytes")]),
            Features::Typed(fields) => Some(fields),
            Features::Inferred => None,
        };
        Self { fields, is_raw, largest, data: Vec::new() }
    }

    /// Consumes the next header; returns the offset of the data and its length, `None` at the end.
    fn header(&self, bytes: &mut ByteStream) -> Found<Option<(u64, u64)>> {
        let at = bytes.offset();
        if !bytes.fill(HEADER as usize)? {
            let left = bytes.window().len();
            if left == 0 {
                return Ok(None);
            }
            let reason = format!("{left} bytes are left, but a sample begins with {HEADER}; the file is truncated");
            return Err(Trouble::Rest { offset: at, reason });
        }
        let (length, checksum) = bytes.window()[..HEADER as usize].split_at(8);
        let (expected, found) = (number(checksum), masked(length));
        if expected != found {
            let reason = format!(
                "the checksum of the length is {found:08x}, but {expected:08x} is expected; the file is damaged, or \
                 not a TFRecord file"
            );
            return Err(Trouble::Rest { offset: at, reason });
        }
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        bytes.consume(HEADER as usize);
        if length.checked_add(FOOTER).is_none() {
            let reason = format!("the sample declares {length} bytes, which is too large for any memory");
            return Err(Trouble::Rest { offset: at, reason });
        }
        Ok(Some((bytes.offset(), length)))
    }

    /// Reads the data of a sample and verifies its checksum.
    fn take_data(&mut self, bytes: &mut ByteStream, at: u64, length: u64) -> Found<()> {
        self.data.clear();
        let found = bytes.take(length + FOOTER, &mut self.data)?;
        check_whole(at, length, found)?;
        let checksum = self.data.split_off(length as usize);
        let (expected, found) = (number(&checksum), masked(&self.data));
        if expected == found {
            return Ok(());
        }
        let reason = format!(
            "the checksum of the {length} bytes from here is {found:08x}, but {expected:08x} is expected; they are \
             damaged"
        );
        Err(Trouble::Sample { offset: at, reason })
    }
}

fn check_whole(at: u64, length: u64, found: u64) -> Found<()> {
    if found == length + FOOTER {
        return Ok(());
    }
    let reason = format!("a sample of {length} bytes begins here, but only {found} are left; the file is truncated");
    Err(Trouble::Rest { offset: at, reason })
}

impl Parse for TfRecordParse {
    fn fields(&self) -> &[TypedField] {
        self.fields.as_deref().unwrap_or_default()
    }

    fn needs_look(&self) -> bool {
        self.fields.is_none()
    }

    fn look(&mut self, bytes: &mut ByteStream, _is_last: bool) -> Found<bool> {
        let (mut inference, mut has_samples) = (Inference::default(), false);
        for _ in 0..INFERRED_FROM {
            let Some((at, length)) = self.header(bytes)? else { break };
            has_samples = true;
            if bytes.offset().saturating_add(length) > LOOK.max(self.largest) {
                break;
            }
            self.take_data(bytes, at, length)?;
            inference.see(&self.data).map_err(|reason| Trouble::Rest { offset: at, reason })?;
        }
        let fields = inference.fields();
        self.fields = Some(fields.map_err(|reason| Error::invalid("features", reason))?);
        Ok(has_samples)
    }

    fn next(&mut self, bytes: &mut ByteStream, sample: Sample<'_>) -> Found<Step> {
        let Some((at, length)) = self.header(bytes)? else { return Ok(Step::End) };
        let into = match sample {
            Sample::Decode(into) if length <= self.largest => into,
            _ => {
                let found = bytes.skip(length + FOOTER)?;
                check_whole(at, length, found)?;
                if length <= self.largest {
                    return Ok(Step::Sample);
                }
                let allowed = self.largest;
                let reason =
                    format!("the sample has {length} bytes, but at most {allowed} are allowed; raise max_sample_bytes");
                return Err(Trouble::Sample { offset: at, reason });
            }
        };
        self.take_data(bytes, at, length)?;
        if self.is_raw {
            into.column(0).bytes.extend(&self.data);
        } else {
            let read = read_features(&self.data, self.fields.as_deref().unwrap_or_default(), into);
            read.map_err(|reason| Trouble::Sample { offset: at, reason })?;
        }
        Ok(Step::Sample)
    }
}
