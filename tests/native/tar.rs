//! Archives whose members form samples by their names.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sluicegate::internal::{TarShards, TarWriter, Wait};
use sluicegate::{Damages, Dataset, Error, OnMissing, Result, Tar, TarEnd, TarField, TarOptions, TarValue};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn shard(path: &Path, members: &[(&str, &[u8])]) -> PathBuf {
    let mut shard = TarWriter::create(path).unwrap();
    members.iter().for_each(|(name, contents)| shard.append(name.as_bytes(), contents).unwrap());
    shard.finish().unwrap();
    path.to_path_buf()
}

fn text_and_class() -> Vec<TarField> {
    vec![
        TarField::new("__key__", TarValue::Key),
        TarField::new("TXT", TarValue::Bytes),
        TarField::new("cls;id", TarValue::Int),
    ]
}

fn open(path: &Path, options: &TarOptions) -> Result<Tar> {
    Tar::open(vec![path.to_path_buf()], text_and_class(), options)
}

/// Returns options with an index in memory, as for read-only folders: waiting for the disk a thousand times takes
/// minutes.
fn refusing() -> TarOptions {
    TarOptions { index_folder: Some("/proc/no-folder".into()), ..TarOptions::default() }
}

fn leaving_out() -> TarOptions {
    TarOptions { damages: Damages::LeaveOut, on_missing: OnMissing::Skip, ..refusing() }
}

const MEMBERS: [(&str, &[u8]); 8] = [
    ("a/1.txt", b"one"),
    ("a/1.cls", b"1"),
    ("a/2.Txt", b""),
    ("README", b"of no sample"),
    ("a/2.id", b" -22\n"),
    ("b/1.cls", b"3"),
    ("a/3.cls", b"4"),
    ("b/1.txt", b"apart"),
];

#[test]
fn archives_keep_the_contract_with_members_in_any_order() {
    let folder = TempDir::new().unwrap();
    let first = shard(&folder.path().join("0.tar"), &MEMBERS);
    let second = shard(&folder.path().join("1.tar"), &[("a/1.cls", b"5"), ("a/1.txt", b"again"), ("a/1.png", b"-")]);
    let sample = |key: &str, text: &str, class: i64| {
        vec![key.as_bytes().to_vec(), text.as_bytes().to_vec(), class.to_ne_bytes().to_vec()]
    };
    let expected =
        [sample("a/1", "one", 1), sample("a/2", "", -22), sample("b/1", "apart", 3), sample("a/1", "again", 5)];
    for _ in 0..2 {
        let options = TarOptions { on_missing: OnMissing::Skip, ..TarOptions::default() };
        let tar = Tar::open(vec![first.clone(), second.clone()], text_and_class(), &options).unwrap();
        dataset_conformance(&tar, &expected);
        assert_eq!(tar.extensions(), [b"txt".as_slice(), b"cls", b"id", b"png"]);
        assert_eq!(tar.block_sizes().unwrap(), [3, 1]);
    }
    let indices = fs::read_dir(folder.path()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "sluicegate-index")
    });
    assert_eq!(indices.count(), 2, "places, and which samples are counted");
    let with_marks = |text: Option<&str>, class: Option<i64>| {
        let text = text.map_or(Vec::new(), |text| [b"\x01", text.as_bytes()].concat());
        vec![text, class.map_or(Vec::new(), |class| class.to_ne_bytes().to_vec())]
    };
    let options = TarOptions { on_missing: OnMissing::Empty, ..TarOptions::default() };
    let tar = Tar::open(vec![first.clone()], text_and_class()[1..].to_vec(), &options).unwrap();
    let expected = [
        with_marks(Some("one"), Some(1)),
        with_marks(Some(""), Some(-22)),
        with_marks(Some("apart"), Some(3)),
        with_marks(None, Some(4)),
    ];
    dataset_conformance(&tar, &expected);
}

/// Returns a `.npy` file of an array of bytes.
fn array(shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), elements].concat()
}

