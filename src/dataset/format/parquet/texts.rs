//! Replaces strings by byte strings in the schema of a Parquet file.
//!
//! The crate validates whole pages of strings, and rejects a page with any invalid UTF-8, even if the caller wants
//! bytes or other rows. Besides, strings are checked again where they become strings.

use std::sync::Arc;

use arrow_schema::{DataType, Fields};
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};
use parquet::schema::types::{BasicTypeInfo, SchemaDescriptor, Type, TypePtr};

use super::leaf_types::map_leaves;

/// Returns the fields with strings as byte strings, and with dictionaries of numbers as plain numbers.
pub(super) fn fields_as_read(fields: &Fields) -> Fields {
    map_leaves(fields, &mut type_as_read)
}

fn type_as_read(of: &DataType) -> DataType {
    match of {
        DataType::Utf8 | DataType::Utf8View | DataType::BinaryView => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Dictionary(_, of) if of.is_primitive() || **of == DataType::Boolean => (**of).clone(),
        DataType::Dictionary(keys, of) => DataType::Dictionary(keys.clone(), Box::new(type_as_read(of))),
        other => other.clone(),
    }
}

/// Returns the metadata with the file's strings as byte strings.
///
/// The column metadata of row groups keeps the old types, on which decoding does not depend.
pub(super) fn with_bytes_for_texts(metadata: ParquetMetaData) -> Result<ParquetMetaData, ParquetError> {
    let of_file = metadata.file_metadata();
    let schema = SchemaDescriptor::new(of_bytes(of_file.schema_descr().root_schema())?);
    let of_file = FileMetaData::new(
        of_file.version(),
        of_file.num_rows(),
        of_file.created_by().map(str::to_owned),
        of_file.key_value_metadata().cloned(),
        Arc::new(schema),
        of_file.column_orders().cloned(),
    );
    let mut whole = metadata.into_builder();
    let (groups, pages) = (whole.take_row_groups(), whole.take_page_index());
    Ok(ParquetMetaDataBuilder::new(of_file).set_row_groups(groups).set_page_index(pages).build())
}

fn of_bytes(of: &Type) -> Result<TypePtr, ParquetError> {
    let info = of.get_basic_info();
    let id = info.has_id().then(|| info.id());
    let made = match of {
        Type::GroupType { fields, .. } => {
            let group = Type::group_type_builder(info.name())
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned())
                .with_id(id)
                .with_fields(fields.iter().map(|field| of_bytes(field)).collect::<Result<_, _>>()?);
            // The root has no repetition.
            match info.has_repetition() {
                true => group.with_repetition(info.repetition()),
                false => group,
            }
            .build()?
        }
        Type::PrimitiveType { physical_type, .. } if *physical_type == PhysicalType::BYTE_ARRAY && is_text(info) => {
            let of_bytes = Type::primitive_type_builder(info.name(), PhysicalType::BYTE_ARRAY);
            of_bytes.with_repetition(info.repetition()).with_id(id).build()?
        }
        Type::PrimitiveType { .. } => of.clone(),
    };
    Ok(Arc::new(made))
}

fn is_text(info: &BasicTypeInfo) -> bool {
    match info.logical_type_ref() {
        Some(of) => matches!(of, LogicalType::String | LogicalType::Json),
        None => matches!(info.converted_type(), ConvertedType::UTF8 | ConvertedType::JSON),
    }
}
