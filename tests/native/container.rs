//! The memory that a container may use, read from trees that were recorded inside and outside of containers.

use std::fs;
use std::path::Path;

use sluicegate::internal::{container_bytes, memory_limit};
use tempfile::TempDir;

const MIB: usize = 1 << 20;
/// The value that version 1 reports if there is no limit: the largest number of bytes in whole pages.
const NONE_V1: &str = "9223372036854771712\n";

/// Returns a tree with these files.
fn recorded(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (name, content) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

fn limit(files: &[(&str, &str)]) -> Option<usize> {
    memory_limit(recorded(files).path())
}

const MOUNT_V2: (&str, &str) = (
    "proc/self/mountinfo",
    "22 28 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n\
     28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n\
     35 22 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
);

#[test]
fn slices_of_systemd_count_up_to_the_root() {
    let service = "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/train.scope";
    let group = ("proc/self/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/train.scope\n");
    let own = format!("{service}/memory.max");
    let slice = "sys/fs/cgroup/user.slice/user-1000.slice/memory.max";
    let high = "sys/fs/cgroup/user.slice/memory.high";
    assert_eq!(limit(&[MOUNT_V2, group, (&own, "max\n")]), None);
    assert_eq!(limit(&[MOUNT_V2, group, (&own, "536870912\n")]), Some(512 * MIB));
    assert_eq!(limit(&[MOUNT_V2, group, (&own, "max\n"), (slice, "4294967296\n")]), Some(4096 * MIB));
    assert_eq!(limit(&[MOUNT_V2, group, (&own, "536870912\n"), (slice, "268435456\n")]), Some(256 * MIB));
    assert_eq!(limit(&[MOUNT_V2, group, (&own, "536870912\n"), (high, "134217728\n")]), Some(128 * MIB));
}

#[test]
fn a_container_of_docker_with_version_2_sees_itself_as_the_root() {
    let mounts = (
        "proc/self/mountinfo",
        "1482 1360 0:292 / / rw,relatime master:531 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A:B\n\
         1486 1485 0:30 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n",
    );
    let files = [mounts, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "2147483648\n")];
    assert_eq!(limit(&files), Some(2048 * MIB));
    // Without its own namespace: the group has its outside name, and only what is below it is mounted.
    let path = "/system.slice/docker-4f2a.scope";
    let outside = format!("1486 1485 0:30 {path} /sys/fs/cgroup ro,relatime - cgroup2 cgroup rw\n");
    let group = format!("0::{path}\n");
    let files = [
        ("proc/self/mountinfo", outside.as_str()),
        ("proc/self/cgroup", &group),
        ("sys/fs/cgroup/memory.max", "1073741824\n"),
    ];
    assert_eq!(limit(&files), Some(1024 * MIB));
    // A process that was moved to a group outside its namespace.
    let files = [mounts, ("proc/self/cgroup", "0::/../neighbor\n"), ("sys/fs/cgroup/memory.max", "99999744\n")];
    assert_eq!(limit(&files), Some(99_999_744));
}

#[test]
fn a_container_of_docker_with_version_1_sees_the_end_of_its_path() {
    let path = "/docker/9c1be0";
    let mounts = format!(
        "612 611 0:27 {path} /sys/fs/cgroup/systemd ro,nosuid - cgroup cgroup rw,xattr,name=systemd\n\
         617 611 0:33 {path} /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n\
         621 611 0:37 {path} /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:19 - cgroup cgroup rw,memory\n"
    );
    let groups =
        format!("11:cpu,cpuacct:{path}\n8:memory:{path}\n1:name=systemd:{path}\n0::/system.slice/containerd\n");
    let both = [("proc/self/mountinfo", mounts.as_str()), ("proc/self/cgroup", &groups)];
    let own = "sys/fs/cgroup/memory/memory.limit_in_bytes";
    let with = |files: &[(&str, &str)]| limit(&[&both, files].concat());
    assert_eq!(with(&[(own, "734003200\n")]), Some(700 * MIB));
    assert_eq!(with(&[(own, NONE_V1)]), Some(9_223_372_036_854_771_712), "the machine's memory is less");
    // The limit of a group above, which is not mounted here.
    let statistics = "cache 4096\nhierarchical_memory_limit 367001600\ntotal_cache 4096\n";
    assert_eq!(with(&[(own, NONE_V1), ("sys/fs/cgroup/memory/memory.stat", statistics)]), Some(350 * MIB));
}

