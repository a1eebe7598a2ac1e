//! JSON Lines: which lines there are, what they contain, and what is rejected.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{DType, DataLoader, Dataset, Error, Field, JsonLines, TypedField};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn put(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn read_all(dataset: impl Dataset + 'static) -> sluicegate::Result<usize> {
    let loader = DataLoader::builder(Arc::new(dataset)).batch_size(3).build()?;
    let mut batches = 0;
    for batch in loader.epoch(0)? {
        batch?;
        batches += 1;
    }
    Ok(batches)
}

fn fields() -> Vec<TypedField> {
    vec![
        TypedField::number(Field::variable("ids", DType::Int32, [])).unwrap().or(vec![]).unwrap(),
        TypedField::text("text"),
        TypedField::number(Field::new("at", DType::Float64, [2])).unwrap().or(vec![0; 16]).unwrap(),
        TypedField::json("rest").or(b"null".to_vec()).unwrap(),
    ]
}

#[test]
fn whole_lines_keep_the_contract_however_they_end() {
    let folder = TempDir::new().unwrap();
    let first = put(&folder, "1", b"\xef\xbb\xbf{\"a\": 1}\r\n\r\n  \t\n [2]  \n\n\"\xc3\xb6\"");
    let (empty, blank) = (put(&folder, "2", b""), put(&folder, "3", b"\n \r\n"));
    let last = put(&folder, "4", b"null\n");
    let lines = JsonLines::open(vec![first, empty, blank, last], None, None).unwrap();
    let expected = ["{\"a\": 1}", " [2]", "\"ö\"", "null"];
    dataset_conformance(&lines, &expected.map(|line| vec![line.as_bytes().to_vec()]));
}

#[test]
fn fields_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let text = r#"{"text": "a\nö", "ids": [1, -2], "at": [1, 2.5], "rest": {"x" : [1]}, "more": [[{}]]}
        {"ids": null, "ids": [7], "text": "first", "text": ""}"#;
    let lines = JsonLines::open(vec![put(&folder, "x", text.as_bytes())], Some(fields()), None).unwrap();
    let ints = |ids: &[i32]| ids.iter().flat_map(|id| id.to_ne_bytes()).collect::<Vec<u8>>();
    let at = [1.0_f64, 2.5].map(f64::to_ne_bytes).concat();
    let expected = [
        vec![ints(&[1, -2]), "a\nö".into(), at, b"{\"x\" : [1]}".to_vec()],
        vec![ints(&[7]), vec![], vec![0; 16], b"null".to_vec()],
    ];
    dataset_conformance(&lines, &expected);
}

#[test]
fn integers_of_every_type_are_read_up_to_their_limits() {
    let folder = TempDir::new().unwrap();
    let types = [
        (DType::Int8, i128::from(i8::MIN), i128::from(i8::MAX)),
        (DType::UInt8, 0, i128::from(u8::MAX)),
        (DType::Int16, i128::from(i16::MIN), i128::from(i16::MAX)),
        (DType::UInt16, 0, i128::from(u16::MAX)),
        (DType::Int32, i128::from(i32::MIN), i128::from(i32::MAX)),
        (DType::UInt32, 0, i128::from(u32::MAX)),
        (DType::Int64, i128::from(i64::MIN), i128::from(i64::MAX)),
        (DType::UInt64, 0, i128::from(u64::MAX)),
    ];
    for (dtype, least, most) in types {
        let open = |numbers: &[i128]| {
            let text: String = numbers.iter().map(|number| format!("{{\"x\": {number}}}\n")).collect();
            let field = TypedField::number(Field::new("x", dtype, [])).unwrap();
            JsonLines::open(vec![put(&folder, "x", text.as_bytes())], Some(vec![field]), None).unwrap()
        };
        let bytes = |number: i128| {
            let all = number.to_ne_bytes();
            let start = if cfg!(target_endian = "big") { all.len() - dtype.bytes() } else { 0 };
            vec![all[start..start + dtype.bytes()].to_vec()]
        };
        dataset_conformance(&open(&[least, most, 7]), &[least, most, 7].map(bytes));
        assert!(read_all(open(&[least - 1])).is_err() && read_all(open(&[most + 1])).is_err(), "{dtype}");
    }
}

