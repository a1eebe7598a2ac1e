//! [`Filter`]: selects the rows of Parquet files that are samples.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::PageIndexPolicy;

use super::bounds::{Condition, can_hold, possible_rows};
use super::file::{Footer, Request, refuse};
use super::groups::{FoundGroup, KeptRows};
use super::source::LARGEST_GROUP;
use crate::Result;
use crate::dataset::format::columnar::{Block, ColumnarOptions, Columns, FillValue, Strings, Value};
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::index::broken::is_damage;
use crate::dataset::format::index::damages::Damages;

/// A condition on a column: its value has this relation to a given one. Nulls satisfy no relation.
///
/// # Example
/// ```
/// use sluicegate::{FillValue, ParquetFilter, ParquetOptions, Relation};
///
/// let is_positive = ParquetFilter { column: "score".into(), relation: Relation::Greater(FillValue::Float(0.0)) };
/// let options = ParquetOptions { filter: vec![is_positive], ..ParquetOptions::default() };
/// assert_eq!(options.filter.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ParquetFilter {
    /// The name of the column, or of a part of a nested one (`a.b`). Lists and arrays are not supported.
    pub column: String,
    /// The relation that must hold.
    pub relation: Relation,
}

/// A relation of a value to given ones. Floats are compared as in IEEE 754: NaN does not equal itself and has no order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Relation {
    /// Equal to this.
    Equal(FillValue),
    /// Not equal to this.
    NotEqual(FillValue),
    /// Less than this.
    Less(FillValue),
    /// Less than or equal to this.
    LessOrEqual(FillValue),
    /// Greater than this.
    Greater(FillValue),
    /// Greater than or equal to this.
    GreaterOrEqual(FillValue),
    /// Equal to one of these.
    In(Vec<FillValue>),
    /// Not equal to any of these.
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

    /// True if it may hold for a value between these bounds, or for one without order (NaN). Values that can't be
    /// compared rule nothing out.
    pub(super) fn can_hold(&self, least: &Value<'_>, greatest: &Value<'_>) -> bool {
        let is_within = |other: &FillValue| {
            least.compare(other) != Some(Ordering::Greater) && greatest.compare(other) != Some(Ordering::Less)
        };
        let is_all = |other: &FillValue| {
            let equals = |bound: &Value<'_>| bound.compare(other) == Some(Ordering::Equal);
            // Bounds ignore NaN, which is not equal to anything.
            equals(least) && equals(greatest) && !matches!(least, Value::Float(_))
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

/// Conditions, and the columns that they refer to.
pub(super) struct Filter {
    relations: Vec<Relation>,
    options: ColumnarOptions,
    columns: Vec<Columns>,
}

impl Filter {
    /// Creates a filter from conditions `of` columns of `schema`. Returns `None` if there are none.
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

    /// Determines which rows of the groups remain, and stores that in `found`.
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
            // Page bounds are read only once a group can't be skipped as a whole.
            let mut is_bounded = false;
            let mut left = Vec::with_capacity(run.len());
            for &(number, group) in *run {
                if !can_hold(&footer, group, &conditions) {
                    left.push(KeptRows::None);
                    continue;
                }
                if !std::mem::replace(&mut is_bounded, true) {
                    // If the page index is damaged, the values are read without it.
                    footer = Footer::read_with_bounds(&file).unwrap_or(footer);
                }
                left.push(match self.left_of(&file, &footer, &conditions, group, found[number][group].rows) {
                    // Keep all rows for now: the scan for broken rows leaves them out.
                    Err(error) if damages == Damages::LeaveOut && is_damage(&error) => KeptRows::All,
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

    /// Fails if the filter can't be applied to the `rows` rows of `group`.
    pub(super) fn check(&self, file: &Arc<OpenFile>, footer: &Footer, group: usize, rows: usize) -> Result<()> {
        let conditions = self.conditions(file, footer)?;
        if can_hold(footer, group, &conditions) {
            self.left_of(file, footer, &conditions, group, rows)?;
        }
        Ok(())
    }

    /// Returns which of the `rows` rows of `group` remain.
    fn left_of(
        &self,
        file: &Arc<OpenFile>,
        footer: &Footer,
        conditions: &[Condition<'_>],
        group: usize,
        rows: usize,
    ) -> Result<KeptRows> {
        let ranges = possible_rows(footer, group, rows, conditions);
        if ranges.is_empty() {
            return Ok(KeptRows::None);
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
                let row = possible.next().ok_or("it has more rows than its footer declares")?;
                if self.relations.iter().enumerate().all(holds) {
                    bits[row / 64] |= 1 << (row % 64);
                    count += 1;
                }
            }
            Ok(())
        })?;
        Ok(match count {
            0 => KeptRows::None,
            count if count == rows => KeptRows::All,
            count => KeptRows::Some(count, bits),
        })
    }

    /// Returns the conditions, each with the leaf of the file that it refers to.
    fn conditions(&self, file: &Arc<OpenFile>, footer: &Footer) -> Result<Vec<Condition<'_>>> {
        let leaves = self.leaves(&footer.schema).map_err(|reason| refuse(file, file.bytes(), reason))?;
        Ok(self.relations.iter().zip(leaves).collect())
    }

    /// Returns the columns of a file that the conditions refer to.
    fn columns(&self, file: &Arc<OpenFile>, footer: &Footer) -> Result<Columns> {
        Columns::new(&footer.schema, &self.options).map_err(|reason| refuse(file, file.bytes(), reason))
    }

    /// Returns the leaves of a file that the conditions refer to.
    fn leaves(&self, schema: &ArrowSchema) -> std::result::Result<Vec<usize>, String> {
        let of_columns = self.options.columns.iter().flatten().map(|column| {
            let options = ColumnarOptions { columns: Some(vec![column.clone()]), ..self.options.clone() };
            let places = Columns::new(schema, &options)?.leaf_places();
            places.first().copied().ok_or_else(|| format!("there is no column `{column}`"))
        });
        of_columns.collect()
    }
}
