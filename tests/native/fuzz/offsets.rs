//! The `.tar.idx` file of an archive, which lists where samples begin.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use sluicegate::internal::TarWriter;
use sluicegate::{Tar, TarField, TarOptions, TarValue};

use super::input::Input;
use super::reading::read_opened;
use super::scratch::{NOWHERE, scratch};

/// Number of samples in a unit of work; the unit begins at every such position of the index.
const PIECE: usize = if cfg!(fuzzing) { 16 } else { 1024 };

/// Archives with fewer than two units are read without such an index.
const SAMPLES: usize = 2 * PIECE + 52;

/// A header, and a block of contents.
const SAMPLE_BYTES: u64 = 1024;

struct Archive {
    path: PathBuf,
    places: Vec<u8>,
    /// The samples that are read without an index.
    whole: String,
}

impl Archive {
    fn new() -> Self {
        let path = scratch("o.tar");
        let mut tar = TarWriter::create(&path).unwrap();
        for number in 0..SAMPLES {
            tar.append(format!("{number:04}.txt").as_bytes(), number.to_string().as_bytes()).unwrap();
        }
        tar.finish().unwrap();
        let places = (0..=SAMPLES as u64).flat_map(|number| (number * SAMPLE_BYTES).to_le_bytes()).collect();
        let mut archive = Self { path, places, whole: String::new() };
        archive.whole = archive.read();
        archive
    }

    fn read(&self) -> String {
        let fields = vec![TarField::new("__key__", TarValue::Key), TarField::new("txt", TarValue::Bytes)];
        let options = TarOptions { index_folder: Some(NOWHERE.into()), ..TarOptions::default() };
        let samples = read_opened(Tar::open(vec![self.path.clone()], fields, &options));
        format!("{samples:?}")
    }
}

thread_local! {
    static ARCHIVE: RefCell<Option<Archive>> = const { RefCell::new(None) };
}

/// Changes to the true index: where, how, and the number; then how many bytes are cut off. Whatever the index contains,
/// the archive is read correctly.
pub(super) fn tar_offsets(bytes: &[u8]) {
    ARCHIVE.with(|archive| {
        let mut archive = archive.borrow_mut();
        let archive = archive.get_or_insert_with(Archive::new);
        let mut input = Input::new(bytes);
        let (mut places, cut) = (archive.places.clone(), usize::from(input.byte()));
        let mut patches = input.rest().chunks_exact(11);
        for patch in patches.by_ref() {
            // Those at which a unit begins, and any other.
            let place = match u16::from_le_bytes([patch[0], patch[1]]) {
                0 => PIECE,
                1 => 2 * PIECE,
                place => usize::from(place) % (SAMPLES + 1),
            };
            let number = u64::from_le_bytes(*patch[3..].first_chunk().unwrap());
            let known = u64::from_le_bytes(*places[8 * place..].first_chunk().unwrap());
            let number = match patch[2] % 4 {
                0 => number,
                1 => known.wrapping_add(number),
                2 => known.wrapping_add(number.wrapping_mul(512)),
                _ => number.wrapping_mul(512),
            };
            places[8 * place..8 * place + 8].copy_from_slice(&number.to_le_bytes());
        }
        places.truncate(places.len() - cut);
        let index = archive.path.with_extension("tar.idx");
        fs::write(&index, places).unwrap();
        let found = archive.read();
        fs::remove_file(index).unwrap();
        assert!(found == archive.whole, "another archive was read than without an index");
    });
}
