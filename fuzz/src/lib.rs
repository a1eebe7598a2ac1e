//! The targets, which are also tests of the crate: they lie with those.

#![allow(clippy::unwrap_used, reason = "a target may fail by panicking")]

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

#[path = "../../tests/native/fuzz/mod.rs"]
mod targets;

/// Where code lies that may panic: those that call it make an error of that.
const FOREIGN: [&str; 10] = [
    "/arrow-", "/parquet-", "/library/", "/image-", "/png-", "/gif-", "/tiff-", "/weezl-", "/zune-", "/fdeflate-",
];

/// Has a panic end the process, as libFuzzer wants it, unless it is one of a crate for Parquet, Arrow or images (or of the standard
/// library, for one of them), which may be caught; if it is not, libFuzzer sees it later.
fn let_crates_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let end = take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let place = info.location().map_or("", |location| location.file());
            if !FOREIGN.iter().any(|foreign| place.contains(foreign)) {
                end(info);
            }
        }));
    });
}

/// Calls the target `name` with `input`.
///
/// # Panics
/// When there is no such target, or it has found something.
pub fn call(name: &str, input: &[u8]) {
    let (_, target) = targets::TARGETS.iter().find(|(known, _)| *known == name).expect("a target of that name");
    let_crates_panic();
    target(input);
}
