//! [`ArrowIndex`]: the locations of the batches in an Arrow file or stream.
//!
//! ```text
//! message: 0xFFFFFFFF (not in old ones), length of the metadata (i32), metadata (a flatbuffer), body
//! stream:  message of the schema, messages of dictionaries and batches, 0xFFFFFFFF 0 (or nothing)
//! file:    "ARROW1" 0 0, stream, footer (a flatbuffer: schema, places of dictionaries and batches), its length (i32), "ARROW1"
//! ```
//! Source: the description of the IPC format in Arrow's documentation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Block, Endianness, Message, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{Schema, SchemaRef};

use crate::dataset::format::file::known_format::{SIGNATURE_BYTES, foreign};

const MAGIC: &[u8] = b"ARROW1";
/// The magic bytes, padded to a multiple of eight.
const HEAD: usize = 8;
/// The length of the footer, and the magic bytes.
const TAIL: usize = 10;
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Batches with this many rows or more are refused, so that sums of rows can't overflow.
const MOST_ROWS: i64 = 1 << 48;

/// The byte offset of an error, and its reason.
pub(super) type Refused = (u64, String);

/// The location of a message in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessagePlace {
    /// The offset of the message.
    pub(super) offset: u64,
    /// The number of bytes before the body.
    pub(super) metadata: u32,
    pub(super) body: u64,
}

/// A batch of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchPlace {
    pub(super) message: MessagePlace,
    pub(super) rows: u64,
    /// The number of dictionary messages that are applied before it.
    pub(super) dictionaries: u32,
}

/// A dictionary, or a delta to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DictionaryPlace {
    pub(super) message: MessagePlace,
    pub(super) id: i64,
    pub(super) is_delta: bool,
}

/// Everything in a file except the values.
#[derive(Debug, Clone)]
pub(super) struct ArrowIndex {
    pub(super) schema: SchemaRef,
    pub(super) version: MetadataVersion,
    pub(super) batches: Vec<BatchPlace>,
    pub(super) dictionaries: Vec<DictionaryPlace>,
}

impl ArrowIndex {
    /// Reads the index of a file with these bytes: an IPC file (also called Feather 2) or an IPC stream.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Refused> {
        without_panic(|| {
            if bytes.starts_with(MAGIC) {
                return read_file(bytes);
            }
            match foreign(&bytes[..bytes.len().min(SIGNATURE_BYTES)], "an Arrow file") {
                Some(reason) => Err((0, reason)),
                None if bytes.len() < 4 => Err((0, "it is truncated, or not an Arrow file".into())),
                None => read_stream(bytes),
            }
        })
        .unwrap_or_else(|reason| Err((0, format!("its metadata is damaged: {reason}"))))
    }
}

/// Runs `read`. Returns the message if it panics, as Arrow's crates may do on damaged metadata.
pub(super) fn without_panic<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or_else(|| "unknown reason".into(), |text| (*text).into()),
    })
}

fn read_file(bytes: &[u8]) -> Result<ArrowIndex, Refused> {
    let truncated = || (bytes.len() as u64, "the file is truncated: the end of an Arrow file is missing".to_owned());
    let end = bytes.len().checked_sub(TAIL).filter(|&end| end >= HEAD).ok_or_else(truncated)?;
    if !bytes.ends_with(MAGIC) {
        return Err(truncated());
    }
    let length = i32::from_le_bytes(bytes[end..end + 4].try_into().expect("four bytes"));
    let start = usize::try_from(length).ok().and_then(|length| end.checked_sub(length)).filter(|&start| start >= HEAD);
    let start = start.ok_or_else(|| {
        (end as u64, format!("the file declares a footer of {length} bytes, more than it has; it is damaged"))
    })?;
    let damaged = |reason: String| (start as u64, format!("the footer is damaged: {reason}"));
    let footer = root_as_footer(&bytes[start..end]).map_err(|error| damaged(one_line(&error)))?;
    let schema = footer.schema().ok_or_else(|| damaged("it has no schema".into()))?;
    let mut index = ArrowIndex {
        schema: schema_of(schema).map_err(damaged)?,
        version: footer.version(),
        batches: Vec::new(),
        dictionaries: Vec::new(),
    };
    for block in footer.dictionaries().into_iter().flatten() {
        let place = place_of(block, start).map_err(damaged)?;
        index.push(place, &message_at(bytes, place, index.version)?)?;
    }
    for block in footer.recordBatches().into_iter().flatten() {
        let place = place_of(block, start).map_err(damaged)?;
        index.push(place, &message_at(bytes, place, index.version)?)?;
    }
    Ok(index)
}

