//! Windows of Zarr stores, of references, and of netCDF-3: what is read, and what is rejected.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use sluicegate::{BatchWriter, Column, Dataset, Error, Field, Result, Zarr, ZarrOptions};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn put(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).unwrap();
    path
}

/// A file with two variables of three records, `a: int16[2]` and `b: int8`, and one without records, `c: float32[2]`.
fn netcdf3() -> Vec<u8> {
    let word = |number: u32| number.to_be_bytes().to_vec();
    let name = |text: &str| {
        let mut bytes = [word(text.len() as u32), text.as_bytes().to_vec()].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let variable = |own: &str, dimensions: &[u32], kind: u32, bytes: u32, begin: u32| {
        let dimensions: Vec<u8> = dimensions.iter().flat_map(|&dimension| word(dimension)).collect();
        let axes = word(dimensions.len() as u32 / 4);
        [name(own), axes, dimensions, word(0), word(0), word(kind), word(bytes), word(begin)].concat()
    };
    let header = |begin: u32| {
        let dimensions = [word(10), word(2), name("t"), word(0), name("x"), word(2)].concat();
        let variables = [
            variable("a", &[0, 1], 3, 4, begin + 8),
            variable("b", &[0], 1, 4, begin + 12),
            variable("c", &[1], 5, 8, begin),
        ];
        [b"CDF\x01".to_vec(), word(3), dimensions, word(0), word(0), word(11), word(3), variables.concat()].concat()
    };
    let begin = header(0).len() as u32;
    let mut file = header(begin);
    file.extend([1.5_f32, -2.0].iter().flat_map(|number| number.to_be_bytes()));
    for record in 0..3_u8 {
        file.extend([0, record, 1, record, record + 10, 0, 0, 0]);
    }
    file
}

fn fields(names: &[&str]) -> ZarrOptions {
    ZarrOptions { fields: Some(names.iter().map(|&name| name.into()).collect()), ..ZarrOptions::default() }
}

/// Reads the first rows one by one, unless they are large.
fn read_rows(rows: &dyn Dataset) -> Result<()> {
    let sizes: Vec<usize> = rows.schema().fields().iter().map(Field::bytes).collect();
    let total = sizes.iter().try_fold(0_usize, |total, &bytes| total.checked_add(bytes)).unwrap_or(usize::MAX);
    if total > 1 << 20 {
        return Ok(());
    }
    let place = |offset: &mut usize, bytes: usize| {
        *offset += bytes;
        Some(Column::Fixed { offset: *offset - bytes, bytes_per_sample: bytes })
    };
    let columns: Vec<_> = sizes.iter().scan(0, |offset, &bytes| place(offset, bytes)).collect();
    let mut room = vec![0; total];
    (0..rows.len().min(9)).try_for_each(|row| rows.read(row, &mut BatchWriter::new(&mut room, &columns, 1).sample(0)))
}

#[test]
fn variables_of_netcdf3_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, "x.nc", &netcdf3());
    let rows = Zarr::open(&path, &fields(&["a", "b"])).unwrap();
    assert_eq!(rows.schema().to_string(), "(a: int16[2], b: int8[])");
    let samples: Vec<_> = (0..3_u8)
        .map(|record| {
            vec![[u16::from(record), 256 + u16::from(record)].map(u16::to_ne_bytes).concat(), vec![record + 10]]
        })
        .collect();
    dataset_conformance(&rows, &samples);
    let one = Zarr::open(&path, &fields(&["c"])).unwrap();
    let samples = [1.5_f32, -2.0].map(|number| vec![number.to_ne_bytes().to_vec()]);
    dataset_conformance(&one, &samples);
}

#[test]
fn every_cut_of_netcdf3_is_an_error() {
    let folder = TempDir::new().unwrap();
    let whole = netcdf3();
    for end in 0..whole.len() {
        let path = put(&folder, "x.nc", &whole[..end]);
        let read = Zarr::open(&path, &fields(&["a", "b"]));
        // The padding at the end may be missing.
        let is_whole = end + 3 >= whole.len();
        match read {
            Ok(rows) => assert!(is_whole || read_rows(&rows).is_err(), "{end}"),
            Err(error) => assert!(matches!(error, Error::Format { .. } | Error::InvalidArgument { .. }), "{error}"),
        }
    }
}

