//! [`map_leaves`]: changes the types of the columns in a schema, at any depth.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

/// Returns the fields with the type of each leaf replaced by `of` it. Leaves come in the order of the file's columns.
pub(super) fn map_leaves(fields: &Fields, of: &mut dyn FnMut(&DataType) -> DataType) -> Fields {
    fields.iter().map(|field| map_leaves_of(field, of)).collect()
}

fn map_leaves_of(field: &FieldRef, of: &mut dyn FnMut(&DataType) -> DataType) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(map_leaves(fields, of)),
        DataType::List(item) => DataType::List(map_leaves_of(item, of)),
        DataType::LargeList(item) => DataType::LargeList(map_leaves_of(item, of)),
        DataType::ListView(item) => DataType::ListView(map_leaves_of(item, of)),
        DataType::LargeListView(item) => DataType::LargeListView(map_leaves_of(item, of)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(map_leaves_of(item, of), *len),
        DataType::Map(entries, is_sorted) => DataType::Map(map_leaves_of(entries, of), *is_sorted),
        leaf => of(leaf),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}
