//! Tests that need a separate process because of its memory, its threads, or its limits.

use std::env;
use std::process::Command;

/// Set to the name of the single test that the process runs.
const ALONE: &str = "SLUICEGATE_TEST_ALONE";

/// Prevents threads from starting: no address space can hold such a stack.
pub(crate) const NO_THREADS: &str = "export RUST_MIN_STACK=1000000000000000;";

/// Runs `body`, the body of `test` (as `module::function`), in a process that runs nothing else. `limits` are shell
/// commands that run first, such as `ulimit -v 1000000;`.
pub(crate) fn alone(test: &str, limits: &str, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some_and(|alone| alone == test) {
        return body();
    }
    let output = Command::new("sh")
        .args(["-c", &format!("{limits} exec \"$@\""), "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, test)
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.contains("1 passed"), "{test} alone:\n{stdout}\n{stderr}");
}

/// Returns the private memory of this process that is in RAM, in bytes.
pub(crate) fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Returns the number of threads of this process whose name begins with `prefix`.
pub(crate) fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap);
    tasks
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with(prefix)))
        .count()
}