#[test]
fn what_is_expected_depends_on_the_level_of_a_list() {
    let folder = TempDir::new().unwrap();
    for (value, expected) in [("\"a\"", "expected a list of strings"), ("[[\"a\"]]", "expected a string")] {
        let path = put(&folder, "x", format!("{{\"x\": {value}}}\n").as_bytes());
        let lines = JsonLines::open(vec![path], Some(vec![TypedField::texts("x")]), None).unwrap();
        let error = read_all(lines).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn null_is_the_default_of_json_where_it_has_one() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, "x", b"{\"a\": null, \"b\" : null }\n{\"a\": 1, \"a\": null, \"b\": [null]}");
    let fields = vec![TypedField::json("a").or(b"[]".to_vec()).unwrap(), TypedField::json("b")];
    let lines = JsonLines::open(vec![path], Some(fields), None).unwrap();
    let expected =
        [["[]", "null"], ["[]", "[null]"]].map(|sample| sample.map(|text| text.as_bytes().to_vec()).to_vec());
    dataset_conformance(&lines, &expected);
}

#[test]
fn an_error_names_file_line_byte_and_column() {
    let folder = TempDir::new().unwrap();
    let refused = |line: &[u8], fields: Option<Vec<TypedField>>, place: u64, words: &str| {
        let text = [b"\n{\"text\": \"\"}\n".as_slice(), line, b"\n"].concat();
        let lines = JsonLines::open(vec![put(&folder, "x.jsonl", &text)], fields, None).unwrap();
        let error = read_all(lines).unwrap_err();
        let Error::Format { path, offset, reason } = &error else { panic!("{error}") };
        assert!(path.ends_with("x.jsonl") && *offset == 14 + place, "{error}");
        assert!(reason.contains("line 3: ") && reason.contains(words), "{error}");
    };
    refused(b"{\"text\": \"\xff\"}", None, 10, "not UTF-8");
    refused(b"{\"a\": }", None, 6, "column 7: invalid JSON: expected value");
    refused(b"{\"a\": 1} 2", None, 9, "trailing");
    refused(b"{\"a\": NaN}", None, 6, "invalid JSON");
    refused(b"{\"a\"", None, 3, "EOF");
    refused(&b"[".repeat(100_000), None, 127, "recursion limit");
    refused(&[b"{\"a\":".repeat(100_000), b"1".to_vec()].concat(), None, 635, "recursion limit");
    refused(
        &[b"{\"rest\":".to_vec(), b"[".repeat(300), b"]".repeat(300), b"}".to_vec()].concat(),
        Some(fields()),
        608,
        "recursion",
    );
    refused(&[b"{\"more\":".to_vec(), b"[".repeat(100_000)].concat(), Some(fields()), 134, "recursion limit");
    refused(b"[1]", Some(fields()), 0, "expected a JSON object");
    refused(b"{\"ids\": []}", Some(fields()), 10, "field `text` is missing or null");
    refused(b"{\"text\": 1}", Some(fields()), 9, "field `text`: a number or a boolean, expected a string");
    for (ids, words) in [
        ("[1.5]", "1.5 is not a valid int32"),
        ("[2147483648]", "2147483648 is not a valid int32"),
        ("[true]", "true is not a valid int32"),
        ("[\"a\"]", "a string, expected int32"),
        ("[[1]]", "a list, expected int32"),
        ("[null]", "null in a list"),
        ("3", "a number or a boolean, expected a list of int32"),
        ("{}", "an object, expected a list"),
    ] {
        let line = format!("{{\"text\": \"\", \"ids\": {ids}}}");
        let lines = JsonLines::open(vec![put(&folder, "y", line.as_bytes())], Some(fields()), None).unwrap();
        let error = read_all(lines).unwrap_err().to_string();
        assert!(error.contains("field `ids`: ") && error.contains(words), "{ids}: {error}");
    }
    for at in ["[1]", "[1, 2, 3]", "[]"] {
        let line = format!("{{\"text\": \"\", \"at\": {at}}}");
        let lines = JsonLines::open(vec![put(&folder, "y", line.as_bytes())], Some(fields()), None).unwrap();
        let error = read_all(lines).unwrap_err().to_string();
        assert!(error.contains("expected a list of 2 values, got "), "{error}");
    }
}

