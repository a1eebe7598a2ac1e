//! [`TarOptions`]: how archives are read.

use std::path::PathBuf;

use super::members::TarEnd;
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::packing::unpacked::UnpackedFolder;

/// What becomes of a sample that lacks the member of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMissing {
    /// Reading it is an error.
    #[default]
    Refuse,
    /// It is not counted.
    Skip,
    /// All fields of members are variable: bytes, and arrays of any length, have one element more before them where the
    /// member is there, and none at all where it is not; numbers and other arrays are one element or none.
    Empty,
}

/// How archives are read.
#[derive(Debug, Clone, Default)]
pub struct TarOptions {
    /// What becomes of a sample that lacks a field.
    pub on_missing: OnMissing,
    /// Where an archive ends.
    pub end: TarEnd,
    /// What is done about a damaged archive.
    pub damages: Damages,
    /// Samples that are not counted: the archive as it is given, and the key.
    pub excluded: Vec<(PathBuf, Vec<u8>)>,
    /// The folder that the index is put in; nothing for beside the first archive, or in the user's cache folder where that
    /// can't be written to.
    pub index_folder: Option<PathBuf>,
    /// Where compressed archives are unpacked to.
    pub unpacked: UnpackedFolder,
}
