//! Archives, plain and compressed.

use std::fs;
use std::path::PathBuf;

use sluicegate::internal::UnpackedFolder;
use sluicegate::{Damages, OnMissing, Tar, TarEnd, TarField, TarOptions, TarValue};

use super::input::Input;
use super::reading::{check_error, read_all};
use super::scratch::{NOWHERE, file, scratch};

const BLOCK: usize = 512;

/// Maximum number of bytes to unpack.
const UNPACKED: u64 = 1 << 20;

pub(super) fn options(input: &mut Input<'_>) -> TarOptions {
    TarOptions {
        on_missing: input.choice(&[OnMissing::Refuse, OnMissing::Skip, OnMissing::Empty]),
        end: input.choice(&[TarEnd::ZeroBlock, TarEnd::FileEnd]),
        damages: input.choice(&[Damages::Refuse, Damages::LeaveOut]),
        excluded: Vec::new(),
        index_folder: Some(PathBuf::from(NOWHERE)),
        unpacked: UnpackedFolder { path: Some(scratch("unpacked")), bytes: UNPACKED },
    }
}

const VALUES: [TarValue; 4] = [TarValue::Bytes, TarValue::Npy, TarValue::Int, TarValue::Float];

/// Returns the kind of field `number`, one of the first four, as encoded in `kinds`.
pub(super) fn kind(kinds: u8, number: usize) -> TarValue {
    VALUES[usize::from(kinds >> (2 * number)) % VALUES.len()]
}

/// Returns the same kind, with arrays of any length.
pub(super) fn as_ragged(value: TarValue) -> TarValue {
    if value == TarValue::Npy { TarValue::RaggedNpy } else { value }
}

/// Opens the archive at `path` with its first extensions as fields, of the kinds that are encoded in `kinds`.
pub(super) fn read_archive(path: PathBuf, options: &TarOptions, kinds: u8) {
    let open = |fields| Tar::open(vec![path.clone()], fields, options).inspect_err(check_error);
    let always = || vec![TarField::new("__key__", TarValue::Key), TarField::new("__url__", TarValue::Url)];
    let Ok(tar) = open(always()) else { return };
    let _ = (tar.first_extensions().inspect_err(check_error), tar.damages().inspect_err(check_error));
    let (mut fields, mut ragged) = (always(), always());
    for (number, extension) in tar.extensions().iter().take(4).enumerate() {
        let Ok(name) = String::from_utf8(extension.clone()) else { continue };
        if !name.is_empty() && !name.contains(';') {
            fields.push(TarField::new(name.clone(), kind(kinds, number)));
            ragged.push(TarField::new(name, as_ragged(kind(kinds, number))));
        }
    }
    read_all(tar);
    let has_arrays = fields != ragged;
    for fields in [Some(fields), has_arrays.then_some(ragged)].into_iter().flatten() {
        if let Ok(tar) = open(fields) {
            read_all(tar);
        }
    }
}

/// Input: options, kinds of fields, and an archive.
pub(super) fn tar(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (options, kinds) = (options(&mut input), input.byte());
    read_archive(file("x.tar", &summed(input)), &options, kinds);
}

/// Returns an archive: as given, or with the correct checksums in its headers.
pub(super) fn summed(mut input: Input<'_>) -> Vec<u8> {
    let is_summed = input.byte() % 2 == 1;
    let mut archive = input.rest().to_vec();
    if is_summed {
        write_checksums(&mut archive);
    }
    archive
}

/// Writes the correct checksum to everything that looks like a header.
fn write_checksums(archive: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        let mut size = 0;
        if header.iter().any(|&byte| byte != 0) {
            header[148..156].fill(b' ');
            let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            let digits = header[124..136].iter().take_while(|byte| byte.is_ascii_digit());
            size = digits.fold(0_usize, |size, digit| size.wrapping_mul(8).wrapping_add(usize::from(digit & 7)));
        }
        at += BLOCK + if size < archive.len() { size.next_multiple_of(BLOCK) } else { 0 };
    }
}

fn unpacked(bytes: &[u8], name: &str) {
    let mut input = Input::new(bytes);
    let (options, kinds) = (options(&mut input), input.byte());
    read_archive(file(name, input.rest()), &options, kinds);
    let folder = scratch("unpacked");
    for entry in fs::read_dir(&folder).into_iter().flatten() {
        let entry = entry.unwrap();
        assert!(entry.metadata().unwrap().len() <= UNPACKED, "more was unpacked than may be");
        assert!(!entry.file_name().to_string_lossy().ends_with("unfinished"), "something unfinished was left");
    }
    let _ = fs::remove_dir_all(folder);
}

/// Input: options, kinds of fields, and an archive in gzip.
pub(super) fn tar_gz(bytes: &[u8]) {
    unpacked(bytes, "x.tar.gz");
}

/// Input: options, kinds of fields, and an archive in Zstandard.
pub(super) fn tar_zst(bytes: &[u8]) {
    unpacked(bytes, "x.tar.zst");
}