#[test]
fn other_texts_and_fields_are_refused_when_opened() {
    let folder = TempDir::new().unwrap();
    let error = JsonLines::open(vec![put(&folder, "x", b"\xff\xfe{\0}\0")], None, None).err().unwrap();
    assert!(error.to_string().contains("UTF-16"), "{error}");
    assert!(TypedField::number(Field::new("x", DType::Float16, [])).is_err());
    let number = || TypedField::number(Field::new("x", DType::Int32, [])).unwrap();
    assert!(number().or(vec![0; 3]).is_err() && number().or(vec![0; 4]).is_ok());
}

#[test]
fn a_large_file_has_an_index_that_is_not_used_when_it_is_older() {
    let folder = TempDir::new().unwrap();
    let line = format!("{{\"x\": \"{}\"}}\n", "y".repeat(1000));
    let path = put(&folder, "x", line.repeat(5000).as_bytes());
    let indices = || {
        fs::read_dir(folder.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with("sluicegate-index"))
            .count()
    };
    let open = || JsonLines::open(vec![path.clone()], None, None).unwrap();
    let (first, second) = (open(), open());
    assert_eq!((first.len(), second.len(), indices()), (5000, 5000, 1));
    fs::write(&path, line.repeat(6000)).unwrap();
    assert!(matches!(read_all(first).unwrap_err(), Error::Changed { .. }));
    assert_eq!(open().len(), 6000);
}

proptest! {
    /// Compared with a plain line reader, with lines that cross block boundaries.
    #[test]
    fn lines_are_those_of_a_plain_reader(
        lines in prop::collection::vec((0_usize..40, prop::sample::select(vec!["\n", "\r\n", "\n\n", " \n"])), 0..60),
        long in prop::option::of(0_usize..3_000_000),
    ) {
        let mut text = String::new();
        for (number, (len, end)) in lines.iter().enumerate() {
            let len = if number == 3 { long.unwrap_or(*len) } else { *len };
            text += &format!("\"{}\"", "1".repeat(len));
            text += end;
        }
        let folder = TempDir::new().unwrap();
        let expected: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(|line| vec![line.as_bytes().to_vec()]).collect();
        let dataset = JsonLines::open(vec![put(&folder, "x", text.as_bytes())], None, None).unwrap();
        prop_assert_eq!(dataset.len(), expected.len());
        let loader = DataLoader::builder(Arc::new(dataset)).batch_size(7).build().unwrap();
        let mut row = 0;
        for batch in loader.epoch(0).unwrap() {
            let batch = batch.unwrap();
            for at in 0..batch.samples() {
                prop_assert_eq!(batch.sample(0, at), &expected[row + at][0][..]);
            }
            row += batch.samples();
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), chosen in any::<bool>()) {
        let folder = TempDir::new().unwrap();
        if let Ok(lines) = JsonLines::open(vec![put(&folder, "x", &bytes)], chosen.then(fields), None) {
            let _ = read_all(lines);
        }
    }

    #[test]
    fn damaged_lines_are_read_or_refused(place in any::<prop::sample::Index>(), byte in any::<u8>(), chosen in any::<bool>()) {
        let mut text = br#"{"text": "a\u00e4\n", "ids": [1, -2], "at": [1, 2.5e3], "rest": {"x" : [1]}, "more": [[{}]]}"#.to_vec();
        let place = place.index(text.len());
        text[place] = byte;
        let folder = TempDir::new().unwrap();
        let lines = JsonLines::open(vec![put(&folder, "x", &text)], chosen.then(fields), None).unwrap();
        let _ = read_all(lines);
    }
}
