//! [`TarParse`]: the samples of archives that are read sequentially.

use std::collections::HashSet;

use super::field::{LONGEST_NUMBER, MayBeMissing, TarField, TarValue, field_of, number};
use super::key::split_name;
use super::members::{TarEnd, shown};
use super::options::OnMissing;
use super::walk::{TarWalk, WalkedMember, cut, pass_padding, skip_member};
use crate::dataset::format::array::form::NpyForm;
use crate::dataset::format::field::decoding::Decoded;
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::sequential::StreamFormat;
use crate::dataset::format::sequential::byte_stream::ByteStream;
use crate::dataset::format::sequential::parse::{Found, LOOK, Parse, Sample, Step, Trouble};
use crate::{Error, Result};

/// Groups consecutive members with the same key into a sample.
struct TarParse {
    walk: TarWalk,
    /// The first member of the next sample, whose contents have not been read.
    next: Option<WalkedMember>,
    /// The error found instead of that member, reported after the complete sample before it.
    failure: Option<Error>,
    fields: Vec<StreamedField>,
    typed: Vec<TypedField>,
    on_missing: OnMissing,
    /// False until the fields are inferred from the first sample.
    has_fields: bool,
    largest: u64,
    /// The extensions seen in the current sample.
    seen: HashSet<Vec<u8>>,
    lower: Vec<u8>,
    contents: Vec<u8>,
}

/// A field, and its state while reading.
struct StreamedField {
    field: TarField,
    form: Option<NpyForm>,
    /// Which of its extensions was read for the current sample; a lower rank is preferred.
    rank: Option<usize>,
}

impl StreamFormat {
    /// Archives; consecutive members are grouped into samples by name.
    ///
    /// The fields are `first` (key and source) and these fields of members; with `None`, all members of the first
    /// sample, as bytes.
    #[must_use]
    pub fn tar(fields: Option<Vec<TarField>>, first: Vec<TarField>, on_missing: OnMissing, end: TarEnd) -> Self {
        Self::new("tar", move |largest| TarParse::new(fields.clone(), first.clone(), on_missing, end, largest))
    }
}

impl TarParse {
    /// A parser for `first` and these fields; with `None`, for `first` and all members of the first sample, as bytes.
    fn new(
        fields: Option<Vec<TarField>>,
        first: Vec<TarField>,
        on_missing: OnMissing,
        end: TarEnd,
        largest: u64,
    ) -> Result<Self> {
        let has_fields = fields.is_some();
        let wanted = |field| StreamedField { field, form: None, rank: None };
        let mut parse = Self {
            walk: TarWalk::new(end),
            next: None,
            failure: None,
            fields: first.into_iter().chain(fields.unwrap_or_default()).map(wanted).collect(),
            typed: Vec::new(),
            on_missing,
            has_fields,
            largest,
            seen: HashSet::new(),
            lower: Vec::new(),
            contents: Vec::new(),
        };
        if !parse.needs_look() {
            parse.set_typed()?;
        }
        Ok(parse)
    }

    fn set_typed(&mut self) -> Result<()> {
        let fields = self.fields.iter().map(|wanted| {
            let may_be_missing = if wanted.field.is_member() { self.may_be_missing() } else { MayBeMissing::No };
            field_of(&wanted.field, wanted.form.as_ref(), may_be_missing).map(TypedField::plain)
        });
        self.typed = fields.collect::<Result<_>>()?;
        Ok(())
    }

    /// Returns the next member that belongs to a sample.
    fn member(&mut self, bytes: &mut ByteStream) -> Found<Option<WalkedMember>> {
        if let Some(failure) = self.failure.take() {
            return Err(Trouble::Source(failure));
        }
        if let Some(member) = self.next.take() {
            return Ok(Some(member));
        }
        while let Some(member) = self.walk.next(bytes)? {
            if split_name(&member.name).is_some() {
                return Ok(Some(member));
            }
            skip_member(bytes, member.begin, &member.name, member.bytes)?;
        }
        Ok(None)
    }

