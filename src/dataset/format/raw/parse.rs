//! [`RawParse`]: reads samples of one size sequentially.

use super::dataset::{RawField, check_fields};
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::file::known_format::foreign;
use crate::dataset::format::sequential::StreamFormat;
use crate::dataset::format::sequential::byte_stream::ByteStream;
use crate::dataset::format::sequential::parse::{Found, Parse, Sample, Step, Trouble};
use crate::{Error, Result};

/// Parses samples as [`Raw`](crate::Raw) has them.
struct RawParse {
    fields: Vec<RawField>,
    typed: Vec<TypedField>,
    header_bytes: usize,
    sample_bytes: usize,
}

impl StreamFormat {
    /// Creates a format of samples of `sample_bytes` bytes with these fields, after a header of `header_bytes` bytes.
    #[must_use]
    pub fn raw(header_bytes: usize, sample_bytes: usize, fields: Vec<RawField>) -> Self {
        Self::new("raw", move |largest| RawParse::new(header_bytes, sample_bytes, fields.clone(), largest))
    }
}

impl RawParse {
    fn new(header_bytes: usize, sample_bytes: usize, fields: Vec<RawField>, largest: u64) -> Result<Self> {
        check_fields(&fields, sample_bytes)?;
        if sample_bytes as u64 > largest {
            let reason = format!("a sample has {sample_bytes} bytes, but at most {largest} are allowed");
            return Err(Error::invalid("max_sample_bytes", reason));
        }
        let typed = fields.iter().map(|field| TypedField::plain(field.field().clone())).collect();
        Ok(Self { fields, typed, header_bytes, sample_bytes })
    }
}

impl Parse for RawParse {
    fn fields(&self) -> &[TypedField] {
        &self.typed
    }

    fn begin(&mut self, bytes: &mut ByteStream) -> Found<()> {
        if self.header_bytes == 0 {
            // Otherwise the user has described the source, header included.
            return match foreign(bytes.signature(self.sample_bytes)?, "") {
                Some(reason) => Err(Trouble::Rest { offset: 0, reason }),
                None => Ok(()),
            };
        }
        let found = bytes.skip(self.header_bytes as u64)?;
        if found < self.header_bytes as u64 {
            let reason =
                format!("the file is truncated: it has {found} bytes, but its header alone has {}", self.header_bytes);
            return Err(Trouble::Rest { offset: 0, reason });
        }
        Ok(())
    }

    fn next(&mut self, bytes: &mut ByteStream, sample: Sample<'_>) -> Found<Step> {
        if !bytes.fill(self.sample_bytes)? {
            let left = bytes.window().len();
            if left == 0 {
                return Ok(Step::End);
            }
            let reason = format!(
                "{left} bytes are left, but a sample has {}; the file is truncated, or dtype, shape, or header_bytes \
                 is wrong",
                self.sample_bytes
            );
            return Err(Trouble::Rest { offset: bytes.offset(), reason });
        }
        if let Sample::Decode(into) = sample {
            let whole = &bytes.window()[..self.sample_bytes];
            for (number, field) in self.fields.iter().enumerate() {
                field.extract(whole, &mut into.column(number).bytes);
            }
        }
        bytes.consume(self.sample_bytes);
        Ok(Step::Sample)
    }
}
