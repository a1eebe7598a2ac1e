//! Zarr: the metadata of an array in both versions, and one chunk; references to chunks; and netCDF-3 files.

use std::fs;

use sluicegate::{Dataset, WindowEdges, Zarr, ZarrOptions};

use super::input::Input;
use super::reading::read_opened;
use super::scratch::scratch;

/// Larger chunks and windows are not read.
const MOST_BYTES: usize = 1 << 22;

/// Input: how it is read, the metadata, the attributes of version 2, and the chunk, under the names of all first
/// chunks. Read as references, the metadata refers to a file with the chunk; read as netCDF-3, the chunk is the file.
pub(super) fn zarr(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let options = ZarrOptions {
        window: (input.byte() % 2 == 1).then(|| vec![("y".to_owned(), 2)]),
        edges: input.choice(&[WindowEdges::Drop, WindowEdges::Pad, WindowEdges::Shift]),
        decode_cf: input.byte().is_multiple_of(2),
        ..ZarrOptions::default()
    };
    let form = input.byte() % 4;
    let (metadata, attributes) = (input.part(), input.part());
    let chunk = input.rest();
    let folder = scratch("zarr");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("c/0")).unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    let path = match form {
        0 => {
            put(".zarray", metadata);
            put(".zattrs", attributes);
            folder.clone()
        }
        1 => {
            put("zarr.json", metadata);
            folder.clone()
        }
        2 => {
            put("x.nc", &[b"CDF", chunk].concat());
            folder.join("x.nc")
        }
        _ => {
            let text = String::from_utf8_lossy(metadata).replace("FOLDER", &folder.to_string_lossy());
            put("x.json", text.as_bytes());
            folder.join("x.json")
        }
    };
    for name in ["0", "0.0", "c/0/0"] {
        put(name, chunk);
    }
    let opened = Zarr::open(&path, &options);
    // A few bytes may represent very many equal elements; then there is nothing more to find.
    let is_small = |opened: &Zarr| {
        let elements = |shape: &[usize]| shape.iter().try_fold(16_usize, |bytes, &axis| bytes.checked_mul(axis));
        let kept = opened.as_blocks().map_or(0, |blocks| blocks.size_of(0).kept);
        kept < MOST_BYTES && opened.schema().fields().iter().all(|field| elements(field.shape()) < Some(MOST_BYTES))
    };
    if !opened.as_ref().is_ok_and(|opened| !is_small(opened)) {
        read_opened(opened);
    }
}
