//! The fuzz targets, which are in the folder of the crate's tests, because they are also tests.

#![allow(clippy::unwrap_used, reason = "a target may fail by panicking")]

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

#[path = "../../tests/native/fuzz/mod.rs"]
mod targets;

/// Paths of code that may panic: its callers turn the panic into an error.
const FOREIGN: [&str; 10] =
    ["/arrow-", "/parquet-", "/library/", "/image-", "/png-", "/gif-", "/tiff-", "/weezl-", "/zune-", "/fdeflate-"];

/// Makes a panic end the process, as libFuzzer expects, except in crates for Parquet, Arrow, or images, or in the
/// standard library called by these: such a panic may be caught; otherwise libFuzzer sees it later.
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

/// Returns the target `name`, and makes every later panic in it end the process.
///
/// # Panics
/// If there is no such target.
#[must_use]
pub fn target(name: &str) -> fn(&[u8]) {
    let found = targets::TARGETS.iter().find(|(known, _)| *known == name);
    let Some((_, target)) = found else { panic!("no target is called {name:?}: they are the folders of fuzz/corpus") };
    let_crates_panic();
    *target
}