    /// Reads the sample that begins with `member`; returns false if it is skipped because it lacks a field.
    fn sample(
        &mut self,
        mut member: WalkedMember,
        bytes: &mut ByteStream,
        mut into: Option<&mut Decoded>,
    ) -> Found<bool> {
        let begin = member.begin;
        let key = split_name(&member.name).map(|(key, _)| key.to_vec()).unwrap_or_default();
        self.seen.clear();
        self.fields.iter_mut().for_each(|wanted| wanted.rank = None);
        let (mut trouble, mut whole) = (None, 0_u64);
        loop {
            // Names count too, or a sample could have any number of empty members.
            whole = whole.saturating_add(member.bytes).saturating_add(member.name.len() as u64);
            let read = self.contents_of(&member, bytes, into.as_deref_mut().filter(|_| trouble.is_none()), whole)?;
            trouble = trouble.or(read.err());
            let next = match self.member(bytes) {
                Err(Trouble::Source(failure)) => {
                    self.failure = Some(failure);
                    break;
                }
                next => next?,
            };
            match next {
                Some(next) if split_name(&next.name).is_some_and(|(other, _)| other == key) => member = next,
                next => {
                    self.next = next;
                    break;
                }
            }
        }
        // Before reporting damage: readers that skip this sample see none, but must count as its owner does.
        let mut lacking = self.fields.iter().filter(|wanted| wanted.field.is_member() && wanted.rank.is_none());
        let lacking = lacking.next().filter(|_| self.on_missing != OnMissing::Empty);
        if lacking.is_some() && self.on_missing == OnMissing::Skip {
            return Ok(false);
        }
        if let Some((offset, reason)) = trouble {
            return Err(Trouble::Sample { offset, reason });
        }
        if let Some(wanted) = lacking {
            let reason = format!(
                "{} has no member `{}`; pass on_missing, or omit the field; the files of a sample must be adjacent",
                shown(&key),
                wanted.field.name
            );
            return if into.is_some() { Err(Trouble::Sample { offset: begin, reason }) } else { Ok(true) };
        }
        if let Some(into) = into {
            for (number, wanted) in self.fields.iter().enumerate() {
                match wanted.field.value {
                    TarValue::Key => into.column(number).bytes.extend(&key),
                    TarValue::Url => into.column(number).bytes.extend(bytes.name().as_os_str().as_encoded_bytes()),
                    _ => {}
                }
            }
        }
        Ok(true)
    }

    /// Reads or skips the contents of `member` and fills its fields. The inner result is about these contents only.
    fn contents_of(
        &mut self,
        member: &WalkedMember,
        bytes: &mut ByteStream,
        into: Option<&mut Decoded>,
        whole: u64,
    ) -> Found<std::result::Result<(), (u64, String)>> {
        let (at, size) = (bytes.offset(), member.bytes);
        let pass = |bytes: &mut ByteStream| skip_member(bytes, member.begin, &member.name, size);
        let refuse = |reason: String| Ok(Err((at, format!("member {}: {reason}", shown(&member.name)))));
        let extension = split_name(&member.name).map_or(&b""[..], |(_, extension)| extension);
        self.lower.clear();
        self.lower.extend(extension.iter().map(u8::to_ascii_lowercase));
        if self.seen.contains(&self.lower) {
            pass(bytes)?;
            return refuse(
                "it occurs twice, but a sample has at most one member of each extension, in upper or lower case".into(),
            );
        }
        // Set before the checks below: a refused member is not a missing one.
        let lower = &self.lower;
        let better = self.fields.iter().enumerate().filter_map(|(number, wanted)| {
            let rank = wanted.field.extensions.iter().position(|extension| extension == lower)?;
            wanted.rank.is_none_or(|before| rank < before).then_some((number, rank))
        });
        let better: Vec<(usize, usize)> = better.collect();
        better.iter().for_each(|&(number, rank)| self.fields[number].rank = Some(rank));
        if whole > self.largest {
            pass(bytes)?;
            return refuse(format!(
                "the sample has {whole} bytes up to the end of this member, but at most {} are allowed; raise \
                 max_sample_bytes",
                self.largest
            ));
        }
        self.seen.insert(self.lower.clone());
        let Some(into) = into.filter(|_| !better.is_empty()) else {
            pass(bytes)?;
            return Ok(Ok(()));
        };
        if let Some(reason) = &member.refusal {
            pass(bytes)?;
            return refuse(reason.clone());
        }
        // Fast path: usually the member belongs to a single field of bytes.
        if let [(number, _)] = *better
            && self.fields[number].field.value == TarValue::Bytes
        {
            into.column(number).clear_sample();
            let column = &mut into.column(number).bytes;
            column.extend(self.marks_presence());
            let found = bytes.take(size, column)?;
            if found < size {
                return Err(cut(member.begin, &member.name, size, found));
            }
            pass_padding(bytes, size)?;
            return Ok(Ok(()));
        }
        self.contents.clear();
        let found = bytes.take(size, &mut self.contents)?;
        if found < size {
            return Err(cut(member.begin, &member.name, size, found));
        }
        pass_padding(bytes, size)?;
        for (number, _) in better {
            into.column(number).clear_sample();
            if let Err(reason) = self.fill(number, &mut into.column(number).bytes) {
                return refuse(reason);
            }
        }
        Ok(Ok(()))
    }

    /// Returns the byte before the bytes of a field that may be missing.
    fn marks_presence(&self) -> Option<u8> {
        (self.on_missing == OnMissing::Empty).then_some(1)
    }

