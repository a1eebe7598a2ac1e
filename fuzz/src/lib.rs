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

/// The target `name`, and from then on a panic in it ends the process.
///
/// # Panics
/// When there is no such target.
#[must_use]
pub fn target(name: &str) -> fn(&[u8]) {
    let found = targets::TARGETS.iter().find(|(known, _)| *known == name);
    let Some((_, target)) = found else { panic!("no target is called {name:?}: they are the folders of fuzz/corpus") };
    let_crates_panic();
    *target
}
