//! Reads the batches of an Arrow file as arrays that use the bytes of the file in place.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::{CompressionType, MessageHeader};
use arrow_schema::{DataType, Field, Fields, Schema};

use super::index::{ArrowIndex, DictionaryPlace, MessagePlace, Refused, message_at, without_panic};

/// Batches that decompress to more are refused: they may be crafted to exhaust memory.
const LARGEST_BATCH: u64 = 4 << 30;

/// LZ4 expands data at most this many times.
const MOST_OF_LZ4: u64 = 255;

/// The values of dictionaries, by id.
pub(super) type Dictionaries = HashMap<i64, ArrayRef>;

/// Reads the columns at `projection` of the batch at `place`. Strings are byte strings here; they are checked for UTF-8
/// where they are requested as strings.
pub(crate) fn read_batch(
    file: &Buffer,
    index: &ArrowIndex,
    place: MessagePlace,
    dictionaries: &Dictionaries,
    projection: &[usize],
) -> Result<RecordBatch, Refused> {
    let damaged = |reason: String| (place.offset, format!("a batch is damaged: {reason}"));
    let message = message_at(file, place, index.version)?;
    let batch = message.header_as_record_batch().ok_or_else(|| damaged("it has no header".into()))?;
    let body = body(file, place);
    check(&batch, &body).map_err(damaged)?;
    let version = message.version();
    let read = || {
        let schema = Arc::new(without_texts(&index.schema));
        let decoder = RecordBatchDecoder::try_new(&body, batch, schema, dictionaries, &version)?;
        decoder.with_projection(Some(projection)).read_record_batch()
    };
    without_panic(read).map_err(damaged)?.map_err(|error| damaged(error.to_string()))
}

/// Reads the dictionaries of the columns at `projection`, as they are after the first `count` dictionary messages.
pub(super) fn read_dictionaries(
    file: &Buffer,
    index: &ArrowIndex,
    count: usize,
    projection: &[usize],
) -> Result<Dictionaries, Refused> {
    let used = used_dictionaries(&index.schema, projection);
    let schema = without_texts(&index.schema);
    let mut dictionaries = Dictionaries::new();
    let before = &index.dictionaries[..count];
    for (number, &DictionaryPlace { message: place, id, .. }) in before.iter().enumerate() {
        let is_replaced = || before[number + 1..].iter().any(|later| later.id == id && !later.is_delta);
        if !used.contains(&id) || is_replaced() {
            continue;
        }
        let damaged = |reason: String| (place.offset, format!("a dictionary is damaged: {reason}"));
        let message = message_at(file, place, index.version)?;
        if message.header_type() != MessageHeader::DictionaryBatch {
            return Err(damaged("the message is not a dictionary batch".into()));
        }
        let batch = message.header_as_dictionary_batch().ok_or_else(|| damaged("it has no header".into()))?;
        let values = batch.data().ok_or_else(|| damaged("it has no values".into()))?;
        let body = body(file, place);
        check(&values, &body).map_err(damaged)?;
        let read = || read_dictionary(&body, batch, &schema, &mut dictionaries, &message.version());
        without_panic(read).map_err(damaged)?.map_err(|error| damaged(error.to_string()))?;
    }
    Ok(dictionaries)
}

fn body(file: &Buffer, place: MessagePlace) -> Buffer {
    file.slice_with_length(place.offset as usize + place.metadata as usize, place.body as usize)
}

/// True if the buffers of the message's body are aligned, so that uncompressed ones are used in place.
pub(super) fn is_aligned(place: MessagePlace) -> bool {
    (place.offset + u64::from(place.metadata)).is_multiple_of(8)
}

/// Fails if the numbers in `batch` do not match `body`. The reader checks everything else, but it allocates as much
/// memory as a file claims, and panics on some errors.
fn check(batch: &arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Result<(), String> {
    for node in batch.nodes().into_iter().flatten() {
        let (length, nulls) = (node.length(), node.null_count());
        if !(0..1 << 48).contains(&length) || !(0..=length).contains(&nulls) {
            return Err(format!("a column declares {length} rows, and {nulls} nulls"));
        }
    }
    let compression = batch.compression().map(|compression| compression.codec());
    let mut unpacked: u64 = 0;
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let end = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let bytes = end.and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
        let bytes = bytes.ok_or_else(|| {
            format!("a buffer of {length} bytes at byte {offset} does not fit into its message of {} bytes", body.len())
        })?;
        let (Some(codec), false) = (compression, bytes.is_empty()) else { continue };
        let (size, packed) = bytes.split_first_chunk().ok_or("a compressed buffer has less than 8 bytes")?;
        let size = match i64::from_le_bytes(*size) {
            // The buffer is not compressed.
            -1 => continue,
            size => u64::try_from(size)
                .map_err(|_| format!("a compressed buffer declares a decompressed size of {size} bytes"))?,
        };
        if codec == CompressionType::LZ4_FRAME && size > (packed.len() as u64).saturating_mul(MOST_OF_LZ4) {
            return Err(format!("{} compressed bytes can't decompress to {size}", packed.len()));
        }
        unpacked = unpacked.saturating_add(size);
        if unpacked > LARGEST_BATCH {
            return Err(format!("it decompresses to more than {LARGEST_BATCH} bytes, the most that is supported"));
        }
    }
    Ok(())
}

/// Returns the ids of the dictionaries of some columns, including nested ones.
fn used_dictionaries(schema: &Schema, projection: &[usize]) -> Vec<i64> {
    let columns = projection.iter().filter_map(|&column| schema.fields().get(column).cloned());
    let used = Schema::new(columns.collect::<Fields>());
    used.flattened_fields().into_iter().filter_map(dictionary_of).collect()
}

#[expect(deprecated, reason = "nothing else says which dictionary of a file is whose")]
fn dictionary_of(field: &Field) -> Option<i64> {
    field.dict_id()
}

/// Returns the schema with strings as byte strings, which have the same layout, but are not scanned for UTF-8.
fn without_texts(schema: &Schema) -> Schema {
    Schema::new(fields_without_texts(schema.fields()))
}

fn fields_without_texts(fields: &Fields) -> Fields {
    fields.iter().map(|field| Arc::new(field_without_texts(field))).collect()
}

fn field_without_texts(field: &Field) -> Field {
    let data_type = type_without_texts(field.data_type());
    field.clone().with_data_type(data_type)
}

fn type_without_texts(data_type: &DataType) -> DataType {
    let inner = |field: &Arc<Field>| Arc::new(field_without_texts(field));
    match data_type {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Utf8View => DataType::BinaryView,
        DataType::List(field) => DataType::List(inner(field)),
        DataType::LargeList(field) => DataType::LargeList(inner(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(inner(field), *size),
        DataType::Struct(fields) => DataType::Struct(fields_without_texts(fields)),
        DataType::Dictionary(keys, values) => DataType::Dictionary(keys.clone(), Box::new(type_without_texts(values))),
        other => other.clone(),
    }
}
