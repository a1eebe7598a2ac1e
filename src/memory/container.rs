//! [`container_bytes`]: how much memory this process may use, which in a container is less than the machine has.
//!
//! Written from the kernel's documentation of control groups (`cgroup-v1/memory`, `cgroup-v2`) and of
//! `/proc/<pid>/mountinfo` (`proc_pid_mountinfo(5)`).

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::physical_bytes;

/// Maximum number of bytes read from a kernel file: enough for thousands of mounts.
const MOST_READ: u64 = 1 << 22;

/// Returns the most memory that this process may use, in bytes: the smallest limit of its control group and all groups
/// above it, and never more than the machine has.
///
/// Reads the limits at every call, because they may change while a process runs.
///
/// # Example
/// ```
/// assert!(sluicegate::internal::container_bytes() > 0);
/// ```
#[must_use]
pub fn container_bytes() -> usize {
    memory_limit(Path::new("/")).map_or(usize::MAX, |limit| limit.max(1)).min(physical_bytes())
}

/// Returns the smallest memory limit of this process's control groups in bytes, or None if none of them has a limit.
///
/// Reads control groups of version 1, version 2, or both. Inside a container, group names may differ from those
/// outside, and the groups above may be invisible: only limits that can be read count. A limit that is not a number is
/// ignored.
///
/// `root` is the folder that contains `proc` and the control group file systems: `/`, or a recorded tree.
///
/// # Example
/// ```
/// use std::path::Path;
/// use sluicegate::internal::memory_limit;
///
/// assert_eq!(memory_limit(Path::new("/there/is/no/such/folder")), None);
/// ```
#[must_use]
pub fn memory_limit(root: &Path) -> Option<usize> {
    let groups = read(&root.join("proc/self/cgroup"))?;
    let mounts = read(&root.join("proc/self/mountinfo")).unwrap_or_default();
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::of_line).collect();
    groups.lines().filter_map(Group::of_line).flat_map(|group| group.limits(root, &mounts)).min()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// Returns the usual mount point, for a machine whose mount table does not list one.
    fn usual_place(self) -> &'static str {
        match self {
            Self::One => "/sys/fs/cgroup/memory",
            Self::Two => "/sys/fs/cgroup",
        }
    }
}

/// The group of this process, in a hierarchy that controls memory.
struct Group<'a> {
    version: Version,
    path: &'a str,
}

impl<'a> Group<'a> {
    /// Parses a line of `/proc/self/cgroup`: hierarchy, controllers, path.
    fn of_line(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let version = match (hierarchy, controllers) {
            ("0", "") => Version::Two,
            _ if controllers.split(',').any(|name| name == "memory") => Version::One,
            _ => return None,
        };
        Some(Self { version, path })
    }

    /// Returns the visible limits of this group and of those above it.
    fn limits(&self, root: &Path, mounts: &[Mount]) -> Vec<usize> {
        // If a hierarchy has several mounts, use the first that contains this group. Otherwise the process sees the
        // hierarchy from inside, where the mount itself is the group.
        let of_version = || mounts.iter().filter(|mount| mount.version == self.version);
        let seen = of_version().find_map(|mount| Some((mount, mount.below(self.path)?)));
        let seen = seen.or_else(|| of_version().next().map(|mount| (mount, PathBuf::new())));
        let (place, below) = match seen {
            Some((mount, below)) => (mount.place.clone(), below),
            None => (self.version.usual_place().to_owned(), plain(self.path).unwrap_or_default()),
        };
        let top = root.join(place.trim_start_matches('/'));
        below.ancestors().flat_map(|group| self.limits_in(&top.join(group))).collect()
    }

    fn limits_in(&self, folder: &Path) -> Vec<usize> {
        let number = |file| read(&folder.join(file)).and_then(|text| text.trim().parse().ok());
        match self.version {
            // Above `memory.high` a process continues, but no faster than its memory is reclaimed.
            Version::Two => ["memory.max", "memory.high"].into_iter().filter_map(number).collect(),
            Version::One => {
                // This includes the limits of groups that a container cannot see.
                let statistics = read(&folder.join("memory.stat")).unwrap_or_default();
                let of_all = statistics.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "));
                number("memory.limit_in_bytes")
                    .into_iter()
                    .chain(of_all.and_then(|text| text.trim().parse().ok()))
                    .collect()
            }
        }
    }
}

/// A mount of a hierarchy that controls memory: the mount point, and which part of the hierarchy is mounted.
struct Mount {
    version: Version,
    /// The group that is mounted at `place`.
    group: String,
    place: String,
}

impl Mount {
    fn of_line(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (group, place) = (unescaped(before.next()?), unescaped(before.next()?));
        let mut after = after.split(' ');
        let version = match (after.next()?, after.nth(1)) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", Some(options)) if options.split(',').any(|name| name == "memory") => Version::One,
            _ => return None,
        };
        Some(Self { version, group, place })
    }

    /// Returns the path below this mount of the group at `path`, or None if the mount does not contain it.
    fn below(&self, path: &str) -> Option<PathBuf> {
        Some(plain(path)?.strip_prefix(plain(&self.group)?).ok()?.to_path_buf())
    }
}

/// Returns `path` without its root, or None if it leads outside the visible tree, as for a group outside the namespace.
fn plain(path: &str) -> Option<PathBuf> {
    let parts = Path::new(path).components().filter(|part| *part != Component::RootDir);
    parts.map(|part| matches!(part, Component::Normal(_)).then_some(part)).collect()
}

/// Decodes a path of `mountinfo`, which writes blanks, tabs, newlines, and backslashes as `\` and three octal digits.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let letter = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match letter.filter(u8::is_ascii) {
            Some(letter) => plain.extend([char::from(letter).to_string().as_str(), &part[3..]]),
            None => plain.extend(["\\", part]),
        }
    }
    plain
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_READ).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
