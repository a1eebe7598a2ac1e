//! [`Value`]: one value of a column, for comparisons.

use std::cmp::Ordering;

use super::block::BlockValues;
use super::leaf::Form;
use super::nested_type::{NestedValue, nested_number};
use super::rule::Rule;
use super::{Block, Columns, FillValue, Reason};
use crate::DType;

/// One value of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Bool(bool),
    Int(i128),
    Float(f64),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// Compares with `other`, without rounding. Returns `None` if they have no order.
    pub(crate) fn compare(&self, other: &FillValue) -> Option<Ordering> {
        match (*self, other) {
            (Self::Bool(a), FillValue::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), FillValue::Int(b)) => Some(a.cmp(b)),
            (Self::Float(a), FillValue::Float(b)) => a.partial_cmp(b),
            (Self::Int(a), FillValue::Float(b)) => int_to_float(a, *b),
            (Self::Float(a), FillValue::Int(b)) => int_to_float(*b, a).map(Ordering::reverse),
            (Self::Bytes(a), FillValue::Text(b)) => Some(a.cmp(b.as_bytes())),
            (Self::Bytes(a), FillValue::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// Compares an integer with a float, without rounding either.
fn int_to_float(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // Larger floats saturate, which is beyond any 64-bit integer.
    let whole = float.floor() as i128;
    Some(int.cmp(&whole).then(if float > float.floor() { Ordering::Less } else { Ordering::Equal }))
}

impl Columns {
    /// Fails if the values of the only column can't be compared with `others`.
    pub(crate) fn check_comparable(&self, name: &str, others: &[FillValue]) -> Result<(), Reason> {
        let [leaf] = self.leaves() else {
            return Err(format!("column `{name}` has several parts; name one of them"));
        };
        let is_one = |other: &FillValue| match (&leaf.meaning.rule, other) {
            (Rule::Fixed { dtype: DType::Bool, .. }, other) => matches!(other, FillValue::Bool(_)),
            (Rule::Fixed { .. }, other) => matches!(other, FillValue::Int(_) | FillValue::Float(_)),
            (Rule::Text, other) => matches!(other, FillValue::Text(_)),
            (Rule::Bytes | Rule::FixedBytes(_), other) => matches!(other, FillValue::Bytes(_)),
            (Rule::Nested(_), _) => false,
        };
        let is_scalar = match &leaf.meaning.rule {
            Rule::Fixed { shape, .. } => shape.is_empty() && leaf.form == Form::Fixed,
            Rule::Nested(_) => false,
            _ => true,
        };
        match (is_scalar, others.iter().find(|other| !is_one(other))) {
            (true, None) => Ok(()),
            (true, Some(other)) => {
                Err(format!("column `{name}` holds {}, which can't be compared with {other:?}", leaf.describe()))
            }
            (false, _) => Err(format!("column `{name}` holds {}, which can't be compared", leaf.describe())),
        }
    }
}

impl Block {
    /// Returns the value of the only column of `columns` in row `row`, or `None` if it is null.
    pub(crate) fn value(&self, columns: &Columns, row: usize) -> Option<Value<'_>> {
        let leaf = self.leaf(0);
        if leaf.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        match &leaf.values {
            BlockValues::Variable(values) => Some(Value::Bytes(values.get(row))),
            BlockValues::Fixed { bytes, width } => {
                let bytes = &bytes[row * width..(row + 1) * width];
                match columns.leaves().first().map(|leaf| &leaf.meaning.rule) {
                    Some(Rule::Fixed { dtype, .. }) => number(bytes, *dtype),
                    _ => Some(Value::Bytes(bytes)),
                }
            }
        }
    }
}

fn number(bytes: &[u8], dtype: DType) -> Option<Value<'static>> {
    nested_number(bytes, dtype).and_then(|value| match value {
        NestedValue::Bool(value) => Some(Value::Bool(value)),
        NestedValue::Int(number) => Some(Value::Int(number)),
        NestedValue::Float(number) => Some(Value::Float(number)),
        _ => None,
    })
}
