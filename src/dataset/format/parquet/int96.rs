//! [`in_nanoseconds`]: the unit of times that Spark, Impala, and old versions of pandas write as INT96.

use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use parquet::basic::Type;
use parquet::schema::types::SchemaDescriptor;

use super::leaf_types::map_leaves;

/// Returns a file's schema with nanoseconds as the unit of its INT96 columns, as pyarrow reads them.
///
/// A file that pyarrow wrote also stores the unit of the table that was written. The crate `parquet` would follow that:
/// whether a time is in seconds or in nanoseconds would depend on who wrote the file.
pub(super) fn in_nanoseconds(schema: &SchemaRef, columns: &SchemaDescriptor) -> SchemaRef {
    let mut columns = columns.columns().iter().map(|column| column.physical_type());
    if columns.clone().all(|stored| stored != Type::INT96) {
        return Arc::clone(schema);
    }
    let fields = map_leaves(schema.fields(), &mut |leaf| match (columns.next(), leaf) {
        (Some(Type::INT96), DataType::Timestamp(_, zone)) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
        _ => leaf.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
