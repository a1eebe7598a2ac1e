//! [`Filter`]: which rows of Parquet files are samples.

use std::cmp::Ordering;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema as ArrowSchema;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::PageIndexPolicy;

use super::columnar::{Block, ColumnarOptions, Columns, FillValue, Strings, Value};
use super::file_pool::FilePool;
use super::parquet_file::{Footer, Request, refuse};
use super::parquet_groups::{FoundGroup, Left};
use super::parquet_source::LARGEST_GROUP;
use super::scan::scan;
use crate::Result;

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

    /// Whether it can hold for a value that is not NaN and lies between these.
    fn can_hold(&self, least: &Value<'_>, greatest: &Value<'_>) -> bool {
        let is_within = |other: &FillValue| {
            least.compare(other) != Some(Ordering::Greater) && greatest.compare(other) != Some(Ordering::Less)
        };
        match self {
            Self::Equal(other) => is_within(other),
            Self::In(others) => others.iter().any(is_within),
            Self::Less(_) | Self::LessOrEqual(_) => self.holds(least),
            Self::Greater(_) | Self::GreaterOrEqual(_) => self.holds(greatest),
            Self::NotEqual(_) | Self::NotIn(_) => true,
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
    pub(super) fn apply(&self, pool: &FilePool, found: &mut [Vec<FoundGroup>]) -> Result<()> {
        let all: Vec<(usize, usize)> = found
            .iter()
            .enumerate()
            .flat_map(|(file, groups)| (0..groups.len()).map(move |group| (file, group)))
            .collect();
        // Neighbours of one file need its footer once.
        let runs: Vec<&[(usize, usize)]> = all.chunk_by(|a, b| a.0 == b.0 && b.1 % 16 != 0).collect();
        let left = scan(&runs, |run| {
            let file = pool.file(run[0].0)?;
            let footer = Footer::read(&file, PageIndexPolicy::Skip)?;
            let columns = Columns::new(&footer.schema, &self.options);
            let columns = columns.map_err(|reason| refuse(&file, file.bytes(), reason))?;
            let mut left = Vec::with_capacity(run.len());
            for &(number, group) in *run {
                let rows = found[number][group].rows;
                if !self.can_hold(&footer, group) {
                    left.push(Left::None);
                    continue;
                }
                let (mut bits, mut row, mut count) = (vec![0_u64; rows.div_ceil(64)], 0, 0);
                let request = Request {
                    footer: &footer,
                    group,
                    leaves: &columns.leaf_places(),
                    rows: None,
                    most_bytes: LARGEST_GROUP,
                };
                request.decode(&file, |batch| {
                    let blocks = self.columns.iter().map(|columns| Block::new(columns, batch));
                    let blocks = blocks.collect::<std::result::Result<Vec<_>, _>>()?;
                    for within in 0..batch.num_rows() {
                        let holds = |(place, relation): (usize, &Relation)| {
                            let value = blocks[place].value(&self.columns[place], within);
                            value.is_some_and(|value| relation.holds(&value))
                        };
                        if self.relations.iter().enumerate().all(holds) {
                            let word = bits.get_mut(row / 64).ok_or("more rows than its footer says")?;
                            *word |= 1 << (row % 64);
                            count += 1;
                        }
                        row += 1;
                    }
                    Ok(())
                })?;
                left.push(match count {
                    0 => Left::None,
                    count if count == rows => Left::All,
                    count => Left::Some(count, bits),
                });
            }
            Ok(left)
        })?;
        for (&(file, group), left) in all.iter().zip(left.into_iter().flatten()) {
            found[file][group].left = left;
        }
        Ok(())
    }

    /// Whether, as far as the footer tells, a row of `group` can be left.
    fn can_hold(&self, footer: &Footer, group: usize) -> bool {
        let bounds = |columns: &Columns| {
            Some((
                self.bound(columns, footer, group, Bound::Least)?,
                self.bound(columns, footer, group, Bound::Greatest)?,
            ))
        };
        self.relations.iter().zip(&self.columns).all(|(relation, columns)| match bounds(columns) {
            Some((least, greatest)) => match (least.value(columns, 0), greatest.value(columns, 0)) {
                (Some(least), Some(greatest)) => relation.can_hold(&least, &greatest),
                _ => true,
            },
            None => true,
        })
    }

    /// The least or the greatest value of a column in `group`, if the footer has it.
    fn bound(&self, columns: &Columns, footer: &Footer, group: usize, bound: Bound) -> Option<Block> {
        let name = columns.only_top_level()?;
        let leaf = *columns.leaf_places().first()?;
        let metadata = footer.metadata();
        let of_group = footer.groups().get(group)?;
        // Those that old writers have put down may be in another order.
        of_group.column(leaf).statistics().filter(|statistics| !statistics.is_min_max_deprecated())?;
        let guarded = std::panic::AssertUnwindSafe(|| {
            let converter = StatisticsConverter::try_new(name, &footer.schema, metadata.parquet_schema()).ok()?;
            let array: ArrayRef = match bound {
                Bound::Least => converter.row_group_mins([of_group]).ok()?,
                Bound::Greatest => converter.row_group_maxes([of_group]).ok()?,
            };
            let batch = RecordBatch::try_from_iter([(name, array)]).ok()?;
            Block::new(columns, &batch).ok()
        });
        std::panic::catch_unwind(guarded).ok().flatten()
    }
}

#[derive(Clone, Copy)]
enum Bound {
    Least,
    Greatest,
}
