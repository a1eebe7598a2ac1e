//! Texts: CSV, JSON Lines, and name patterns.

use std::path::PathBuf;

use sluicegate::{Csv, CsvHeader, DType, Field, Folder, FolderOptions, JsonLines, Result, TypedField};

use super::input::Input;
use super::reading::read_opened;
use super::scratch::{file, scratch};

fn number(name: &str, dtype: DType, shape: &[usize]) -> TypedField {
    TypedField::number(Field::new(name, dtype, shape)).unwrap()
}

/// How a table is read.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) header: CsvHeader,
    pub(super) delimiter: u8,
    pub(super) defaults: Vec<(String, String)>,
    pub(super) fields: Option<Vec<TypedField>>,
}

impl Table {
    pub(super) fn new(input: &mut Input<'_>) -> Self {
        let header = input.choice(&[CsvHeader::FirstRow, CsvHeader::None]);
        let delimiter = input.choice(b",;\t|\"\xff");
        let defaults = [("b".to_owned(), "7".to_owned()), ("0".to_owned(), String::new())];
        let defaults = defaults[..usize::from(input.byte()) % 3].to_vec();
        let names = if header == CsvHeader::None { ["0", "1", "2"] } else { ["a", "b", "c"] };
        let fields = match input.byte() % 3 {
            0 => None,
            1 => Some(vec![TypedField::text(names[0]), number(names[1], DType::Float32, &[])]),
            _ => {
                let default = number(names[0], DType::UInt8, &[]).or(vec![9]).unwrap();
                Some(vec![TypedField::bytes(names[2]), default, number(names[1], DType::Bool, &[])])
            }
        };
        Self { header, delimiter, defaults, fields }
    }

    pub(super) fn open(self, paths: Vec<PathBuf>) -> Result<Csv> {
        Csv::open(paths, self.fields, &self.defaults, self.header, self.delimiter, None)
    }
}

/// Input: header, delimiter, how the types are determined, and two files.
pub(super) fn csv(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let table = Table::new(&mut input);
    let second = file("1.csv", input.part());
    let mut paths = vec![file("0.csv", input.rest())];
    if std::fs::metadata(&second).unwrap().len() > 0 {
        paths.push(second);
    }
    read_opened(table.open(paths));
}

/// Chooses which fields of lines are read; None reads whole lines.
pub(super) fn fields_of_lines(input: &mut Input<'_>) -> Option<Vec<TypedField>> {
    match input.byte() % 3 {
        0 => None,
        1 => Some(vec![
            number("a", DType::Int64, &[]).or(i64::to_ne_bytes(-1).to_vec()).unwrap(),
            TypedField::number(Field::variable("b", DType::Float32, [2])).unwrap(),
            TypedField::text("c"),
        ]),
        _ => Some(vec![
            TypedField::json("b"),
            number("a", DType::Bool, &[2, 1]),
            TypedField::number(Field::variable("c", DType::UInt8, [])).unwrap(),
        ]),
    }
}

/// Input: the fields, and the file.
pub(super) fn json_lines(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let fields = fields_of_lines(&mut input);
    read_opened(JsonLines::open(vec![file("x.jsonl", input.rest())], fields, None));
}

/// Input: a pattern for names that are always the same.
pub(super) fn name_pattern(bytes: &[u8]) {
    let folder = scratch("names");
    if !folder.exists() {
        for name in ["a.jpg", "b/c.d/e.PNG", "b/.hidden/x", "[x]", "b/ü", "aaaaaaaaaaaaaaaaaaaaaaaa"] {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
    }
    let Ok(pattern) = std::str::from_utf8(&bytes[..bytes.len().min(2000)]) else { return };
    let options = FolderOptions { pattern: Some(pattern.into()), ..FolderOptions::default() };
    read_opened(Folder::open(&folder, &options));
}
