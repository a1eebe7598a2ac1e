//! Indices that are stored, reopened, damaged, and built concurrently.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::columns::ColumnRole;
use super::place::IndexPlace;
use super::sample_index::{IndexColumn, SampleIndex};
use crate::dataset::format::file::source_files::SourceFiles;
use crate::{Error, Result, watch};

struct Case {
    folder: TempDir,
    paths: Vec<PathBuf>,
}

impl Case {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let paths: Vec<PathBuf> = ["a.tar", "b.tar"].iter().map(|name| folder.path().join(name)).collect();
        paths.iter().for_each(|path| fs::write(path, "contents").unwrap());
        Self { folder, paths }
    }

    fn open(&self, parameters: &str, place: &IndexPlace) -> (SampleIndex, bool) {
        let was_scanned = Cell::new(false);
        let files = SourceFiles::look(self.paths.clone()).unwrap();
        let index = SampleIndex::open_or_build(&files, ("test 1", parameters), place, || {
            was_scanned.set(true);
            Ok(columns())
        });
        (index.unwrap(), was_scanned.get())
    }

    fn is_scanned(&self, parameters: &str) -> bool {
        let (index, was_scanned) = self.open(parameters, &IndexPlace::Beside);
        assert_holds_columns(&index);
        was_scanned
    }

    fn kept(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| !self.paths.contains(path)).collect()
    }
}

fn columns() -> Vec<IndexColumn> {
    let ends = (1..=1000).map(|number| number * 3).collect();
    vec![IndexColumn::U64(ends), IndexColumn::U32((0..77).collect()), IndexColumn::U32(vec![])]
}

fn assert_holds_columns(index: &SampleIndex) {
    assert_eq!((index.columns(), index.len(0), index.len(1), index.len(2)), (3, 1000, 77, 0));
    assert_eq!((index.get(0, 999).unwrap(), index.get(1, 76).unwrap()), (3000, 76));
    let mut range = [0; 3];
    index.get_range(1, 5, &mut range).unwrap();
    assert_eq!(range, [5, 6, 7]);
    for (column, row) in [(0, 1000), (1, 77), (2, 0), (0, usize::MAX)] {
        assert!(matches!(index.get(column, row), Err(Error::IndexOutOfRange { .. })));
    }
    assert!(index.get_range(1, 76, &mut range).is_err() && index.get_range(1, usize::MAX, &mut range).is_err());
}

#[test]
fn an_index_is_rebuilt_only_when_a_file_changes() {
    let mut case = Case::new();
    assert!(case.is_scanned("x") && !case.is_scanned("x"));
    assert!(case.is_scanned("y") && !case.is_scanned("y") && !case.is_scanned("x"));
    assert_eq!(case.kept().len(), 2, "{:?}", case.kept());
    fs::write(&case.paths[1], "other contents").unwrap();
    assert!(case.is_scanned("x") && !case.is_scanned("x"));
    case.paths.reverse();
    assert!(case.is_scanned("x") && !case.is_scanned("x"));
}

#[test]
fn an_index_moves_with_its_folder() {
    let case = Case::new();
    assert!(case.is_scanned("x"));
    let moved = TempDir::new().unwrap();
    let folder = moved.path().join("there");
    fs::rename(case.folder.path(), &folder).unwrap();
    let paths = ["a.tar", "b.tar"].iter().map(|name| folder.join(name)).collect();
    let case = Case { folder: moved, paths };
    assert!(!case.is_scanned("x"));
}

#[test]
fn a_damaged_index_is_rebuilt() {
    let case = Case::new();
    assert!(case.is_scanned("x"));
    let path = case.kept().remove(0);
    let whole = fs::read(&path).unwrap();
    for cut in [0, 7, 23, 24, 60, 200, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(case.is_scanned("x") && !case.is_scanned("x"), "cut at {cut}");
    }
    for place in [0, 9, 13, 17, 24, 100] {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        fs::write(&path, damaged).unwrap();
        assert!(case.is_scanned("x") && !case.is_scanned("x"), "byte {place}");
    }
    assert_eq!(case.kept(), [path]);
}

#[test]
fn truncating_an_index_in_use_is_an_error_that_names_it() {
    let case = Case::new();
    let (index, _) = case.open("x", &IndexPlace::Beside);
    let path = index.path().unwrap().to_path_buf();
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!(matches!(index.get(0, 900), Err(Error::Shrunk { path: of, found: 0, .. }) if of == path));
}

