#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluicegate_fuzz::call("image", input));
