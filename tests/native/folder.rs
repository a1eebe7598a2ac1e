//! Folders with one file per sample.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use sluicegate::{DataLoader, Dataset, Error, Folder, FolderClasses, FolderLinks, FolderOptions};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn put(root: &Path, path: &[u8]) {
    let path = root.join(OsStr::from_bytes(path));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, path.as_os_str().as_bytes()).unwrap();
}

fn classes() -> FolderOptions {
    FolderOptions { classes: FolderClasses::FirstFolder, ..FolderOptions::default() }
}

fn paths(folder: &Folder) -> Vec<String> {
    (0..folder.len()).map(|index| String::from_utf8_lossy(folder.path(index).unwrap()).into_owned()).collect()
}

#[test]
fn folders_with_any_names_satisfy_the_contract() {
    let root = TempDir::new().unwrap();
    let names: [&[u8]; 5] = [b"a/\xff\xfe.jpg", b"a/b.jpg", b"b/\nx", "b/ö".as_bytes(), b"z.jpg"];
    names.iter().for_each(|name| put(root.path(), name));
    fs::write(root.path().join("b/empty"), "").unwrap();
    let contents = |name: &[u8]| fs::read(root.path().join(OsStr::from_bytes(name))).unwrap();
    let in_order: [&[u8]; 6] = [b"z.jpg", b"a/b.jpg", b"a/\xff\xfe.jpg", b"b/\nx", b"b/empty", "b/ö".as_bytes()];
    let expected: Vec<_> = in_order.iter().map(|name| vec![contents(name), name.to_vec()]).collect();
    dataset_conformance(&Folder::open(root.path(), &FolderOptions::default()).unwrap(), &expected);
    let class = |name: &[u8]| i64::from(name[0] == b'b').to_ne_bytes().to_vec();
    let expected: Vec<_> = in_order[1..].iter().map(|name| vec![contents(name), name.to_vec(), class(name)]).collect();
    let folder = Folder::open(root.path(), &classes()).unwrap();
    assert_eq!(folder.class_names(), [b"a", b"b"]);
    dataset_conformance(&folder, &expected);
}

#[test]
fn the_order_is_by_first_folder_then_folder_then_name() {
    let root = TempDir::new().unwrap();
    for path in ["a-b/x", "a/x", "a/c-d/x", "a/c/e/x", "a/c/x", "a/z", "a.b/x", "10/x", "9/x"] {
        put(root.path(), path.as_bytes());
    }
    let folder = Folder::open(root.path(), &classes()).unwrap();
    let expected = ["10/x", "9/x", "a/x", "a/z", "a/c/x", "a/c-d/x", "a/c/e/x", "a-b/x", "a.b/x"];
    assert_eq!(paths(&folder), expected);
    assert_eq!(folder.class_names(), ["10", "9", "a", "a-b", "a.b"].map(str::as_bytes));
}

#[test]
fn extensions_and_patterns_choose() {
    let root = TempDir::new().unwrap();
    for path in ["a/1.JPG", "a/2.png", "a/jpg", "b/3.jpg", "b/c/4.jpg", ".h/5.jpg"] {
        put(root.path(), path.as_bytes());
    }
    let open = |extensions: &[&str], pattern: Option<&str>| {
        let extensions = extensions.iter().map(ToString::to_string).collect();
        let options = FolderOptions { extensions, pattern: pattern.map(Into::into), ..FolderOptions::default() };
        paths(&Folder::open(root.path(), &options).unwrap())
    };
    assert_eq!(open(&[".jpg"], None), [".h/5.jpg", "a/1.JPG", "b/3.jpg", "b/c/4.jpg"]);
    assert_eq!(open(&[".jpg", ".png"], Some("*/*")), ["a/1.JPG", "a/2.png", "b/3.jpg"]);
    assert_eq!(open(&[], Some("**/*.jpg")), ["b/3.jpg", "b/c/4.jpg"]);
    assert!(open(&[".gif"], None).is_empty());
    let options = FolderOptions { extensions: vec![".png".into()], ..classes() };
    let error = Folder::open(root.path(), &options).err().unwrap().to_string();
    assert!(error.contains("the folder `.h` has no file"), "{error}");
}