#[test]
fn a_pod_of_kubernetes_counts_where_its_container_has_no_limit() {
    let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c.slice";
    let group = format!("0::{pod}/cri-containerd-77aa.scope\n");
    let (own, above) =
        (format!("sys/fs/cgroup{pod}/cri-containerd-77aa.scope/memory.max"), format!("sys/fs/cgroup{pod}/memory.max"));
    let files = [MOUNT_V2, ("proc/self/cgroup", group.as_str()), (&own, "max\n"), (&above, "8589934592\n")];
    assert_eq!(limit(&files), Some(8192 * MIB));
    // Version 1 on the host: the whole hierarchy is visible.
    let mounts = ("proc/self/mountinfo", "40 32 0:35 / /sys/fs/cgroup/memory rw shared:16 - cgroup cgroup rw,memory\n");
    let group = ("proc/self/cgroup", "4:memory:/kubepods/burstable/pod1b2c/77aa\n");
    let files = [
        mounts,
        group,
        ("sys/fs/cgroup/memory/kubepods/burstable/pod1b2c/77aa/memory.limit_in_bytes", NONE_V1),
        ("sys/fs/cgroup/memory/kubepods/burstable/pod1b2c/memory.limit_in_bytes", "3221225472\n"),
        ("sys/fs/cgroup/memory/kubepods/memory.limit_in_bytes", "68719476736\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", NONE_V1),
    ];
    assert_eq!(limit(&files), Some(3072 * MIB));
}

#[test]
fn a_machine_with_both_versions_has_both_limits() {
    let mounts = (
        "proc/self/mountinfo",
        "41 32 0:36 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n\
         42 32 0:37 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    );
    let group = ("proc/self/cgroup", "9:memory:/batch\n0::/batch\n");
    let v1 = ("sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "629145600\n");
    assert_eq!(limit(&[mounts, group, v1]), Some(600 * MIB));
    let v2 = ("sys/fs/cgroup/unified/batch/memory.max", "419430400\n");
    assert_eq!(limit(&[mounts, group, v1, v2]), Some(400 * MIB));
}

#[test]
fn a_path_with_a_space_is_found() {
    let mounts =
        ("proc/self/mountinfo", "41 32 0:36 /a\\040b /mnt/control\\040groups rw - cgroup2 cgroup2 rw\nnonsense\n");
    let group = ("proc/self/cgroup", "0::/a b/c\n");
    assert_eq!(limit(&[mounts, group, ("mnt/control groups/c/memory.max", "1048576")]), Some(MIB));
}

#[test]
fn an_unreadable_limit_is_ignored() {
    let group = ("proc/self/cgroup", "0::/\n");
    let file = "sys/fs/cgroup/memory.max";
    assert_eq!(limit(&[]), None, "no control groups at all");
    assert_eq!(limit(&[MOUNT_V2, group]), None, "no memory controller");
    for nonsense in ["", "\n", "many\n", "-1\n", "12 34\n", "99999999999999999999999\n", "\0\u{fffd}\n"] {
        assert_eq!(limit(&[MOUNT_V2, group, (file, nonsense)]), None, "{nonsense:?}");
    }
    for nonsense in ["", "0:", "::::\n", "0::\n7\n", "memory\n", "\n\n"] {
        limit(&[("proc/self/mountinfo", nonsense), ("proc/self/cgroup", nonsense), (file, "max")]);
    }
    // A folder in place of the file is as unreadable as a file without permission.
    let tree = recorded(&[MOUNT_V2, group]);
    fs::create_dir_all(tree.path().join(file)).unwrap();
    assert_eq!(memory_limit(tree.path()), None);
    // Without a table of mounts, the usual paths are used.
    assert_eq!(limit(&[("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "4096\n")]), Some(4096));
    let v1 = [("proc/self/cgroup", "3:memory:/a\n"), ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8192\n")];
    assert_eq!(limit(&v1), Some(8192));
}

#[test]
fn usable_memory_is_within_the_limit_of_this_process() {
    let here = memory_limit(Path::new("/")).unwrap_or(usize::MAX);
    assert!((1..=here).contains(&container_bytes()));
}
