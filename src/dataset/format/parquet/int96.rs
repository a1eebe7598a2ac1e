//! [`in_nanoseconds`]: the unit of times that Spark, Impala, and old versions of pandas write as INT96.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use parquet::basic::Type;
use parquet::schema::types::SchemaDescriptor;

/// Returns the fields of a file's schema with nanoseconds as the unit of its INT96 columns, as pyarrow reads them.
///
/// A file written by pyarrow also stores the unit of the original table. The crate `parquet` would use it, so that the
/// unit of a time would depend on the writer of the file.
pub(super) fn in_nanoseconds(fields: &Fields, columns: &SchemaDescriptor) -> Fields {
    let mut leaves = columns.columns().iter().map(|column| column.physical_type());
    fields_in_nanoseconds(fields, &mut leaves)
}

fn fields_in_nanoseconds(fields: &Fields, leaves: &mut dyn Iterator<Item = Type>) -> Fields {
    fields.iter().map(|field| field_in_nanoseconds(field, leaves)).collect()
}

fn field_in_nanoseconds(field: &FieldRef, leaves: &mut dyn Iterator<Item = Type>) -> FieldRef {
    let mut of = |item| field_in_nanoseconds(item, leaves);
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields_in_nanoseconds(fields, leaves)),
        DataType::List(item) => DataType::List(of(item)),
        DataType::LargeList(item) => DataType::LargeList(of(item)),
        DataType::ListView(item) => DataType::ListView(of(item)),
        DataType::LargeListView(item) => DataType::LargeListView(of(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(of(item), *len),
        DataType::Map(entries, is_sorted) => DataType::Map(of(entries), *is_sorted),
        leaf => match (leaves.next(), leaf) {
            (Some(Type::INT96), DataType::Timestamp(_, zone)) => {
                DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())
            }
            _ => leaf.clone(),
        },
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}