#[test]
fn missing_arrays_differ_from_empty_ones() {
    let folder = TempDir::new().unwrap();
    let arrays = [array("(1, 2)", &[1, 2]), array("(0, 2)", &[]), array("(3, 2)", &[3, 4, 5, 6, 7, 8])];
    let members: [(&str, &[u8]); 4] =
        [("1.npy", &arrays[0]), ("2.npy", &arrays[1]), ("3.txt", b""), ("4.npy", &arrays[2])];
    let path = shard(&folder.path().join("0.tar"), &members);
    let open = |on_missing| {
        let fields = vec![TarField::new("npy", TarValue::RaggedNpy)];
        Tar::open(vec![path.clone()], fields, &TarOptions { on_missing, ..refusing() }).unwrap()
    };
    let all = open(OnMissing::Skip);
    assert_eq!(all.schema().to_string(), "(npy: uint8[*, 2])");
    dataset_conformance(&all, &[vec![vec![1, 2]], vec![vec![]], vec![vec![3, 4, 5, 6, 7, 8]]]);
    let marked = [vec![0, 0, 1, 2], vec![0, 0], vec![], vec![0, 0, 3, 4, 5, 6, 7, 8]];
    dataset_conformance(&open(OnMissing::Empty), &marked.map(|array| vec![array]));
}

#[test]
fn arrays_of_large_elements_must_not_be_missing() {
    let folder = TempDir::new().unwrap();
    let path = shard(&folder.path().join("0.tar"), &[("1.npy", &array("(0, 20000000)", &[]))]);
    let open = |on_missing| {
        let fields = vec![TarField::new("npy", TarValue::RaggedNpy)];
        Tar::open(vec![path.clone()], fields, &TarOptions { on_missing, ..refusing() })
    };
    assert_eq!(open(OnMissing::Refuse).unwrap().schema().to_string(), "(npy: uint8[*, 20000000])");
    let error = open(OnMissing::Empty).err().unwrap();
    assert!(error.to_string().contains("its elements have more than 16777216 bytes"), "{error}");
}

#[test]
fn missing_members_are_named() {
    let folder = TempDir::new().unwrap();
    let path = shard(&folder.path().join("0.tar"), &MEMBERS);
    let error =
        Tar::open(vec![path], vec![TarField::new("jpg", TarValue::Bytes)], &TarOptions::default()).err().unwrap();
    assert!(error.to_string().contains("no sample has `jpg`; there are txt, cls, id"), "{error}");
}

#[test]
fn two_members_of_one_name_are_an_error_with_both_places() {
    let folder = TempDir::new().unwrap();
    let members: [(&str, &[u8]); 5] =
        [("1.txt", b"x"), ("1.cls", b"1"), ("2.txt", b"y"), ("2.cls", b"2"), ("1.TXT", b"z")];
    let path = shard(&folder.path().join("0.tar"), &members);
    let error = open(&path, &TarOptions::default()).err().unwrap().to_string();
    assert!(error.contains("byte 4608") && error.contains("`1.txt`") && error.contains("at byte 512"), "{error}");
    let tar = open(&path, &leaving_out()).unwrap();
    assert_eq!((tar.len(), tar.damages().unwrap().len()), (1, 1));
}

#[test]
fn concatenated_archives_are_read_on_request() {
    let folder = TempDir::new().unwrap();
    let both: Vec<u8> = ["1", "2"]
        .iter()
        .flat_map(|key| {
            let names = [format!("{key}.txt"), format!("{key}.cls")];
            fs::read(shard(&folder.path().join(key), &[(&names[0], b"x"), (&names[1], b"1")])).unwrap()
        })
        .collect();
    let path = folder.path().join("both.tar");
    fs::write(&path, both).unwrap();
    assert_eq!(open(&path, &TarOptions::default()).unwrap().len(), 1);
    assert_eq!(open(&path, &TarOptions { end: TarEnd::FileEnd, ..TarOptions::default() }).unwrap().len(), 2);
}

/// Returns an archive of three samples, one of which has a long name.
fn archive(folder: &TempDir) -> Vec<u8> {
    let long = format!("{}.txt", "x".repeat(300));
    let members: [(&str, &[u8]); 6] = [
        ("1.txt", &[b'x'; 700]),
        ("1.cls", b"1"),
        (&long, b"long"),
        (&long.replace("txt", "cls"), b"2"),
        ("3.cls", b"3"),
        ("3.txt", &[b'y'; 512]),
    ];
    fs::read(shard(&folder.path().join("whole"), &members)).unwrap()
}

