//! Folders in MDS format.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{DataLoader, Dataset, Mds};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

const COLUMNS: &str = r#""column_names":["a","i","j","t"],"column_encodings":["ndarray","int","json","str"],"column_sizes":[null,8,null,null]"#;

/// Returns a folder of one shard of two samples, and the shard.
fn whole() -> (String, Vec<u8>) {
    let sample = |rows: u8, number: i64, text: &str| {
        let array = [&[8, 2 << 2, rows, 2][..], &vec![rows; usize::from(rows) * 2]].concat();
        let sizes = [array.len() as u32, 4, text.len() as u32].map(u32::to_le_bytes).concat();
        [&sizes, &array, &number.to_le_bytes()[..], b"[{}]", text.as_bytes()].concat()
    };
    let samples = [sample(1, 5, "one"), sample(3, -6, "")];
    let ends = samples.iter().scan(16, |end, sample| {
        *end += sample.len() as u32;
        Some(*end)
    });
    let places: Vec<u8> = [2, 16].into_iter().chain(ends).flat_map(u32::to_le_bytes).collect();
    let shard = [places, samples.concat()].concat();
    let index = format!(
        r#"{{"version":2,"shards":[{{{COLUMNS},"format":"mds","version":2,"samples":2,"compression":null,"zip_data":null,
        "raw_data":{{"basename":"x.mds","bytes":{}}}}}]}}"#,
        shard.len()
    );
    (index, shard)
}

fn put(folder: &TempDir, index: &[u8], shard: &[u8]) {
    fs::write(folder.path().join("index.json"), index).unwrap();
    fs::write(folder.path().join("x.mds"), shard).unwrap();
}

fn read_all(folder: &TempDir) -> sluicegate::Result<()> {
    let loader = DataLoader::builder(Arc::new(Mds::open(folder.path(), None)?)).batch_size(2).build()?;
    loader.epoch(0)?.take(3).try_for_each(|batch| batch.map(drop))
}

#[test]
fn columns_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let (index, shard) = whole();
    put(&folder, index.as_bytes(), &shard);
    let mds = Mds::open(folder.path(), None).unwrap();
    assert_eq!(mds.schema().to_string(), "(a: uint8[*, 2], i: int64[], j: uint8[*], t: uint8[*])");
    let json = || b"[{}]".to_vec();
    let expected = [
        vec![vec![1; 2], 5_i64.to_ne_bytes().to_vec(), json(), b"one".to_vec()],
        vec![vec![3; 6], (-6_i64).to_ne_bytes().to_vec(), json(), vec![]],
    ];
    dataset_conformance(&mds, &expected);
    assert!(mds.origin(1, 0).unwrap().contains("x.mds"));
    let some = Mds::open(folder.path(), Some(&["t".into(), "i".into()])).unwrap();
    dataset_conformance(&some, &expected.map(|sample| vec![sample[3].clone(), sample[1].clone()]));
}

#[test]
fn every_cut_is_refused() {
    let folder = TempDir::new().unwrap();
    let (index, shard) = whole();
    for end in 0..index.len() {
        put(&folder, &index.as_bytes()[..end], &shard);
        assert!(read_all(&folder).is_err());
    }
    for end in 0..shard.len() {
        put(&folder, index.as_bytes(), &shard[..end]);
        assert!(read_all(&folder).is_err());
        // An index that matches the truncated shard does not help.
        let knowing = index.replace(&format!("\"bytes\":{}", shard.len()), &format!("\"bytes\":{end}"));
        put(&folder, knowing.as_bytes(), &shard[..end]);
        assert!(read_all(&folder).is_err());
    }
}

proptest! {
    #[test]
    fn damage_is_read_or_refused(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        of_index in any::<bool>(),
    ) {
        let folder = TempDir::new().unwrap();
        let (index, mut shard) = whole();
        let mut index = index.into_bytes();
        for (place, byte) in damage {
            let bytes = if of_index { &mut index } else { &mut shard };
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        put(&folder, &index, &shard);
        let _ = read_all(&folder);
    }
}
