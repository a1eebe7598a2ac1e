//! [`Filter`]: which rows of Parquet files are samples.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::PageIndexPolicy;

use super::bounds::{Condition, can_hold, possible_rows};
use super::file::{Footer, Request, refuse};
use super::groups::{FoundGroup, Left};
use super::source::LARGEST_GROUP;
use crate::Result;
use crate::dataset::format::columnar::{Block, ColumnarOptions, Columns, FillValue, Strings, Value};
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::index::broken::is_damage;
use crate::dataset::format::index::damages::Damages;

/// A condition on a column: its value stands in this relation to another. Nulls are in none.
#[derive(Debug, Clone, PartialEq)]
pub struct ParquetFilter {
    /// The name of the column, or of a part of a nested one (`a.b`), which is neither a list nor an array.
    pub column: String,
    /// What holds for its value.
    pub relation: Relation,
}

/// What holds for a value. Floats are compared as IEEE 754 says: NaN is not equal to itself, and in no order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Relation {
    /// It is this.
    Equal(FillValue),
    /// It is not this.
    NotEqual(FillValue),
    /// It is less.
    Less(FillValue),
    /// It is less, or this.
    LessOrEqual(FillValue),
    /// It is greater.
    Greater(FillValue),
    /// It is greater, or this.
    GreaterOrEqual(FillValue),
    /// It is one of these.
    In(Vec<FillValue>),
    /// It is none of these.
    NotIn(Vec<FillValue>),
}

impl Relation {
    fn values(&self) -> &[FillValue] {
        match self {
            Self::In(values) | Self::NotIn(values) => values,
            Self::Equal(value)
            | Self::NotEqual(value)
            | Self::Less(value)
            | Self::LessOrEqual(value)
            | Self::Greater(value)
            | Self::GreaterOrEqual(value) => std::slice::from_ref(value),
        }
    }

    fn holds(&self, value: &Value<'_>) -> bool {
        let to = |other: &FillValue| value.compare(other);
        match self {
            Self::Equal(other) => to(other) == Some(Ordering::Equal),
            Self::NotEqual(other) => to(other) != Some(Ordering::Equal),
            Self::Less(other) => to(other) == Some(Ordering::Less),
            Self::LessOrEqual(other) => to(other).is_some_and(Ordering::is_le),
            Self::Greater(other) => to(other) == Some(Ordering::Greater),
            Self::GreaterOrEqual(other) => to(other).is_some_and(Ordering::is_ge),
            Self::In(others) => others.iter().any(|other| to(other) == Some(Ordering::Equal)),
            Self::NotIn(others) => !others.iter().any(|other| to(other) == Some(Ordering::Equal)),
        }
    }

    /// True if it can hold for a value between these, or for one that is in no order. What is not to be compared says
    /// nothing.
    pub(super) fn can_hold(&self, least: &Value<'_>, greatest: &Value<'_>) -> bool {
        let is_within = |other: &FillValue| {
            least.compare(other) != Some(Ordering::Greater) && greatest.compare(other) != Some(Ordering::Less)
        };
        let is_all = |other: &FillValue| {
            let is_it = |bound: &Value<'_>| bound.compare(other) == Some(Ordering::Equal);
            // NaN is left out of bounds, and is not equal to anything.
            is_it(least) && is_it(greatest) && !matches!(least, Value::Float(_))
        };
        match self {
            Self::Equal(other) => is_within(other),
            Self::In(others) => others.iter().any(is_within),
            Self::Less(other) => !matches!(least.compare(other), Some(Ordering::Equal | Ordering::Greater)),
            Self::LessOrEqual(other) => least.compare(other) != Some(Ordering::Greater),
            Self::Greater(other) => !matches!(greatest.compare(other), Some(Ordering::Equal | Ordering::Less)),
            Self::GreaterOrEqual(other) => greatest.compare(other) != Some(Ordering::Less),
            Self::NotEqual(other) => !is_all(other),
            Self::NotIn(others) => !others.iter().any(is_all),
        }
    }
}

/// Conditions, and the columns that they are on.
pub(super) struct Filter {
    relations: Vec<Relation>,
    options: ColumnarOptions,
    columns: Vec<Columns>,
}

impl Filter {
    /// The conditions `of` columns of `schema`; nothing where there are none.
    pub(super) fn new(schema: &ArrowSchema, of: &[ParquetFilter]) -> std::result::Result<Option<Self>, String> {
        if of.is_empty() {
            return Ok(None);
        }
        let mut filter = Self { relations: Vec::new(), options: ColumnarOptions::default(), columns: Vec::new() };
        filter.options.strings = Strings::Bytes;
        for condition in of {
            let options = ColumnarOptions { columns: Some(vec![condition.column.clone()]), ..filter.options.clone() };
            let columns = Columns::new(schema, &options)?;
            columns.check_comparable(&condition.column, condition.relation.values())?;
            filter.columns.push(columns);
            filter.relations.push(condition.relation.clone());
        }
        filter.options.columns = Some(of.iter().map(|condition| condition.column.clone()).collect());
        Ok(Some(filter))
    }