#[test]
fn a_truncated_archive_is_an_error_or_yields_whole_samples() {
    let folder = TempDir::new().unwrap();
    let whole = archive(&folder);
    let path = folder.path().join("cut.tar");
    for end in (0..whole.len()).filter(|end| end % 512 < 2 || end % 512 > 509 || end % 37 == 0) {
        fs::write(&path, &whole[..end]).unwrap();
        let refused = Tar::open(vec![path.clone()], Vec::new(), &refusing());
        let Ok(left) = open(&path, &leaving_out()) else { panic!("cut at {end}: what is whole can be read") };
        assert!(left.len() <= 3);
        match refused {
            // When cut between two members, nothing shows that there were more.
            Ok(tar) => assert!(tar.len() <= 3 && end > 0),
            Err(error) => assert!(matches!(&error, Error::Format { path: of, .. } if *of == path), "{error}"),
        }
    }
}

#[test]
fn a_size_beyond_the_file_or_beyond_all_files_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("0.tar");
    let sizes: [&[u8; 12]; 4] = [
        b"77777777777\0",
        b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\0\0\0\x80\0\0\0\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    for size in sizes {
        let mut bytes = archive(&folder);
        bytes[124..136].copy_from_slice(size);
        let sum: u64 = 256 + bytes[..148].iter().chain(&bytes[156..512]).map(|&byte| u64::from(byte)).sum::<u64>();
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        fs::write(&path, &bytes).unwrap();
        let error = open(&path, &refusing()).err().unwrap();
        assert!(matches!(&error, Error::Format { offset: 0, .. }), "{error}");
        assert_eq!(open(&path, &leaving_out()).unwrap().len(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_bytes_do_not_panic(places in prop::collection::vec((0_usize..10_000, any::<u8>()), 1..5), mends in any::<bool>()) {
        let folder = TempDir::new().unwrap();
        let mut bytes = archive(&folder);
        for (place, byte) in places {
            let place = place % bytes.len();
            bytes[place] = byte;
            let block = place / 512 * 512;
            if mends {
                let block = &mut bytes[block..block + 512];
                let sum: u64 = 256 + block[..148].iter().chain(&block[156..]).map(|&byte| u64::from(byte)).sum::<u64>();
                block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
        }
        let path = folder.path().join("0.tar");
        fs::write(&path, &bytes).unwrap();
        for end in [TarEnd::ZeroBlock, TarEnd::FileEnd] {
            let left = open(&path, &TarOptions { end, ..leaving_out() }).unwrap();
            prop_assert!(left.len() <= 6);
            let _ = open(&path, &TarOptions { end, ..refusing() });
        }
    }

    #[test]
    fn random_bytes_are_not_an_archive(bytes in prop::collection::vec(any::<u8>(), 1..3000)) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("0.tar");
        fs::write(&path, &bytes).unwrap();
        prop_assert!(Tar::open(vec![path], Vec::new(), &refusing()).is_err());
    }
}

#[test]
fn shards_are_filled_in_order_and_appear_when_complete() {
    let folder = TempDir::new().unwrap();
    let path = |number: usize| folder.path().join(format!("{number}.tar"));
    let mut shards = TarShards::new(20_000, 2).unwrap();
    let mut begun = 0;
    for sample in 0..100 {
        let (text, class) = (vec![b'x'; sample * 50], sample.to_string());
        let names = [format!("{sample:03}.txt"), format!("{sample:03}.cls")];
        let members = || [(names[0].as_bytes(), text.as_slice()), (names[1].as_bytes(), class.as_bytes())];
        if !shards.append(members()).unwrap() {
            shards.begin(path(begun));
            begun += 1;
            assert!(shards.append(members()).unwrap());
        }
    }
    shards.end();
    let mut written = shards.written(Wait::ForAll).unwrap();
    written.sort_by_key(|shard| shard.number);
    assert_eq!(written.iter().map(|shard| shard.samples).sum::<usize>(), 100);
    for (number, shard) in written.iter().enumerate() {
        assert_eq!((shard.number, fs::metadata(path(number)).unwrap().len()), (number, shard.bytes));
        assert!(shard.bytes <= 20_000 && (shard.bytes > 10_000 || number + 1 == written.len()), "{}", shard.bytes);
    }
    let tar = Tar::open((0..begun).map(path).collect(), text_and_class(), &TarOptions::default()).unwrap();
    assert_eq!(tar.len(), 100);
    let before = fs::read(path(1)).unwrap();
    let mut dropped = TarShards::new(20_000, 1).unwrap();
    dropped.begin(path(1));
    dropped.append([(b"x.txt".as_slice(), b"x".as_slice())]).unwrap();
    drop(dropped);
    assert_eq!(fs::read(path(1)).unwrap(), before, "what is not ended changes nothing");
    let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(left.filter(|path| path.extension().is_some_and(|ending| ending == "unfinished")).count(), 0);
    // If nothing can be created, the error is returned immediately.
    let mut refused = TarShards::new(20_000, 1).unwrap();
    refused.begin(folder.path().join("no folder/0.tar"));
    while refused.append([(b"x.txt".as_slice(), b"x".as_slice())]).unwrap() {
        if let Err(error) = refused.written(Wait::ForNone) {
            assert!(matches!(error, Error::Io { .. }));
            return;
        }
    }
    refused.end();
    assert!(matches!(refused.written(Wait::ForAll), Err(Error::Io { .. })));
}

/// Writes an archive of 5,000 samples of one member, with an Energon `.idx` file next to it.
fn with_offsets(folder: &Path, change: impl FnOnce(&mut Vec<u64>)) -> Tar {
    let path = folder.join("a.tar");
    let mut shard = TarWriter::create(&path).unwrap();
    let (mut place, mut offsets) = (0, Vec::new());
    for sample in 0..5000 {
        let name =
            if sample % 100 == 7 { format!("{}/{sample}.txt", "long".repeat(60)) } else { format!("{sample}.txt") };
        shard.append(name.as_bytes(), sample.to_string().as_bytes()).unwrap();
        offsets.push(place);
        place += if sample % 100 == 7 { 4 * 512 } else { 2 * 512 };
    }
    offsets.push(place);
    shard.finish().unwrap();
    change(&mut offsets);
    fs::write(folder.join("a.tar.idx"), offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect::<Vec<_>>())
        .unwrap();
    let fields = vec![TarField::new("txt", TarValue::Bytes)];
    Tar::open(vec![path], fields, &TarOptions::default()).unwrap()
}

#[test]
fn offsets_of_samples_are_used_only_where_they_are_right() {
    type Change = fn(&mut Vec<u64>);
    let changes: [Change; 9] = [
        |_| {},
        |offsets| offsets[2048] += 512,
        |offsets| offsets[1024] = u64::MAX,
        |offsets| offsets.swap(1024, 2048),
        |offsets| offsets[3072] += 1,
        |offsets| offsets.truncate(10),
        |offsets| offsets.iter_mut().for_each(|offset| *offset = 0),
        |offsets| *offsets = vec![512; 100_000],
        |offsets| offsets.clear(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let folder = TempDir::new().unwrap();
        let tar = with_offsets(folder.path(), change);
        let expected: Vec<_> = (0..5000).map(|sample| vec![sample.to_string().into_bytes()]).collect();
        assert_eq!((tar.len(), tar.samples_by_archive()), (5000, vec![5000]));
        if number < 2 {
            dataset_conformance(&tar, &expected);
        }
    }
}

#[test]
fn long_names_round_trip_and_links_are_skipped() {
    let folder = TempDir::new().unwrap();
    let names: Vec<String> = [1, 90, 95, 96, 97, 150, 200, 250, 254, 255, 256, 257, 900]
        .iter()
        .flat_map(|&len| {
            let flat = "n".repeat(len);
            let mut deep = flat.clone();
            if len > 90 {
                deep.replace_range(len - 50..len - 49, "/");
            }
            [flat, format!("d/{deep}")]
        })
        .collect();
    let mut shard = TarWriter::create(folder.path().join("0.tar")).unwrap();
    names.iter().for_each(|name| shard.append(format!("{name}.txt").as_bytes(), b"x").unwrap());
    assert!(shard.append(b"", b"").is_err() && shard.append(b"a\0", b"").is_err());
    shard.finish().unwrap();
    let fields = vec![TarField::new("__key__", TarValue::Key)];
    let tar = Tar::open(vec![folder.path().join("0.tar")], fields, &TarOptions::default()).unwrap();
    let expected: Vec<_> = names.iter().map(|name| vec![name.clone().into_bytes()]).collect();
    dataset_conformance(&tar, &expected);
}