#[test]
fn arrays_of_more_chunks_than_can_be_counted_are_refused() {
    let folder = TempDir::new().unwrap();
    let open = |axis: u64| {
        let array = format!(
            r#"{{"zarr_format":2,"shape":[{axis},{axis}],"chunks":[1,1],"dtype":"|u1","fill_value":7,"order":"C",
            "compressor":null,"filters":null}}"#
        );
        put(&folder, ".zarray", array.as_bytes());
        Zarr::open(folder.path(), &ZarrOptions::default())
    };
    assert_eq!(open(1 << 31).unwrap().len(), 1 << 31);
    let error = open(1 << 32).err().unwrap();
    assert!(error.to_string().contains("has more chunks than can be counted"), "{error}");
}

#[test]
fn grids_that_are_not_regular_are_refused() {
    let folder = TempDir::new().unwrap();
    let open = |grid: &str| {
        let array = format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8","fill_value":0,
            "chunk_grid":{{"name":"{grid}","configuration":{{"chunk_shape":[2]}}}},
            "chunk_key_encoding":{{"name":"default"}},"codecs":[{{"name":"bytes"}}]}}"#
        );
        put(&folder, "zarr.json", array.as_bytes());
        Zarr::open(folder.path(), &ZarrOptions::default())
    };
    assert_eq!(open("regular").unwrap().len(), 4);
    let error = open("rectilinear").err().unwrap();
    assert!(error.to_string().contains("chunk_grid: expected a regular one"), "{error}");
}

#[test]
fn axes_of_a_chunk_may_be_transposed() {
    let folder = TempDir::new().unwrap();
    let options = ZarrOptions { decode_cf: false, ..ZarrOptions::default() };
    fs::create_dir_all(folder.path().join("c/0")).unwrap();
    let rows: Vec<_> = [[1, 2, 3], [4, 5, 6]].iter().map(|row| vec![row.to_vec()]).collect();
    let orders = [("[0,1]", [1, 2, 3, 4, 5, 6]), ("[1,0]", [1, 4, 2, 5, 3, 6])];
    for (order, chunk) in orders.into_iter().chain([("\"C\"", orders[0].1), ("\"F\"", orders[1].1)]) {
        let array = format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":[2,3],"data_type":"uint8","fill_value":0,
            "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[2,3]}}}},
            "chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},
            "codecs":[{{"name":"transpose","configuration":{{"order":{order}}}}},{{"name":"bytes"}}]}}"#
        );
        put(&folder, "zarr.json", array.as_bytes());
        put(&folder, "c/0/0", &chunk);
        dataset_conformance(&Zarr::open(folder.path(), &options).unwrap(), &rows);
    }
    fs::remove_file(folder.path().join("zarr.json")).unwrap();
    for (order, chunk) in [("C", orders[0].1), ("F", orders[1].1)] {
        let array = format!(
            r#"{{"zarr_format":2,"shape":[2,3],"chunks":[2,3],"dtype":"|u1","fill_value":7,"order":"{order}",
            "compressor":null,"filters":null}}"#
        );
        put(&folder, ".zarray", array.as_bytes());
        put(&folder, "0.0", &chunk);
        dataset_conformance(&Zarr::open(folder.path(), &options).unwrap(), &rows);
    }
}

#[test]
fn references_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let data = put(&folder, "data", b"xxabcdef");
    let array = r#"{\"zarr_format\":2,\"shape\":[5],\"chunks\":[2],\"dtype\":\"|u1\",\"fill_value\":7,\"order\":\"C\",
        \"compressor\":null,\"filters\":null}"#
        .replace('\n', " ");
    let references = format!(
        r#"{{"version":1,"templates":{{"d":"{}"}},"refs":{{"v/.zarray":"{array}","v/0":["{{{{d}}}}",2,2],
        "v/2":"base64:enk="}}}}"#,
        data.display()
    );
    let path = put(&folder, "x.json", references.as_bytes());
    let rows = Zarr::open(&path, &ZarrOptions { decode_cf: false, ..ZarrOptions::default() }).unwrap();
    let samples: Vec<_> = b"ab\x07\x07z".iter().map(|&byte| vec![vec![byte]]).collect();
    dataset_conformance(&rows, &samples);
    let blocks = rows.as_blocks().unwrap();
    let mut found = Vec::new();
    (0..5).for_each(|row| blocks.blocks_of(row, &mut |block| found.push(block)));
    assert_eq!(found, [0, 0, 1, 1, 2]);
}

proptest! {
    #[test]
    fn changed_bytes_of_netcdf3_are_refused_or_read(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let folder = TempDir::new().unwrap();
        let mut bytes = netcdf3();
        for (place, value) in changes {
            let place = place.index(bytes.len() - 3) + 3;
            bytes[place] = value;
        }
        if let Ok(rows) = Zarr::open(put(&folder, "x.nc", &bytes), &fields(&["a"])) {
            let _ = read_rows(&rows);
        }
    }
}
