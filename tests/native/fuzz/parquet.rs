//! Parquet, read whole and through a filter.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::metadata::ParquetMetaDataReader;
use sluicegate::{FillValue, Parquet, ParquetFilter, ParquetOptions, Relation};

use super::columns::{columns, framed};
use super::input::Input;
use super::reading::{Samples, Ways, check_error, read_in};
use super::scratch::NOWHERE;

/// Returns the options; the number of bytes to cache determines if the file is read by row groups or by pages.
fn options(input: &mut Input<'_>) -> ParquetOptions {
    ParquetOptions {
        columns: columns(input),
        filter: Vec::new(),
        cache_bytes: input.choice(&[None, Some(0), Some(150)]),
        index_folder: Some(NOWHERE.into()),
    }
}

/// Reads the files; by pages as well, if little is cached.
fn read(paths: Vec<PathBuf>, options: ParquetOptions) -> Option<Samples> {
    let ways = if options.cache_bytes.is_some() { Ways::Apart } else { Ways::Same };
    let opened = Parquet::open(paths, options).inspect_err(check_error);
    opened.ok().map(|files| read_in(files, ways))
}

/// Input: how the columns are read, how much of them is cached, and the file.
pub(super) fn parquet(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let options = options(&mut input);
    let path = framed("x.parquet", input, b"PAR1");
    read(vec![path.clone()], options.clone());
    read(vec![path.clone(), path], options);
}

fn condition(input: &mut Input<'_>) -> ParquetFilter {
    let column = input.choice(&["n", "t", "f", "d", "s.flag", "when"]).to_owned();
    let value = match input.byte() % 5 {
        0 => FillValue::Int(i128::from(input.byte())),
        1 => FillValue::Float(f64::from(input.byte()) - 2.5),
        2 => FillValue::Text(["", "abab", "low", "\u{e9}"][usize::from(input.byte()) % 4].to_owned()),
        3 => FillValue::Bool(input.byte() % 2 == 1),
        _ => FillValue::Bytes(vec![input.byte(); 2]),
    };
    let relation = match input.byte() % 8 {
        0 => Relation::Equal(value),
        1 => Relation::NotEqual(value),
        2 => Relation::Less(value),
        3 => Relation::LessOrEqual(value),
        4 => Relation::Greater(value),
        5 => Relation::GreaterOrEqual(value),
        6 => Relation::In(vec![value, FillValue::Int(3)]),
        _ => Relation::NotIn(vec![value]),
    };
    ParquetFilter { column, relation }
}

/// Input: one or two conditions, how the columns are read, how much of them is cached, and the file.
pub(super) fn parquet_filter(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let filter = (0..=input.byte() % 2).map(|_| condition(&mut input)).collect();
    let all = options(&mut input);
    let some = ParquetOptions { filter, ..all.clone() };
    let path = framed("x.parquet", input, b"PAR1");
    let by_groups = all.cache_bytes.is_none();
    let (all, some) = (read(vec![path.clone()], all), read(vec![path.clone()], some));
    let (Some(all), Some(some)) = (all, some) else { return };
    if !all.is_whole() || !some.is_whole() {
        return;
    }
    if by_groups && !has_places_of_pages(&path) {
        let mut rest = all.samples.iter();
        assert!(some.samples.iter().all(|sample| rest.any(|other| other == sample)), "a filter made a sample");
    }
    // The rows that a filter keeps are read by pages, if the file lists the pages' positions. The list may be damaged:
    // then there is other data at these positions, which can belong to any rows. For an undamaged list,
    // `test_parquet_pages.py` compares every sample.
    assert!(some.samples.len() <= all.samples.len(), "a filter made a sample");
}

/// True if the file lists the positions of some column's pages.
fn has_places_of_pages(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    // It was read before.
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let mut columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    columns.any(|column| column.offset_index_offset().is_some())
}
