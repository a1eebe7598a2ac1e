//! Which modules of one folder may use each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{code, exports, module_of, names_after, sources};

/// The folders that formats share, from bottom to top, each with the earlier ones that it uses.
const MACHINERY: &[(&str, &[&str])] = &[
    ("block", &[]),
    ("file", &["block"]),
    ("array", &["file"]),
    ("shard", &["file"]),
    ("index", &["file"]),
    ("image", &["file", "index"]),
    ("packing", &["file", "index"]),
    ("field", &["block", "index"]),
    ("columnar", &["field"]),
    ("sequential", &["field", "file", "index", "packing"]),
];

/// Each format, with the shared folders that it uses. Formats do not use each other.
const FORMATS: &[(&str, &[&str])] = &[
    ("arrow", &["block", "columnar", "file", "index"]),
    ("csv", &["field", "file", "index", "sequential"]),
    ("folder", &["file", "image", "index"]),
    ("json", &["field", "file", "index", "sequential"]),
    ("mds", &["block", "field", "file", "index", "packing"]),
    ("npy", &["array", "file"]),
    ("npz", &["array", "file"]),
    ("parquet", &["block", "columnar", "field", "file", "index", "shard"]),
    ("raw", &["field", "file", "sequential"]),
    ("safetensors", &["array", "file"]),
    ("tar", &["array", "block", "field", "file", "index", "packing", "sequential", "shard"]),
    ("tfrecord", &["field", "file", "index", "sequential"]),
    ("tokens", &["array", "file", "shard"]),
    ("zarr", &["block", "file", "index"]),
];

/// Folders whose modules do not use each other, directly or indirectly, except for these groups.
const FOLDERS: &[(&str, &[&[&str]])] = &[
    // A stream yields blocks of a format's fields, and formats are read as streams.
    ("dataset", &[&["format", "iterable"]]),
    ("sampler", &[]),
    ("transform", &[]),
    ("memory", &[]),
];

/// Which modules of a folder use which others, and how often.
struct Folder {
    knows: BTreeMap<String, BTreeSet<String>>,
    uses: usize,
}

impl Folder {
    /// Reads the folder of `module`, a path from the root of the crate. Tests in its files may use anything.
    fn read(module: &str) -> Self {
        let folder = Path::new(&module.replace("::", "/")).to_path_buf();
        let sources = sources();
        let exports_of = |path: &Path| exports(&sources.iter().find(|(other, _)| other == path).unwrap().1);
        let (surface, exported) = (exports_of(Path::new("lib.rs")), exports_of(&folder.join("mod.rs")));
        let files: Vec<(&Path, &str)> = sources
            .iter()
            .filter_map(|(path, text)| Some((path.strip_prefix(&folder).ok()?, text.as_str())))
            .filter(|(path, _)| *path != Path::new("mod.rs"))
            .collect();
        let mut knows: BTreeMap<_, BTreeSet<_>> =
            files.iter().map(|(path, _)| (module_of(path), BTreeSet::new())).collect();
        let first = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
        let mut uses = 0;
        for (path, text) in files {
            let code = code(text.split("\nmod tests {").next().unwrap_or_default());
            let up = "super::".repeat(path.components().count() - usize::from(path.ends_with("mod.rs")));
            let mut found = names_after(&code, &up);
            found.extend(names_after(&code, &format!("crate::{module}::")));
            for name in names_after(&code, "crate::") {
                let Some(origin) = surface.get(&name) else { continue };
                match origin.strip_prefix(module).map(|rest| rest.trim_start_matches("::")) {
                    Some("") => found.push(name),
                    Some(rest) => found.push(first(rest)),
                    None => {}
                }
            }
            let me = module_of(path);
            for name in found {
                let other = exported.get(&name).map_or(name, |path| first(path));
                if other != me && knows.contains_key(&other) {
                    knows.entry(me.clone()).or_default().insert(other);
                    uses += 1;
                }
            }
        }
        Self { knows, uses }
    }

    /// Returns the groups of modules that all use each other, directly or indirectly.
    fn cycles(&self) -> BTreeSet<Vec<&str>> {
        let reached = |start: &str| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![start.to_owned()]);
            while let Some(module) = open.pop() {
                open.extend(self.knows[&module].iter().filter(|other| reached.insert((*other).clone())).cloned());
            }
            reached
        };
        let reached: BTreeMap<&str, _> = self.knows.keys().map(|module| (&module[..], reached(module))).collect();
        let knows = |one: &str, other: &str| reached[one].contains(other);
        let group =
            |&one: &&str| reached.keys().copied().filter(|other| knows(one, other) && knows(other, one)).collect();
        reached.keys().filter(|one| knows(one, one)).map(group).collect()
    }
}

#[test]
fn formats_use_only_shared_modules() {
    let names = |table: &[(&'static str, &[&str])]| table.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let shared = names(MACHINERY);
    for (place, (folder, known)) in MACHINERY.iter().enumerate() {
        assert!(known.iter().all(|other| shared[..place].contains(other)), "{folder} is not above all that it knows");
    }
    for (format, known) in FORMATS {
        assert!(known.iter().all(|other| shared.contains(other)), "{format} may not know another format");
    }
    let declared: BTreeMap<String, BTreeSet<String>> = [MACHINERY, FORMATS]
        .concat()
        .iter()
        .map(|(folder, known)| ((*folder).to_owned(), known.iter().map(|&other| other.to_owned()).collect()))
        .collect();
    let format = Folder::read("dataset::format");
    for (folder, known) in &format.knows {
        let declared =
            declared.get(folder).unwrap_or_else(|| panic!("format/{folder} has no place in the order: give it one"));
        assert_eq!(known, declared, "what format/{folder} knows (left) is not what is declared (right)");
    }
    assert_eq!(format.knows.len(), declared.len(), "a folder is declared that does not exist");
    assert!(format.uses > 200, "only {} uses were found: the check has gone blind", format.uses);
}

#[test]
fn modules_of_a_folder_use_each_other_only_as_declared() {
    for (module, declared) in FOLDERS {
        let folder = Folder::read(module);
        let declared: BTreeSet<Vec<&str>> = declared.iter().map(|group| group.to_vec()).collect();
        assert_eq!(folder.cycles(), declared, "the cycles of {module} (left) are not those declared (right)");
        assert!(folder.uses > 25, "only {} uses were found in {module}: the check has gone blind", folder.uses);
    }
}
