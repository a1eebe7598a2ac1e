//! CSV files: rows, cells and their types.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{Csv, CsvHeader, DType, DataLoader, Dataset, Field, TypedField};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn put(folder: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("x.csv");
    fs::write(&path, bytes).unwrap();
    path
}

fn read_all(dataset: Csv) -> sluicegate::Result<Vec<Vec<u8>>> {
    let loader = DataLoader::builder(Arc::new(dataset)).batch_size(5).build()?;
    let mut cells = Vec::new();
    for batch in loader.epoch(0)? {
        let batch = batch?;
        for row in 0..batch.samples() {
            cells.extend((0..batch.fields().len()).map(|field| batch.sample(field, row).to_vec()));
        }
    }
    Ok(cells)
}

#[test]
fn rows_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let text = "\u{feff}n,\"t,\"\"x\",f\r\n1,a,1\r\n\r\n\"-2\",\"b\r\n\"\"c\"\"\",.5\n3,,inf";
    let path = put(&folder, text.as_bytes());
    let rows = Csv::open(vec![path.clone()], None, &[], CsvHeader::FirstRow, b',', None).unwrap();
    assert_eq!(rows.schema().to_string(), "(n: int64[], t,\"x: uint8[*], f: float64[])");
    let sample = |n: i64, t: &str, f: f64| vec![n.to_ne_bytes().to_vec(), t.into(), f.to_ne_bytes().to_vec()];
    dataset_conformance(&rows, &[sample(1, "a", 1.0), sample(-2, "b\r\n\"c\"", 0.5), sample(3, "", f64::INFINITY)]);
    let only = TypedField::number(Field::new("f", DType::Float32, [])).unwrap();
    let rows = Csv::open(vec![path], Some(vec![only]), &[], CsvHeader::FirstRow, b',', None).unwrap();
    let floats = [1.0, 0.5, f32::INFINITY].map(|value| vec![value.to_ne_bytes().to_vec()]);
    dataset_conformance(&rows, &floats);
}

fn quoted(cell: &str, always: bool) -> String {
    match always || cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

proptest! {
    #[test]
    fn cells_come_back_as_they_were_written(
        cells in prop::collection::vec(("[\",\r\na ö]{0,12}", "[\",\r\na ö]{0,12}", any::<bool>()), 0..40),
        end in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let folder = TempDir::new().unwrap();
        let row = |(a, b, always): &(String, String, bool)| format!("{},{}{end}", quoted(a, *always), quoted(b, *always));
        let text: String = cells.iter().map(row).collect();
        let fields = vec![TypedField::text("0"), TypedField::text("1")];
        let fields = if cells.is_empty() { vec![] } else { fields };
        let rows = Csv::open(vec![put(&folder, text.as_bytes())], Some(fields), &[], CsvHeader::None, b',', None).unwrap();
        let expected: Vec<Vec<u8>> = cells.into_iter().flat_map(|(a, b, _)| [a.into_bytes(), b.into_bytes()]).collect();
        prop_assert_eq!(read_all(rows).unwrap(), expected);
    }

    #[test]
    fn random_bytes_are_read_or_refused(bytes in "[\",\r\n1a;\\x00]{0,80}", other in prop::collection::vec(any::<u8>(), 0..80)) {
        let folder = TempDir::new().unwrap();
        for bytes in [bytes.into_bytes(), other] {
            for header in [CsvHeader::FirstRow, CsvHeader::None] {
                if let Ok(rows) = Csv::open(vec![put(&folder, &bytes)], None, &[], header, b',', None) {
                    let _ = read_all(rows);
                }
            }
        }
    }
}
