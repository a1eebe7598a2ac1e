//! Arrow columns: the arguments for reading them, and how Python represents them.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sluicegate::internal::{ColumnKind, Nesting};
use sluicegate::{Arrow, ColumnarOptions, Decimals, FillValue, NullRule, Parquet, Result, Strings};

use crate::detach::opening;
use crate::error::unknown;
use crate::nested;

/// The arguments for reading columns, as passed from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ColumnarArguments {
    columns: Option<Vec<String>>,
    /// (column, or None for all others; "error", "mask", "mask_elements", or "fill"; the fill value)
    nulls: Vec<(Option<String>, String, Option<ValueForm>)>,
    /// "str" or "bytes".
    strings: String,
    /// "float" or "int".
    decimals: String,
}

/// A value of a column; Python's types are tried in this order.
#[derive(FromPyObject, Debug)]
pub(crate) enum ValueForm {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<ValueForm> for FillValue {
    fn from(form: ValueForm) -> Self {
        match form {
            ValueForm::Bool(value) => Self::Bool(value),
            ValueForm::Int(number) => Self::Int(number.into()),
            ValueForm::Unsigned(number) => Self::Int(number.into()),
            ValueForm::Float(number) => Self::Float(number),
            ValueForm::Text(text) => Self::Text(text),
            ValueForm::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

impl ColumnarArguments {
    /// Converts them to the core's options.
    pub(crate) fn options(self) -> Result<ColumnarOptions> {
        let rule = |(name, rule, value): (Option<String>, String, Option<ValueForm>)| {
            let rule = match (rule.as_str(), value) {
                ("error", None) => NullRule::Refuse,
                ("mask", None) => NullRule::Mask,
                ("mask_elements", None) => NullRule::MaskElements,
                ("fill", Some(value)) => NullRule::Fill(value.into()),
                (other, _) => return Err(unknown("nulls", other)),
            };
            Ok((name, rule))
        };
        Ok(ColumnarOptions {
            columns: self.columns,
            nulls: self.nulls.into_iter().map(rule).collect::<Result<_>>()?,
            strings: match self.strings.as_str() {
                "str" => Strings::Objects,
                "bytes" => Strings::Bytes,
                other => return Err(unknown("strings", other)),
            },
            decimals: match self.decimals.as_str() {
                "float" => Decimals::Float,
                "int" => Decimals::Unscaled,
                other => return Err(unknown("decimals", other)),
            },
        })
    }
}

/// Returns how fields are nested: field numbers in dicts.
pub(crate) fn structure<'py>(py: Python<'py>, nesting: &Nesting) -> PyResult<Bound<'py, PyAny>> {
    match nesting {
        Nesting::Field(number) => Ok(number.into_pyobject(py)?.into_any()),
        Nesting::Dict(parts) => {
            let dict = PyDict::new(py);
            for (name, part) in parts {
                dict.set_item(name, structure(py, part)?)?;
            }
            Ok(dict.into_any())
        }
    }
}

/// Returns the kind of a field: "tensor", "list", "list mask", "raw", "str", "bytes", "optional str", "optional bytes",
/// or "nested" followed by the type.
pub(crate) fn kind_name(kind: &ColumnKind) -> String {
    let name = match kind {
        ColumnKind::Tensor => "tensor",
        ColumnKind::List => "list",
        ColumnKind::ListMask => "list mask",
        ColumnKind::Raw => "raw",
        ColumnKind::Text => "str",
        ColumnKind::Bytes => "bytes",
        ColumnKind::OptionalText => "optional str",
        ColumnKind::OptionalBytes => "optional bytes",
        ColumnKind::Nested(values) => return format!("nested {}", nested::spec_of(values)),
    };
    name.into()
}

/// Returns the text under `key` in the schema metadata of the Parquet file at `path`.
#[pyfunction]
pub(crate) fn parquet_metadata(py: Python<'_>, path: PathBuf, key: &str) -> PyResult<Option<String>> {
    opening(py, || Parquet::metadata(path, key))
}

/// Like [`parquet_metadata`], for an Arrow file.
#[pyfunction]
pub(crate) fn arrow_metadata(py: Python<'_>, path: PathBuf, key: &str) -> PyResult<Option<String>> {
    opening(py, || Arrow::metadata(path, key))
}
