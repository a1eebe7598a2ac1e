//! [`walk`]: the files below a folder, in order.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::dataset::format::file::name_pattern::NamePattern;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::index::damages::Damages;
use crate::watch;
use crate::{Error, Result};

/// Which top-level folders are classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderClasses {
    /// None: they are plain folders.
    None,
    /// Each: the class of a sample is its top-level folder; classes are numbered in the order of their names. Files
    /// that are not in a folder are left out. A class without files is an error.
    FirstFolder,
    /// The same, but classes may be empty.
    FirstFolderOrEmpty,
}

/// How symbolic links are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderLinks {
    /// Links within the root are followed; one that leads out of it is an error.
    Inside,
    /// All links are followed.
    Anywhere,
}

/// Which files below a folder are samples.
#[derive(Debug, Clone)]
pub struct FolderOptions {
    /// Which folders are classes.
    pub classes: FolderClasses,
    /// How links are handled.
    pub links: FolderLinks,
    /// Suffixes of the names to include, in any case (`.jpg`); empty for all.
    pub extensions: Vec<String>,
    /// A pattern for the paths to include, relative to the root (`*/images/*.png`); `None` for all.
    pub pattern: Option<OsString>,
}

impl Default for FolderOptions {
    fn default() -> Self {
        let (classes, links) = (FolderClasses::None, FolderLinks::Inside);
        Self { classes, links, extensions: Vec::new(), pattern: None }
    }
}

/// A folder, by its path from the root (empty for the root itself) and its canonical path.
#[derive(Clone)]
struct Place {
    path: Vec<u8>,
    real: PathBuf,
    /// The canonical folders of the links that lead here.
    through: Vec<PathBuf>,
}

/// The contents of a folder: the names of its files, and its subfolders.
struct Listing {
    files: Vec<Vec<u8>>,
    folders: Vec<Place>,
}

/// The files of one folder, given by its path from the root.
pub(super) struct FolderFiles {
    pub(super) path: Vec<u8>,
    /// The names, in byte order.
    pub(super) names: Vec<Vec<u8>>,
}

/// Returns the folders below `root`, with the files that match `options`: ordered by their first component, then by the
/// bytes of their whole path, which is the order of torchvision's `ImageFolder`. With [`Damages::LeaveOut`], a dangling
/// link counts as a file that can't be opened.
pub(crate) fn walk(root: &Path, options: &FolderOptions, damages: Damages) -> Result<Vec<FolderFiles>> {
    let real_root = fs::canonicalize(root).map_err(|source| Error::Io { path: root.to_path_buf(), source })?;
    let pattern = options.pattern.as_ref().map(|pattern| NamePattern::new(pattern.as_bytes()));
    let extensions: Vec<Vec<u8>> = options.extensions.iter().map(|end| end.to_ascii_lowercase().into_bytes()).collect();
    let is_wanted = |folder: &[u8], name: &[u8]| {
        let ends = |end: &Vec<u8>| name.len() >= end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end);
        (extensions.is_empty() || extensions.iter().any(ends))
            && pattern.as_ref().is_none_or(|pattern| pattern.matches(&join(folder, name)))
    };
    let mut found = Vec::new();
    let mut level = vec![Place { path: Vec::new(), real: real_root.clone(), through: Vec::new() }];
    while !level.is_empty() {
        let listings = scan(&level, |place| {
            let mut listing = list(root, place, &real_root, options.links, damages)?;
            listing.files.retain(|name| is_wanted(&place.path, name));
            listing.files.sort_unstable();
            Ok(listing)
        })?;
        let mut next = Vec::new();
        for (place, listing) in level.into_iter().zip(listings) {
            found.push(FolderFiles { path: place.path, names: listing.files });
            next.extend(listing.folders);
        }
        // So that the first of several errors is reported.
        next.sort_unstable_by(|a: &Place, b| a.path.cmp(&b.path));
        level = next;
    }
    found.sort_unstable_by(|a, b| in_order(&a.path, &b.path));
    Ok(found)
}

/// The path of `name` in `folder`.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, name].join(&b'/') }
}

/// The first component of a path.
pub(super) fn first_component(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').next().unwrap_or_default()
}

fn in_order(a: &[u8], b: &[u8]) -> Ordering {
    first_component(a).cmp(first_component(b)).then_with(|| a.cmp(b))
}

fn list(root: &Path, place: &Place, real_root: &Path, links: FolderLinks, damages: Damages) -> Result<Listing> {
    let folder = root.join(OsStr::from_bytes(&place.path));
    let io = |source| Error::Io { path: folder.clone(), source };
    let mut listing = Listing { files: Vec::new(), folders: Vec::new() };
    for entry in fs::read_dir(&folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        watch::advance(1)?;
        let kind = entry.file_type().map_err(io)?;
        let name = entry.file_name().into_vec();
        if kind.is_file() {
            listing.files.push(name);
        } else if kind.is_dir() {
            let real = place.real.join(entry.file_name());
            listing.folders.push(Place { path: join(&place.path, &name), real, through: place.through.clone() });
        } else if kind.is_symlink() {
            let target = match follow(&entry.path(), place, real_root, links) {
                Err(Error::Io { .. }) if damages == Damages::LeaveOut => {
                    listing.files.push(name);
                    continue;
                }
                target => target?,
            };
            if target.is_dir() {
                let mut through = place.through.clone();
                through.push(place.real.clone());
                listing.folders.push(Place { path: join(&place.path, &name), real: target, through });
            } else if target.is_file() {
                listing.files.push(name);
            }
        }
        // Pipes, sockets and devices are skipped: their contents may not end.
    }
    Ok(listing)
}

/// Returns the target of the link at `path`, which is in `place`.
fn follow(path: &Path, place: &Place, real_root: &Path, links: FolderLinks) -> Result<PathBuf> {
    let target = fs::canonicalize(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    let refuse = |reason: String| Err(Error::invalid("links", reason));
    if links == FolderLinks::Inside && !target.starts_with(real_root) {
        return refuse(format!(
            "{} is a link to {}, outside the folder; pass follow_links=True to follow it",
            path.display(),
            target.display()
        ));
    }
    if std::iter::once(&place.real).chain(&place.through).any(|folder| folder.starts_with(&target)) {
        return refuse(format!(
            "{} is a link to {}, a folder that contains the link; remove it",
            path.display(),
            target.display()
        ));
    }
    Ok(target)
}
