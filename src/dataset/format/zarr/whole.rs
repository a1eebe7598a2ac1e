//! Leaves out windows that overlap damaged chunks.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use super::dataset::Zarr;
use super::options::ZarrOptions;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::index::broken::{Broken, is_file_error};
use crate::dataset::format::index::whole_samples::WholeSamples;
use crate::{Error, Result};

/// Chunks that a thread decodes at a time.
const PART: usize = 16;

impl Zarr {
    /// Opens the store in `folder` as [`open`](Self::open) does, and leaves out windows that overlap a damaged chunk.
    /// This decodes all chunks once.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::Io`] when a chunk can't be read.
    pub fn open_whole(folder: impl AsRef<Path>, options: &ZarrOptions) -> Result<WholeSamples<Self>> {
        Self::open(folder, options)?.without_damage()
    }

    /// Leaves out the windows that overlap damaged chunks.
    ///
    /// # Errors
    /// As [`open_whole`](Self::open_whole).
    #[doc(hidden)]
    pub fn without_damage(self) -> Result<WholeSamples<Self>> {
        let count = self.chunk_count();
        let parts: Vec<Range<usize>> = (0..count).step_by(PART).map(|start| start..(start + PART).min(count)).collect();
        let damaged = scan(&parts, |part| self.damaged_chunks(part.clone()))?;
        let mut broken = Broken::default();
        let mut windows = BTreeSet::new();
        for (chunk, error) in damaged.into_iter().flatten() {
            broken.push_rest(&error);
            windows.extend(self.windows_with(chunk));
        }
        for window in windows {
            broken.leave_out(window..window + 1);
        }
        Ok(WholeSamples::new(self, broken))
    }

    fn damaged_chunks(&self, part: Range<usize>) -> Result<Vec<(usize, Error)>> {
        let mut damaged = Vec::new();
        for chunk in part.filter(|&chunk| self.is_in_windows(chunk)) {
            match self.try_chunk(chunk) {
                Ok(()) => {}
                Err(error) if is_file_error(&error) => damaged.push((chunk, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    }
}