/// Returns the location of `block`, which must not reach past `end`.
fn place_of(block: &Block, end: usize) -> Result<MessagePlace, String> {
    let (offset, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
    let is_inside = |(offset, metadata, body): (u64, u32, u64)| {
        let after = offset.checked_add(u64::from(metadata)).and_then(|after| after.checked_add(body));
        offset >= HEAD as u64 && after.is_some_and(|after| after <= end as u64)
    };
    let numbers = (u64::try_from(offset), u32::try_from(metadata), u64::try_from(body));
    match numbers {
        (Ok(offset), Ok(metadata), Ok(body)) if is_inside((offset, metadata, body)) => {
            Ok(MessagePlace { offset, metadata, body })
        }
        _ => Err(format!(
            "a block of {metadata} bytes of metadata and {body} of data at byte {offset} is outside the file"
        )),
    }
}

fn read_stream(bytes: &[u8]) -> Result<ArrowIndex, Refused> {
    let neither = |reason: &str| (0, format!("this is neither an Arrow file nor an Arrow stream: {reason}"));
    let place = next_message(bytes, 0).map_err(|(_, reason)| neither(&reason))?;
    let place = place.ok_or_else(|| neither("there is no schema"))?;
    let message = parse(bytes, place).map_err(|(_, reason)| neither(&reason))?;
    let schema = message.header_as_schema().ok_or_else(|| neither("it does not begin with a schema"))?;
    let mut index = ArrowIndex {
        schema: schema_of(schema).map_err(|reason| (0, format!("the schema is damaged: {reason}")))?,
        version: message.version(),
        batches: Vec::new(),
        dictionaries: Vec::new(),
    };
    let mut at = end_of(bytes, place, &message)?;
    while let Some(mut place) = next_message(bytes, at)? {
        let message = message_at(bytes, place, index.version)?;
        let end = end_of(bytes, place, &message)?;
        place.body = end - place.offset - u64::from(place.metadata);
        index.push(place, &message)?;
        at = end;
    }
    Ok(index)
}

/// Returns the location of the message at byte `at`, with an empty body. Returns `None` at the end of the stream.
fn next_message(bytes: &[u8], at: u64) -> Result<Option<MessagePlace>, Refused> {
    let rest = &bytes[at as usize..];
    if rest.is_empty() {
        return Ok(None);
    }
    let truncated = || (at, "the stream is truncated: it ends inside a message".to_owned());
    let word = |start: usize| rest.get(start..start + 4).and_then(|word| word.try_into().ok()).ok_or_else(truncated);
    let first: [u8; 4] = word(0)?;
    let (length, before) = if first == CONTINUATION { (word(4)?, 8) } else { (first, 4) };
    let length = i32::from_le_bytes(length);
    let Ok(length) = u32::try_from(length) else {
        return Err((at, format!("a message declares {length} bytes of metadata; the stream is damaged")));
    };
    if length == 0 {
        return Ok(None);
    }
    let metadata = length.checked_add(before).filter(|&metadata| metadata as usize <= rest.len());
    Ok(Some(MessagePlace { offset: at, metadata: metadata.ok_or_else(truncated)?, body: 0 }))
}

fn end_of(bytes: &[u8], place: MessagePlace, message: &Message<'_>) -> Result<u64, Refused> {
    let length = message.bodyLength();
    let end = u64::try_from(length).ok().and_then(|body| (place.offset + u64::from(place.metadata)).checked_add(body));
    end.filter(|&end| end <= bytes.len() as u64).ok_or_else(|| {
        (
            place.offset,
            format!("a message of {length} bytes ends past the end of the file, which is truncated or damaged"),
        )
    })
}

/// Parses the message at `place`, whose metadata is inside of `bytes`.
pub(super) fn message_at(bytes: &[u8], place: MessagePlace, version: MetadataVersion) -> Result<Message<'_>, Refused> {
    let message = parse(bytes, place)?;
    // Some old files do not have the version in their footer.
    if version != MetadataVersion::V1 && message.version() != version {
        let reason = format!("a message has version {:?}, but the file has {version:?}", message.version());
        return Err((place.offset, reason));
    }
    Ok(message)
}

fn parse(bytes: &[u8], place: MessagePlace) -> Result<Message<'_>, Refused> {
    let start = place.offset as usize;
    let metadata = &bytes[start..start + place.metadata as usize];
    let before = if metadata.starts_with(&CONTINUATION) { 8 } else { 4 };
    let metadata = metadata.get(before..).unwrap_or_default();
    let damaged = |reason| (place.offset, format!("the metadata of a message is damaged: {reason}"));
    root_as_message(metadata).map_err(|error| damaged(one_line(&error)))
}

/// Joins the lines of an error about damaged metadata, which lists the positions that were checked.
fn one_line(error: &impl std::fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn schema_of(schema: arrow_ipc::Schema<'_>) -> Result<SchemaRef, String> {
    if schema.endianness() != Endianness::Little {
        return Err("its numbers are big-endian, which is not supported".into());
    }
    let schema: Schema = try_fb_to_schema(schema).map_err(|error| error.to_string())?;
    Ok(Arc::new(schema))
}

impl ArrowIndex {
    fn push(&mut self, place: MessagePlace, message: &Message<'_>) -> Result<(), Refused> {
        let damaged = |reason: String| (place.offset, reason);
        if u64::try_from(message.bodyLength()).ok().is_none_or(|body| body > place.body) {
            let length = message.bodyLength();
            return Err(damaged(format!(
                "a message declares {length} bytes of data, but there is room for only {}",
                place.body
            )));
        }
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let rows = message.header_as_record_batch().map_or(0, |batch| batch.length());
                if !(0..MOST_ROWS).contains(&rows) {
                    return Err(damaged(format!("a batch declares {rows} rows")));
                }
                let dictionaries = self.dictionaries.len() as u32;
                self.batches.push(BatchPlace { message: place, rows: rows as u64, dictionaries });
            }
            MessageHeader::DictionaryBatch => {
                let found = message.header_as_dictionary_batch();
                let found = found.ok_or_else(|| damaged("a dictionary has no header".into()))?;
                let (id, is_delta) = (found.id(), found.isDelta());
                self.dictionaries.push(DictionaryPlace { message: place, id, is_delta });
            }
            other => return Err(damaged(format!("unexpected message of type {other:?} between batches"))),
        }
        Ok(())
    }
}
