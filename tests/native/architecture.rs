//! Checks the rules of the source tree: which module may use which, and where `unsafe` and pyo3 may be.

mod folders;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const BASE: &[&str] = &["error", "sample", "rng", "shard", "watch", "local_path"];
const SIBLINGS: &[&str] = &["memory", "dataset", "transform", "collate", "sampler"];

/// True if files of `module` may name `other`.
fn may_use(module: &str, other: &str) -> bool {
    let upward: &[&[&str]] = match module {
        "error" => &[],
        "rng" | "watch" | "local_path" => &[&["error"]],
        "sample" | "shard" => &[&["error", "rng"]],
        "dataset" => &[BASE, &["transform", "memory"]],
        "transform" => &[BASE, &["memory"]],
        "memory" | "collate" | "sampler" => &[BASE],
        "adaptor" => &[BASE, SIBLINGS],
        "pipeline" => &[BASE, SIBLINGS],
        "state" => &[BASE, SIBLINGS, &["pipeline"]],
        "loader" => &[BASE, SIBLINGS, &["pipeline", "state"]],
        "integration" => &[BASE, SIBLINGS, &["adaptor", "pipeline", "state", "loader"]],
        // It only passes names on to the extension module and to tests.
        "internal" => return true,
        unknown => panic!("src/{unknown} has no place in the order of modules: give it one here and in DESIGN"),
    };
    module == other || upward.iter().any(|layer| layer.contains(&other))
}

fn sources() -> Vec<(PathBuf, String)> {
    sources_in("src")
}

/// Returns the files of the crate of the extension module.
fn binding() -> Vec<(PathBuf, String)> {
    sources_in("python/src")
}

fn sources_in(folder: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), into);
            } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
                into.push(entry.path());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths
        .into_iter()
        .map(|path| (path.strip_prefix(&root).unwrap().to_path_buf(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// Returns the module that a file belongs to: its first folder, or its own name.
fn module_of(path: &Path) -> String {
    let first = path.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// Returns the code of a file without comments (examples in comments count as users of the crate).
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the names directly after `prefix` in `code`, one by one if they are in braces.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    // In `super::super::name`, only `super` follows the first `super::`.
    for (at, _) in code.match_indices(prefix).filter(|&(at, _)| !code[..at].ends_with(':')) {
        let rest = &code[at + prefix.len()..];
        let first =
            |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        if let Some(list) = rest.strip_prefix('{') {
            let (mut depth, mut item) = (0, String::new());
            for letter in list.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => names.push(first(&std::mem::take(&mut item))),
                    _ => item.push(letter),
                }
            }
            names.push(first(&item));
        } else {
            names.push(first(rest));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the path of the module that each name re-exported by a module with this `text` comes from.
fn exports(text: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    let code: String = code(text).lines().filter(|line| !line.trim_start().starts_with("#[")).collect();
    for statement in code.split(';').map(str::trim).filter(|statement| statement.starts_with("pub")) {
        let Some((_, path)) = statement.split_once(" use ") else { continue };
        let path = path.strip_prefix("self::").unwrap_or(path);
        let module = &path[..path.rfind("::").unwrap()];
        for name in names_after(path, &format!("{module}::")) {
            exports.insert(name, module.to_owned());
        }
    }
    exports
}

#[test]
fn modules_use_only_lower_modules() {
    let sources = sources();
    let lib = &sources.iter().find(|(path, _)| path == Path::new("lib.rs")).unwrap().1;
    let surface = exports(lib);
    assert!(surface.len() > 20, "lib.rs was not understood: {surface:?}");
    let mut uses = 0;
    for (path, text) in sources.iter().filter(|(path, _)| path != Path::new("lib.rs")) {
        let module = module_of(path);
        for name in names_after(&code(text), "crate::") {
            let other = surface.get(&name).map_or(&name[..], |path| path.split("::").next().unwrap());
            assert!(may_use(&module, other), "{} must not know `{other}`", path.display());
            uses += 1;
        }
    }
    assert!(uses > 50, "only {uses} uses were found: the check has gone blind");
}

/// Adding or removing a public name is a decision: it is promised to users, in the list and in the changelog.
#[test]
fn public_names_are_those_of_the_list() {
    let lib = sources().into_iter().find(|(path, _)| path == Path::new("lib.rs")).unwrap().1;
    let names: Vec<String> = exports(&lib).into_keys().collect();
    let listed: Vec<&str> = include_str!("architecture/public_names.txt").lines().collect();
    assert_eq!(names, listed, "lib.rs exports (left) what tests/native/architecture/public_names.txt lists (right)");
}

#[test]
fn siblings_below_dataset_are_only_memory_types() {
    for (path, text) in sources().iter().filter(|(path, _)| path.starts_with("dataset")) {
        for name in names_after(&code(text), "crate::memory::") {
            assert!(
                ["Array", "PerProcess", "Segment", "disk_reads", "widen"].contains(&name.as_str()),
                "{} must not know memory::{name}",
                path.display()
            );
        }
    }
}

#[test]
fn transforms_use_only_jpeg_vectors_and_kept_values_of_memory() {
    let others = ["KeptValues", "Kernel", "MultiplyAdd", "PairSums", "encode_jpeg", "run_on_vectors"];
    for (path, text) in sources().iter().filter(|(path, _)| path.starts_with("transform")) {
        for name in names_after(&code(text), "crate::memory::") {
            let is_known = name.starts_with("Jpeg") || name == "Region" || others.contains(&name.as_str());
            assert!(is_known, "{} must not know memory::{name}", path.display());
        }
    }
}

#[test]
fn unsafe_is_confined_to_two_modules() {
    let mut homes = 0;
    for (path, text) in sources().into_iter().chain(binding()) {
        let is_home = path.starts_with("memory") || path == Path::new("memory.rs");
        let code = code(&text).replace("unsafe_code", "").replace("unsafe_op_in_unsafe_fn", "");
        assert!(is_home || !code.contains("unsafe"), "{} has `unsafe`", path.display());
        homes += usize::from(is_home && code.contains("unsafe"));
    }
    assert!(homes > 2);
}

#[test]
fn only_the_binding_uses_pyo3() {
    for (path, text) in sources() {
        assert!(!code(&text).contains("pyo3"), "{} knows pyo3", path.display());
    }
    assert!(binding().iter().any(|(_, text)| code(text).contains("pyo3")));
}

#[test]
fn no_file_is_too_long_to_read() {
    for (path, text) in sources().into_iter().chain(binding()) {
        let lines = text.lines().count();
        assert!(lines <= 400, "{} has {lines} lines: split it by noun", path.display());
    }
}
