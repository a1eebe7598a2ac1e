#![no_main]

use std::env;
use std::sync::LazyLock;

/// Which of the targets this process fuzzes. One program for all of them: thirty would take minutes and gigabytes to link.
static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").expect("FUZZ_TARGET is the name of a target: make fuzz FUZZ_TARGETS=...");
    sluicegate_fuzz::target(&name)
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