    /// Says if members may be missing from samples.
    fn may_be_missing(&self) -> MayBeMissing {
        if self.on_missing == OnMissing::Empty { MayBeMissing::Yes } else { MayBeMissing::No }
    }

    fn fill(&self, number_of_field: usize, into: &mut Vec<u8>) -> std::result::Result<(), String> {
        let wanted = &self.fields[number_of_field];
        let contents = &self.contents[..];
        match wanted.field.value {
            TarValue::Bytes => {
                into.extend(self.marks_presence());
                into.extend(contents);
            }
            TarValue::Npy | TarValue::RaggedNpy => {
                let form = wanted.form.as_ref().ok_or("the first samples have no array of this field")?;
                let start = into.len() + self.may_be_missing().bytes_before(form);
                into.resize(start + form.array_bytes(contents, contents.len() as u64)?, 0);
                form.read(contents, &mut into[start..])?;
            }
            _ if contents.len() as u64 > LONGEST_NUMBER => {
                return Err(format!("{} bytes are not a number", contents.len()));
            }
            value => into.extend(number(value, contents)?),
        }
        Ok(())
    }

    /// Takes the shape and data type of arrays from `member` for the fields whose first array it is.
    fn look_at_array(&mut self, member: &WalkedMember, bytes: &mut ByteStream) -> Found<()> {
        let lower = split_name(&member.name).map_or(Vec::new(), |(_, extension)| extension.to_ascii_lowercase());
        let (at, mut left) = (bytes.offset(), member.bytes);
        let wants = |wanted: &&mut StreamedField| {
            wanted.field.is_array() && wanted.form.is_none() && wanted.field.extensions.contains(&lower)
        };
        for wanted in self.fields.iter_mut().filter(wants) {
            if left == member.bytes {
                self.contents.clear();
                left -= bytes.take(left.min(NpyForm::HEAD as u64), &mut self.contents)?;
            }
            let refuse =
                |reason| Trouble::Rest { offset: at, reason: format!("member {}: {reason}", shown(&member.name)) };
            let form = NpyForm::new(&self.contents, wanted.field.value.first_axis());
            wanted.form = Some(form.map_err(refuse)?);
        }
        let found = bytes.skip(left)?;
        if found < left {
            return Err(cut(member.begin, &member.name, member.bytes, member.bytes - left + found));
        }
        pass_padding(bytes, member.bytes)
    }
}

impl Parse for TarParse {
    fn fields(&self) -> &[TypedField] {
        &self.typed
    }

    fn needs_look(&self) -> bool {
        !self.has_fields || self.fields.iter().any(|wanted| wanted.field.is_array() && wanted.form.is_none())
    }

    fn look(&mut self, bytes: &mut ByteStream, _is_last: bool) -> Found<bool> {
        self.begin(bytes)?;
        let (mut key, mut is_first) = (None, true);
        while let Some(member) = self.member(bytes)? {
            let Some((of, extension)) = split_name(&member.name) else { continue };
            is_first &= key.get_or_insert_with(|| of.to_vec()) == of;
            if !is_first && (!self.needs_look() || !self.has_fields || bytes.offset() > LOOK) {
                break;
            }
            // An extension that is not UTF-8 can't be requested.
            if let (false, Ok(name)) = (self.has_fields, String::from_utf8(extension.to_ascii_lowercase())) {
                let field = TarField::new(name, TarValue::Bytes);
                if self.fields.iter().all(|wanted| wanted.field.extensions != field.extensions) {
                    self.fields.push(StreamedField { field, form: None, rank: None });
                }
            }
            if bytes.offset().saturating_add(member.bytes) > self.largest.max(LOOK) {
                break;
            }
            self.look_at_array(&member, bytes)?;
        }
        self.has_fields |= key.is_some();
        self.set_typed()?;
        // A source that continues where it was does not begin.
        self.begin(bytes)?;
        Ok(key.is_some())
    }

    fn begin(&mut self, _bytes: &mut ByteStream) -> Found<()> {
        self.next = None;
        self.walk.restart();
        Ok(())
    }

    fn next(&mut self, bytes: &mut ByteStream, sample: Sample<'_>) -> Found<Step> {
        let mut into = match sample {
            Sample::Decode(into) => Some(into),
            Sample::PassOver => None,
        };
        while let Some(member) = self.member(bytes)? {
            if self.sample(member, bytes, into.as_deref_mut())? {
                return Ok(Step::Sample);
            }
            if let Some(into) = &mut into {
                into.abandon_sample();
            }
        }
        Ok(Step::End)
    }

    fn place(&self, bytes: &ByteStream) -> u64 {
        self.next.as_ref().map_or(bytes.offset(), |member| member.begin)
    }

    fn go_to(&mut self, bytes: &mut ByteStream, place: u64) -> Found<()> {
        self.next = None;
        bytes.seek(place)
    }
}
