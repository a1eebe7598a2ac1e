//! Zarr: the metadata of an array in both versions, and one chunk.

use std::fs;

use sluicegate::{Dataset, WindowEdges, Zarr, ZarrOptions};

use super::input::Input;
use super::reading::read_opened;
use super::scratch::scratch;

/// Larger chunks and windows are not read.
const MOST_BYTES: usize = 1 << 22;

/// Input: how it is read, the metadata, the attributes of version 2, and the chunk, which has the names of all first chunks.
pub(super) fn zarr(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let options = ZarrOptions {
        window: (input.byte() % 2 == 1).then(|| vec![("y".to_owned(), 2)]),
        edges: input.choice(&[WindowEdges::Drop, WindowEdges::Pad, WindowEdges::Shift]),
        decode_cf: input.byte().is_multiple_of(2),
        ..ZarrOptions::default()
    };
    let is_v3 = input.byte() % 2 == 1;
    let (metadata, attributes) = (input.part(), input.part());
    let chunk = input.rest();
    let folder = scratch("zarr");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("c/0")).unwrap();
    if is_v3 {
        fs::write(folder.join("zarr.json"), metadata).unwrap();
    } else {
        fs::write(folder.join(".zarray"), metadata).unwrap();
        fs::write(folder.join(".zattrs"), attributes).unwrap();
    }
    for name in ["0", "0.0", "c/0/0"] {
        fs::write(folder.join(name), chunk).unwrap();
    }
    let opened = Zarr::open(&folder, &options);
    // Few bytes may stand for very many that are all the same; then there is nothing more to find out.
    let is_small = |opened: &Zarr| {
        let elements = |shape: &[usize]| shape.iter().try_fold(16_usize, |bytes, &axis| bytes.checked_mul(axis));
        let kept = opened.as_blocks().map_or(0, |blocks| blocks.size_of(0).kept);
        kept < MOST_BYTES && opened.schema().fields().iter().all(|field| elements(field.shape()) < Some(MOST_BYTES))
    };
    if !opened.as_ref().is_ok_and(|opened| !is_small(opened)) {
        read_opened(opened);
    }
}
