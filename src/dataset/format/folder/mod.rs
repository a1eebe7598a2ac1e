//! Folders of files, with a class for each folder.

mod dataset;
#[cfg(feature = "image")]
mod images;
mod walk;

pub use dataset::Folder;
pub use walk::{FolderClasses, FolderLinks, FolderOptions};
