//! The targets, which are also tests of the crate: they lie with those.

#![allow(clippy::unwrap_used, reason = "a target may fail by panicking")]

#[path = "../../tests/native/fuzz/mod.rs"]
mod targets;

/// Calls the target `name` with `input`.
///
/// # Panics
/// When there is no such target, or it has found something.
pub fn call(name: &str, input: &[u8]) {
    let (_, target) = targets::TARGETS.iter().find(|(known, _)| *known == name).expect("a target of that name");
    target(input);
}
