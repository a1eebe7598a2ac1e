//! Parquet files.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::{FillValue, Parquet, ParquetFilter, ParquetOptions, Relation, Result};

use super::columnar::{ColumnarArguments, ValueForm, kind_name, structure};
use crate::block_cache::BlockCache;
use crate::dataset::{Dataset, whole_sizes};
use crate::detach::opening;
use crate::error::unknown;

/// The arguments for reading Parquet files, as passed from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ParquetArguments {
    columns: ColumnarArguments,
    /// (column, relation, values)
    filter: Vec<(String, String, Vec<ValueForm>)>,
    cache_bytes: Option<usize>,
    index_folder: Option<PathBuf>,
}

impl ParquetArguments {
    /// Converts them to the core's options.
    pub(crate) fn options(self) -> Result<ParquetOptions> {
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

/// Opens the rows of the Parquet files at `paths`. Returns the dataset, the nesting of its fields, the kind of each,
/// the number of rows in each row group, the cache, and what was left out.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple for Python")]
pub(crate) fn parquet_dataset<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    arguments: ParquetArguments,
    leave_out: bool,
) -> PyResult<(Dataset, Bound<'py, PyAny>, Vec<String>, Vec<usize>, BlockCache, Vec<String>)> {
    let kinds = |rows: &Parquet| rows.kinds().iter().map(kind_name).collect();
    if leave_out {
        let rows = opening(py, || Parquet::open_whole(paths, arguments.options()?))?;
        let (kinds, structure) = (kinds(rows.dataset()), structure(py, rows.dataset().nesting())?);
        let sizes = whole_sizes(&rows, rows.dataset().group_samples());
        let (rows, cache, damages) = Dataset::whole_blocks(rows, Parquet::cache_info);
        return Ok((rows, structure, kinds, sizes, cache, damages));
    }
    let rows = opening(py, || Parquet::open(paths, arguments.options()?))?;
    let (structure, kinds, sizes) = (structure(py, rows.nesting())?, kinds(&rows), rows.group_samples());
    let rows = Arc::new(rows);
    let cache = BlockCache::of(&rows, Parquet::cache_info);
    Ok((Dataset(rows), structure, kinds, sizes, cache, Vec::new()))
}
