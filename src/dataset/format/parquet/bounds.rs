//! Prunes row groups and pages of Parquet files by the minimum and maximum statistics of their values.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::errors::ParquetError;

use super::file::Footer;
use super::filter::Relation;
use crate::dataset::format::columnar::{Block, ColumnarOptions, Columns, Strings, field_of_leaf};

/// A relation that must hold for the values of a leaf.
pub(super) type Condition<'a> = (&'a Relation, usize);

/// The minima and maxima of some pieces (row groups or pages) of a column.
struct Bounds {
    columns: Columns,
    least: Block,
    greatest: Block,
}

/// True if a row of `group` may satisfy the conditions, by the statistics in the footer.
pub(super) fn can_hold(footer: &Footer, group: usize, conditions: &[Condition<'_>]) -> bool {
    conditions.iter().all(|&(relation, leaf)| {
        let Some(of_group) = footer.groups().get(group) else { return true };
        let Some(statistics) = of_group.column(leaf).statistics() else { return true };
        // Nulls satisfy no relation.
        let nulls = statistics.null_count_opt().and_then(|nulls| i64::try_from(nulls).ok());
        if of_group.num_rows() > 0 && nulls == Some(of_group.num_rows()) {
            return false;
        }
        // The deprecated statistics of old writers may use a different sort order.
        if statistics.is_min_max_deprecated() {
            return true;
        }
        let bounds = Bounds::of(
            footer,
            leaf,
            |converter| converter.row_group_mins([of_group]),
            |converter| converter.row_group_maxes([of_group]),
        );
        bounds.is_none_or(|bounds| bounds.can_hold(relation, 0))
    })
}

/// Returns the rows of `group`, as ordered ranges below `rows`, that may satisfy the conditions by their page bounds.
pub(super) fn possible_rows(
    footer: &Footer,
    group: usize,
    rows: usize,
    conditions: &[Condition<'_>],
) -> Vec<Range<usize>> {
    let all = || std::iter::once(0..rows).filter(|all| !all.is_empty()).collect();
    let possible = conditions.iter().filter_map(|&(relation, leaf)| of_pages(footer, group, rows, relation, leaf));
    possible.reduce(|a, b| intersection(&a, &b)).unwrap_or_else(all)
}

/// Returns the rows of pages in which `relation` may hold for a leaf. Returns `None` if the file lacks page bounds.
fn of_pages(footer: &Footer, group: usize, rows: usize, relation: &Relation, leaf: usize) -> Option<Vec<Range<usize>>> {
    let index = footer.metadata().metadata().page_index()?;
    let of_column = index.column_index(group, leaf)?;
    let starts = index.page_locations(group, leaf)?.iter().map(|page| usize::try_from(page.first_row_index).ok());
    let mut starts = starts.collect::<Option<Vec<usize>>>()?;
    let pages = starts.len();
    starts.push(rows);
    let is_sound = starts.first() == Some(&0) && starts.is_sorted() && of_column.num_pages() == pages as u64;
    if !is_sound {
        return None;
    }
    let bounds = Bounds::of(
        footer,
        leaf,
        |converter| converter.data_page_mins(&**index, &[group]),
        |converter| converter.data_page_maxes(&**index, &[group]),
    )?;
    if bounds.least.rows() != pages || bounds.greatest.rows() != pages {
        return None;
    }
    let can_hold = |&page: &usize| !of_column.is_null_page(page) && bounds.can_hold(relation, page);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for page in (0..pages).filter(can_hold) {
        let (start, end) = (starts[page], starts[page + 1]);
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ if start < end => ranges.push(start..end),
            _ => {}
        }
    }
    Some(ranges)
}

/// Intersects two ordered lists of ranges.
fn intersection(a: &[Range<usize>], b: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        let (start, end) = (one.start.max(other.start), one.end.min(other.end));
        if start < end {
            both.push(start..end);
        }
        if one.end <= other.end {
            a.next()
        } else {
            b.next()
        };
    }
    both
}

impl Bounds {
    /// Reads the bounds of a leaf with the converters. Returns `None` if the file does not have them.
    fn of(
        footer: &Footer,
        leaf: usize,
        least: impl Fn(&StatisticsConverter<'_>) -> Result<ArrayRef, ParquetError>,
        greatest: impl Fn(&StatisticsConverter<'_>) -> Result<ArrayRef, ParquetError>,
    ) -> Option<Self> {
        let values = field_of_leaf(footer.schema.fields(), leaf)?;
        let field = Field::new("bounds", values.data_type().clone(), true);
        let options = ColumnarOptions { strings: Strings::Bytes, ..ColumnarOptions::default() };
        let columns = Columns::new(&Schema::new(vec![field]), &options).ok()?;
        let block = |find: &dyn Fn(&StatisticsConverter<'_>) -> Result<ArrayRef, ParquetError>| {
            let schema = footer.metadata().parquet_schema();
            let converter = StatisticsConverter::from_column_index(leaf, values, schema).ok()?;
            let batch = RecordBatch::try_from_iter([("bounds", find(&converter).ok()?)]).ok()?;
            Block::new(&columns, &batch).ok()
        };
        // The crate may panic on damaged statistics.
        let both = catch_unwind(AssertUnwindSafe(|| Some((block(&least)?, block(&greatest)?))));
        let (least, greatest) = both.ok().flatten()?;
        Some(Self { columns, least, greatest })
    }

    fn can_hold(&self, relation: &Relation, piece: usize) -> bool {
        match (self.least.value(&self.columns, piece), self.greatest.value(&self.columns, piece)) {
            (Some(least), Some(greatest)) => relation.can_hold(&least, &greatest),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intersection_of_ranges_remains() {
        assert_eq!(intersection(&[0..5, 8..9], &[2..3, 4..8]), [2..3, 4..5]);
        assert_eq!(intersection(&[0..4, 4..10], &[1..2, 3..5, 9..10]), [1..2, 3..4, 4..5, 9..10]);
        assert!(intersection(&[0..4, 4..10], &[]).is_empty());
    }
}