#[test]
fn links_that_leave_the_folder_or_loop_are_refused() {
    let (root, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    put(root.path(), b"a/1");
    put(other.path(), b"2");
    let link = |target: &Path, name: &str| symlink(target, root.path().join(name)).unwrap();
    let open = |links| Folder::open(root.path(), &FolderOptions { links, ..FolderOptions::default() });
    let refused = |links, name: &str, words: &str| {
        let error = open(links).err().unwrap_or_else(|| panic!("{name} was followed")).to_string();
        assert!(error.contains(name) && error.contains(words), "{error}");
        fs::remove_file(root.path().join(name)).unwrap();
    };
    link(&root.path().join("a"), "again");
    link(&root.path().join("a/1"), "file");
    assert_eq!(paths(&open(FolderLinks::Inside).unwrap()), ["file", "a/1", "again/1"]);
    for name in ["out", "out_file"] {
        let target = if name == "out" { other.path().to_path_buf() } else { other.path().join("2") };
        link(&target, name);
        assert!(open(FolderLinks::Anywhere).is_ok());
        refused(FolderLinks::Inside, name, "follow_links=True");
    }
    link(Path::new("nothing"), "broken");
    refused(FolderLinks::Anywhere, "broken", "No such file");
    link(root.path(), "a/up");
    // The name determines which of the two paths to it comes first.
    refused(FolderLinks::Anywhere, "a/up", "a folder that contains the link");
    fs::create_dir(root.path().join("b")).unwrap();
    link(&root.path().join("b"), "a/x");
    link(&root.path().join("a"), "b/y");
    let error = open(FolderLinks::Inside).err().unwrap().to_string();
    assert!(error.contains("a folder that contains the link"), "{error}");
}

#[test]
fn non_regular_files_are_skipped_and_vanished_ones_are_errors() {
    let root = TempDir::new().unwrap();
    put(root.path(), b"a");
    put(root.path(), b"b");
    let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    let folder = Arc::new(Folder::open(root.path(), &FolderOptions::default()).unwrap());
    assert_eq!(paths(&folder), ["a", "b"]);
    let loader = DataLoader::builder(folder).batch_size(1).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    assert!(batches.next().unwrap().is_ok());
    fs::remove_file(root.path().join("b")).unwrap();
    let missing = batches.next().unwrap().unwrap_err();
    assert!(matches!(&missing, Error::Io { path, .. } if path.ends_with("b")), "{missing}");
    fs::create_dir(root.path().join("b")).unwrap();
    let changed = loader.epoch(0).unwrap().nth(1).unwrap().unwrap_err();
    assert!(matches!(&changed, Error::Changed { path, .. } if path.ends_with("b")), "{changed}");
}

#[cfg(feature = "image")]
#[test]
fn non_images_are_found_and_cached_until_one_changes() {
    use sluicegate::{DecodeOptions, ImageMode};
    let (root, kept) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let large = [&b"P5 2100 2100 255 "[..], &vec![7; 2100 * 2100]].concat();
    for (name, data) in [("a/1", &b"P5 1 1 255 \x07"[..]), ("a/2", b"text"), ("b/3", &large[..]), ("b/4", b"")] {
        fs::create_dir_all(root.path().join(name).parent().unwrap()).unwrap();
        fs::write(root.path().join(name), data).unwrap();
    }
    symlink("nothing", root.path().join("a/3")).unwrap();
    let files = Folder::open_damaged(root.path(), &FolderOptions::default()).unwrap();
    assert_eq!(paths(&files), ["a/1", "a/2", "a/3", "b/3", "b/4"]);
    let find = |indices: &[usize], options: &DecodeOptions| {
        let mut lots = 0;
        let check_interrupt = || {
            lots += 1;
            Ok(())
        };
        let found = files.broken_images(indices, options, Some(kept.path().to_path_buf()), check_interrupt).unwrap();
        (found.indices, found.damages, lots)
    };
    let rgb = DecodeOptions::default();
    let (indices, damages, lots) = find(&[0, 1, 2, 3, 4], &rgb);
    assert_eq!((indices, lots), (vec![1, 2, 4], 1));
    let words = ["a/3: No such file", "a/2: it begins with text", "b/4: it has no bytes"];
    assert!(damages.iter().zip(words).all(|(damage, words)| damage.contains(words)), "{damages:?}");
    assert_eq!(find(&[0, 1, 2, 3, 4], &rgb), (vec![1, 2, 4], damages, 0), "nothing is decoded again");
    assert_eq!(find(&[1, 3, 4], &rgb).0, [1, 4]);
    assert_eq!(find(&[0, 1, 2, 3, 4], &DecodeOptions { max_pixels: 1, ..rgb }).0, [1, 2, 3, 4]);
    assert_eq!(find(&[0, 1, 2, 3, 4], &DecodeOptions { mode: ImageMode::Gray, ..rgb }).2, 1);
    fs::write(root.path().join("b/4"), b"P5 1 1 255 \x07").unwrap();
    assert_eq!((find(&[0, 1, 2, 3, 4], &rgb).0, find(&[], &rgb).0), (vec![1, 2], vec![]));
    let stop = || Err(Error::InvalidArgument { argument: "x", reason: "stop".into() });
    assert!(files.broken_images(&[0], &rgb, None, stop).is_err());
}
