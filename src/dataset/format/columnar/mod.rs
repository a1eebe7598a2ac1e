//! Arrow columns: how a schema becomes fields, and how rows of arrays are copied into a batch.
//!
//! [`Columns`] holds the rules for a schema. A [`Block`] is a record batch converted by them: plain bytes, sample after
//! sample, with separate nulls. [`Picks`] are the rows of blocks that form a batch; they are written column by column.

#![cfg_attr(not(feature = "parquet"), allow(dead_code, unused_imports, reason = "some of it only Parquet asks for"))]

mod block;
mod broken_rows;
mod columns;
mod fixed;
mod leaf;
mod nested;
mod nested_room;
mod nested_values;
mod nesting;
mod nulls;
mod number_array;
mod options;
mod picks;
mod rule;
mod select;
mod value;
mod variable;

pub(crate) use block::Block;
pub use columns::ColumnKind;
pub(crate) use columns::Columns;
pub use nesting::Nesting;
pub(crate) use number_array::number_array;
pub use options::{ColumnarOptions, Decimals, FillValue, NullRule, Strings};
pub(crate) use picks::{Picks, Places};
pub(crate) use select::{count_leaves, field_of_leaf};
pub(crate) use value::Value;

use crate::dataset::format::field::nested_type::{self, NestedType};

/// The reason why something can't be read. Callers that know the file make an error of it.
pub(super) type Reason = String;