    /// Finds out which rows of the groups are left.
    pub(super) fn apply(&self, pool: &FilePool, found: &mut [Vec<FoundGroup>], damages: Damages) -> Result<()> {
        let all: Vec<(usize, usize)> = found
            .iter()
            .enumerate()
            .flat_map(|(file, groups)| (0..groups.len()).map(move |group| (file, group)))
            .collect();
        // Adjacent row groups of a file share one read of its footer.
        let runs: Vec<&[(usize, usize)]> = all.chunk_by(|a, b| a.0 == b.0 && b.1 % 16 != 0).collect();
        let left = scan(&runs, |run| {
            let file = pool.file(run[0].0)?;
            let mut footer = Footer::read(&file, PageIndexPolicy::Skip)?;
            let conditions = self.conditions(&file, &footer)?;
            // What pages have is looked up when a group is not passed over.
            let mut is_bounded = false;
            let mut left = Vec::with_capacity(run.len());
            for &(number, group) in *run {
                if !can_hold(&footer, group, &conditions) {
                    left.push(Left::None);
                    continue;
                }
                if !std::mem::replace(&mut is_bounded, true) {
                    // An index that is damaged takes nothing from the values.
                    footer = Footer::read_with_bounds(&file).unwrap_or(footer);
                }
                left.push(match self.left_of(&file, &footer, &conditions, group, found[number][group].rows) {
                    // All of them, until they are looked at.
                    Err(error) if damages == Damages::LeaveOut && is_damage(&error) => Left::All,
                    left => left?,
                });
            }
            Ok(left)
        })?;
        for (&(file, group), left) in all.iter().zip(left.into_iter().flatten()) {
            found[file][group].left = left;
        }
        Ok(())
    }

    /// Fails when it can't be found out which of the `rows` rows of `group` are left.
    pub(super) fn check(&self, file: &Arc<OpenFile>, footer: &Footer, group: usize, rows: usize) -> Result<()> {
        let conditions = self.conditions(file, footer)?;
        if can_hold(footer, group, &conditions) {
            self.left_of(file, footer, &conditions, group, rows)?;
        }
        Ok(())
    }

    /// What is left of the `rows` rows of `group`.
    fn left_of(
        &self,
        file: &Arc<OpenFile>,
        footer: &Footer,
        conditions: &[Condition<'_>],
        group: usize,
        rows: usize,
    ) -> Result<Left> {
        let ranges = possible_rows(footer, group, rows, conditions);
        if ranges.is_empty() {
            return Ok(Left::None);
        }
        let is_all = ranges.first() == Some(&(0..rows));
        let mut possible = ranges.iter().cloned().flatten();
        let (mut bits, mut count) = (vec![0_u64; rows.div_ceil(64)], 0);
        let columns = self.columns(file, footer)?;
        let request = Request {
            footer,
            group,
            leaves: &columns.leaf_places(),
            rows: (!is_all).then(|| RowSelection::from_consecutive_ranges(ranges.iter().cloned(), rows)),
            most_bytes: LARGEST_GROUP,
        };
        request.decode(file, |batch| {
            let blocks = self.columns.iter().map(|columns| Block::new(columns, batch));
            let blocks = blocks.collect::<std::result::Result<Vec<_>, _>>()?;
            for within in 0..batch.num_rows() {
                let holds = |(place, relation): (usize, &Relation)| {
                    let value = blocks[place].value(&self.columns[place], within);
                    value.is_some_and(|value| relation.holds(&value))
                };
                let row = possible.next().ok_or("more rows than its footer says")?;
                if self.relations.iter().enumerate().all(holds) {
                    bits[row / 64] |= 1 << (row % 64);
                    count += 1;
                }
            }
            Ok(())
        })?;
        Ok(match count {
            0 => Left::None,
            count if count == rows => Left::All,
            count => Left::Some(count, bits),
        })
    }

    /// What the conditions are on in a file: its leaves.
    fn conditions(&self, file: &Arc<OpenFile>, footer: &Footer) -> Result<Vec<Condition<'_>>> {
        let leaves = self.leaves(&footer.schema).map_err(|reason| refuse(file, file.bytes(), reason))?;
        Ok(self.relations.iter().zip(leaves).collect())
    }

    /// The columns of a file that the conditions are on.
    fn columns(&self, file: &Arc<OpenFile>, footer: &Footer) -> Result<Columns> {
        Columns::new(&footer.schema, &self.options).map_err(|reason| refuse(file, file.bytes(), reason))
    }

    /// The leaves of a file that the conditions are on.
    fn leaves(&self, schema: &ArrowSchema) -> std::result::Result<Vec<usize>, String> {
        let of_columns = self.options.columns.iter().flatten().map(|column| {
            let options = ColumnarOptions { columns: Some(vec![column.clone()]), ..self.options.clone() };
            let places = Columns::new(schema, &options)?.leaf_places();
            places.first().copied().ok_or_else(|| format!("there is no column `{column}`"))
        });
        of_columns.collect()
    }
}