#[test]
fn without_a_writable_folder_the_index_stays_in_memory() {
    let case = Case::new();
    let blocked = case.folder.path().join("a.tar/no folder");
    let (index, was_scanned) = case.open("x", &IndexPlace::Folder(blocked));
    assert!(was_scanned && index.path().is_none());
    assert_holds_columns(&index);
    let cache = TempDir::new().unwrap();
    let place = IndexPlace::Folder(cache.path().join("deep/er"));
    assert!(case.open("x", &place).1 && !case.open("x", &place).1);
    assert!(case.kept().is_empty());
    fs::set_permissions(case.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_failed_scan_leaves_no_files() {
    let case = Case::new();
    let files = SourceFiles::look(case.paths.clone()).unwrap();
    let refused: Result<SampleIndex> = SampleIndex::open_or_build(&files, ("t", "x"), &IndexPlace::Beside, || {
        Err(Error::Format { path: "a.tar".into(), offset: 3, reason: "no".into() })
    });
    assert!(matches!(refused, Err(Error::Format { offset: 3, .. })));
    assert!(case.kept().is_empty(), "{:?}", case.kept());
}

#[test]
fn concurrent_opens_share_one_complete_index() {
    let case = Case::new();
    let files = SourceFiles::look(case.paths.clone()).unwrap();
    let scans = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let index = SampleIndex::open_or_build(&files, ("t", ""), &IndexPlace::Beside, || {
                    scans.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(5));
                    Ok(columns())
                });
                assert_holds_columns(&index.unwrap());
            });
        }
    });
    assert!(scans.into_inner() >= 1);
    assert_eq!(case.kept().len(), 1, "{:?}", case.kept());
}

/// `cargo test --release sample_index_tests::the_time -- --ignored --nocapture`
#[test]
#[ignore = "it measures"]
fn time_to_open_a_large_index() {
    for numbers in [12_500_000, 125_000_000] {
        let case = Case::new();
        let files = SourceFiles::look(case.paths.clone()).unwrap();
        let open = || {
            let begin = Instant::now();
            let index = SampleIndex::open_or_build(&files, ("test 1", "x"), &IndexPlace::Beside, || {
                Ok(vec![IndexColumn::U64((0..numbers).collect())])
            });
            assert_eq!(index.unwrap().len(0) as u64, numbers);
            begin.elapsed()
        };
        let (made, opened) = (open(), open());
        println!("an index of {} MB was made in {made:?} and opened in {opened:?}", numbers * 8 / 1_000_000);
    }
}

#[test]
fn any_changed_byte_of_an_index_is_detected() {
    let case = Case::new();
    assert!(case.is_scanned("x"));
    let path = case.kept().remove(0);
    let whole = fs::read(&path).unwrap();
    for place in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&path, damaged).unwrap();
        assert!(case.is_scanned("x"), "byte {place}");
    }
    // An index of other parameters for the same files.
    assert!(case.is_scanned("y"));
    let other = case.kept().into_iter().find(|other| *other != path).unwrap();
    fs::copy(&other, &path).unwrap();
    assert!(case.is_scanned("x") && !case.is_scanned("y"));
}

#[test]
fn a_file_replaced_by_one_of_the_same_size_and_time_is_scanned_again() {
    let case = Case::new();
    let modified = fs::metadata(&case.paths[0]).unwrap().modified().unwrap();
    let set_time = |path: &PathBuf| {
        fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    };
    case.paths.iter().for_each(set_time);
    assert!(case.is_scanned("x") && !case.is_scanned("x"));
    fs::write(&case.paths[0], "contentz").unwrap();
    set_time(&case.paths[0]);
    assert!(case.is_scanned("x") && !case.is_scanned("x"), "in place");
    let other = case.folder.path().join("other");
    fs::write(&other, "contents").unwrap();
    set_time(&other);
    fs::rename(&other, &case.paths[0]).unwrap();
    assert!(case.is_scanned("x") && !case.is_scanned("x"), "by another file");
}

/// Files with their own rows, texts and codes; records which of them are scanned.
struct Parts {
    folder: TempDir,
    scanned: Mutex<Vec<usize>>,
}

const ROLES: [ColumnRole; 6] = [
    ColumnRole::Ends { of: 1 },
    ColumnRole::Plain,
    ColumnRole::Plain,
    ColumnRole::Codes { texts: 4 },
    ColumnRole::OfTexts,
    ColumnRole::OfTexts,
];

