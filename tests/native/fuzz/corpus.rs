//! The saved inputs: seeds for the fuzzer, and what it has found.

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};

use super::TARGETS;

fn inputs(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut inputs: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    inputs
}

#[test]
fn every_corpus_input_is_read_or_refused() {
    // A package of the crate has no corpus.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(!inputs.is_empty() || !root.exists(), "{name} has no corpus");
        for path in inputs {
            println!("{}", path.display()); // shown where it panics
            target(&fs::read(path).unwrap());
        }
    }
}

#[test]
fn truncated_and_changed_inputs_are_read_or_refused() {
    for (name, target) in TARGETS {
        for path in inputs(name) {
            let whole = fs::read(&path).unwrap();
            println!("{}", path.display());
            let step = whole.len() / 20 + 1;
            for at in (0..whole.len()).step_by(step) {
                target(&whole[..at]);
                let mut changed = whole.clone();
                changed[at] ^= 1 << (at % 8);
                target(&changed);
            }
        }
    }
}

#[test]
#[ignore = "writes to the corpus: to be run when the format of an index changes"]
fn seeds_of_indices() {
    for (name, input) in super::indices::true_indices() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("whole"), input).unwrap();
    }
}
