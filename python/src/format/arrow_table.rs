//! Arrow tables that Python holds.

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use sluicegate::internal::{ArrowTable, Step, TableValue};

use crate::detach::detach;
use crate::error::unknown;
use crate::memory::table_at;

/// (field name, steps to its column, kind of value: "numbers", "bytes", "bytes without zeros", "lists", or "ones").
pub(crate) type ColumnForm = (String, Vec<StepForm>, String);

/// The name of a column or of a part of it, or the position of an item in lists.
#[derive(FromPyObject)]
pub(crate) enum StepForm {
    Part(String),
    Item(usize),
}

/// Returns the columns of the table in `stream`, a capsule of Arrow's stream interface, which is empty afterwards; None
/// if they are not as required.
pub(crate) fn read(
    py: Python<'_>,
    stream: &Bound<'_, PyCapsule>,
    columns: Vec<ColumnForm>,
) -> PyResult<Option<ArrowTable>> {
    let address = stream.pointer_checked(Some(c"arrow_array_stream"))?.as_ptr().expose_provenance();
    detach(py, || {
        let column = |(name, path, value): ColumnForm| {
            let value = match value.as_str() {
                "numbers" => TableValue::Numbers,
                "bytes" => TableValue::Bytes,
                "bytes without zeros" => TableValue::BytesWithoutZeros,
                "lists" => TableValue::Lists,
                "ones" => TableValue::Ones,
                other => return Err(unknown("columns", other)),
            };
            let step = |step: StepForm| match step {
                StepForm::Part(name) => Step::Part(name),
                StepForm::Item(item) => Step::Item(item),
            };
            Ok((name, path.into_iter().map(step).collect(), value))
        };
        let paths = columns.into_iter().map(column).collect::<sluicegate::Result<Vec<_>>>()?;
        ArrowTable::new(table_at(address)?, &paths)
    })
}
