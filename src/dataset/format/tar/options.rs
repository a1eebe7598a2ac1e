//! [`TarOptions`]: how archives are read.

use std::path::PathBuf;

use super::members::TarEnd;
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::packing::unpacked::UnpackedFolder;

/// How a sample that lacks the member of a field is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMissing {
    /// Reading it is an error.
    #[default]
    Refuse,
    /// It is skipped, and not counted.
    Skip,
    /// All fields of members become variable: bytes and ragged arrays get one extra element in front if the member is
    /// present, and are empty if it is missing; numbers and other arrays have one element or none.
    Empty,
}

/// How archives are read.
#[derive(Debug, Clone, Default)]
pub struct TarOptions {
    /// How a sample that lacks a field is handled.
    pub on_missing: OnMissing,
    /// Where an archive ends.
    pub end: TarEnd,
    /// How a damaged archive is handled.
    pub damages: Damages,
    /// Samples that are left out: the archive as given, and the key.
    pub excluded: Vec<(PathBuf, Vec<u8>)>,
    /// The folder for the index; `None` for next to the first archive, or the user's cache folder if that isn't
    /// writable.
    pub index_folder: Option<PathBuf>,
    /// Where compressed archives are unpacked.
    #[doc(hidden)]
    pub unpacked: UnpackedFolder,
}
