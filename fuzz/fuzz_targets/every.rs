#![no_main]

use std::env;
use std::sync::LazyLock;

/// The target that this process fuzzes. One program has all of them: linking thirty would take minutes and gigabytes.
static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").expect("FUZZ_TARGET is the name of a target: make fuzz FUZZ_TARGETS=...");
    sluicegate_fuzz::target(&name)
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
