//! Parquet files: how they are read, as Python says it.

use std::path::PathBuf;

use pyo3::prelude::*;
use sluicegate::{FillValue, ParquetFilter, ParquetOptions, Relation, Result};

use super::columnar::{ColumnarArguments, ValueForm};
use super::error::unknown;

/// How Parquet files are read, as Python says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct ParquetArguments {
    columns: ColumnarArguments,
    /// (column, relation, values)
    filter: Vec<(String, String, Vec<ValueForm>)>,
    cache_bytes: Option<usize>,
    index_folder: Option<PathBuf>,
}

impl ParquetArguments {
    /// The core's options.
    pub(super) fn options(self) -> Result<ParquetOptions> {
        let filter = self
            .filter
            .into_iter()
            .map(|(column, relation, values)| Ok(ParquetFilter { column, relation: relation_of(&relation, values)? }));
        Ok(ParquetOptions {
            filter: filter.collect::<Result<_>>()?,
            columns: self.columns.options()?,
            cache_bytes: self.cache_bytes,
            index_folder: self.index_folder,
        })
    }
}

fn relation_of(name: &str, values: Vec<ValueForm>) -> Result<Relation> {
    let mut values: Vec<FillValue> = values.into_iter().map(FillValue::from).collect();
    match name {
        "in" => return Ok(Relation::In(values)),
        "not in" => return Ok(Relation::NotIn(values)),
        _ => {}
    }
    let (Some(value), true) = (values.pop(), values.is_empty()) else { return Err(unknown("filter", name)) };
    Ok(match name {
        "==" => Relation::Equal(value),
        "!=" => Relation::NotEqual(value),
        "<" => Relation::Less(value),
        "<=" => Relation::LessOrEqual(value),
        ">" => Relation::Greater(value),
        ">=" => Relation::GreaterOrEqual(value),
        other => return Err(unknown("filter", other)),
    })
}