impl Parts {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), scanned: Mutex::default() }
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{number:03}.tar"))
    }

    /// File `number` has `number` samples of one member each, except that the last one has two.
    fn columns(number: usize) -> Vec<IndexColumn> {
        let samples = number as u64;
        let ends = (1..=samples).map(|sample| sample + u64::from(sample == samples)).collect();
        let members = samples + u64::from(samples > 0);
        vec![
            IndexColumn::U64(ends),
            IndexColumn::U64((0..members).map(|member| samples * 1000 + member).collect()),
            IndexColumn::U8((0..members).map(|member| member as u8).collect()),
            IndexColumn::U32((0..members).map(|member| (member % 2) as u32).collect()),
            IndexColumn::U64(vec![3, 3 + number.to_string().len() as u64]),
            IndexColumn::U8(format!("all{number}").into_bytes()),
        ]
    }

    /// Opens these files; returns also the numbers of those that were scanned.
    fn open(&self, numbers: &[usize]) -> (SampleIndex, Vec<usize>) {
        for &number in numbers {
            if !self.path(number).exists() {
                fs::write(self.path(number), number.to_string()).unwrap();
            }
        }
        self.scanned.lock().unwrap().clear();
        let files = SourceFiles::look(numbers.iter().map(|&number| self.path(number)).collect()).unwrap();
        let index = SampleIndex::open_or_scan(&files, ("parts 1", "x"), &IndexPlace::Beside, &ROLES, |files| {
            let scanned: Vec<usize> = files.iter().map(|&file| numbers[file]).collect();
            self.scanned.lock().unwrap().extend(&scanned);
            Ok(scanned.into_iter().map(Self::columns).collect())
        });
        (index.unwrap(), self.scanned.lock().unwrap().clone())
    }

    fn assert_holds(index: &SampleIndex, numbers: &[usize]) {
        assert_eq!(index.columns(), ROLES.len());
        let (mut sample, mut member) = (0, 0);
        for (file, &number) in numbers.iter().enumerate() {
            for of_file in 0..number {
                assert_eq!(index.file_of(0, sample).unwrap(), (file, sample - of_file));
                let start = if sample == 0 { 0 } else { index.get(0, sample - 1).unwrap() };
                assert_eq!(start, member as u64);
                let end = index.get(0, sample).unwrap() as usize;
                assert_eq!(end - member, 1 + usize::from(of_file + 1 == number));
                for member in member..end {
                    let of_file = index.get(1, member).unwrap() % 1000;
                    assert_eq!(index.get(1, member).unwrap(), (number * 1000) as u64 + of_file);
                    assert_eq!(index.get(2, member).unwrap(), of_file);
                    let code = index.get(3, member).unwrap() as usize;
                    let start = if code == 0 { 0 } else { index.get(4, code - 1).unwrap() as usize };
                    let text = index.get_bytes(5, start..index.get(4, code).unwrap() as usize).unwrap();
                    let expected = if of_file.is_multiple_of(2) { "all".to_owned() } else { number.to_string() };
                    assert_eq!(text, expected.as_bytes());
                }
                (sample, member) = (sample + 1, end);
            }
            assert_eq!(index.file_end(0, file).unwrap(), sample);
            assert_eq!(index.file_end(1, file).unwrap(), member);
        }
        assert_eq!((index.len(0), index.len(1)), (sample, member));
        assert!(matches!(index.file_of(0, sample), Err(Error::IndexOutOfRange { .. })));
    }

    fn kept(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "sluicegate-index")).collect()
    }
}

#[test]
fn only_unindexed_files_are_scanned() {
    let parts = Parts::new();
    let opens: [(&[usize], &[usize]); 8] = [
        (&[5, 0, 3], &[5, 0, 3]),
        (&[5, 0, 3], &[]),
        (&[5, 0, 3, 7], &[7]),
        (&[1, 5, 0, 3, 7], &[1]),
        // In another order, and some of them missing.
        (&[7, 5], &[]),
        (&[3, 9, 7, 0, 8], &[9, 8]),
        (&[1, 3, 5, 7, 8, 9, 0], &[]),
        (&[0], &[]),
    ];
    for (numbers, scanned) in opens {
        let (index, found) = parts.open(numbers);
        Parts::assert_holds(&index, numbers);
        assert_eq!(found, scanned, "{numbers:?}");
        let again = parts.open(numbers);
        Parts::assert_holds(&again.0, numbers);
        assert_eq!(again.1, Vec::<usize>::new());
    }
    // Indices covered by a later one were removed when that was built.
    assert_eq!(parts.kept().len(), 2, "{:?}", parts.kept());
    fs::write(parts.path(7), "another one").unwrap();
    assert_eq!(parts.open(&[1, 3, 5, 7, 8, 9, 0]).1, [7]);
}

#[test]
fn a_damaged_index_of_other_files_is_ignored() {
    let parts = Parts::new();
    parts.open(&[4, 5]);
    let path = parts.kept().remove(0);
    let whole = fs::read(&path).unwrap();
    for byte in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x81;
        fs::write(&path, &damaged).unwrap();
        let (index, scanned) = parts.open(&[4, 5, 6]);
        Parts::assert_holds(&index, &[4, 5, 6]);
        assert_eq!(scanned, [4, 5, 6], "byte {byte}");
        for other in parts.kept() {
            fs::remove_file(other).unwrap();
        }
    }
}

#[test]
fn interrupting_an_open_does_not_mark_the_index_damaged() {
    let case = Case::new();
    assert!(case.is_scanned("x"));
    let kept = case.kept();
    let files = SourceFiles::look(case.paths.clone()).unwrap();
    let opened = watch::within(Box::new(|_| Err(Error::User("interrupted".into()))), || {
        // The watcher is then called at the next step.
        thread::sleep(Duration::from_millis(60));
        SampleIndex::open_or_build(&files, ("test 1", "x"), &IndexPlace::Beside, || Ok(columns()))
    });
    assert!(opened.is_err_and(|error| error.to_string().contains("interrupted")));
    assert_eq!(case.kept(), kept, "it is still there");
    assert!(!case.is_scanned("x"));
}
