//! [`WholeSamples`]: a dataset without its unreadable samples.

use std::ops::Range;
use std::path::PathBuf;

use super::broken::Broken;
use super::place::{IndexPlace, SMALL};
use super::sample_index::SampleIndex;
use crate::Result;
use crate::dataset::Dataset;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::dataset::forward_dataset::forward_dataset;
use crate::dataset::selected::{Selected, Selection};

/// The readable samples of a dataset. Each sample is read once when the dataset is opened, so that the number of
/// samples, their indices and their order are known before an epoch begins: broken samples have no index.
///
/// For files of 4 MiB and more, the list of broken samples is kept in an index; it is rebuilt when a file has changed.
///
/// # Example
/// ```
/// use sluicegate::{Dataset, JsonLines};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # std::fs::write(&path, "1\n{\n3\n").unwrap();
/// let lines = JsonLines::open_whole(vec![path.to_path_buf()], None, None).unwrap();
/// assert_eq!((lines.len(), lines.damages().len()), (2, 1));
/// ```
pub struct WholeSamples<D> {
    left: Selected<D, Gaps>,
    damages: Vec<String>,
}

/// The samples between the runs of samples that are left out.
struct Gaps {
    /// Per run: the number of samples kept before it, and the number left out up to its end.
    runs: Vec<(usize, usize)>,
    len: usize,
}

impl<D: Dataset> WholeSamples<D> {
    /// Opens `dataset`, which reads `files`, without the samples that `find` reports.
    ///
    /// `kind` is the format, and everything that the samples depend on besides the files.
    pub(crate) fn open(
        dataset: D,
        (format, parameters): (&str, &str),
        files: &SourceFiles,
        index_folder: Option<PathBuf>,
        find: impl FnOnce(&D) -> Result<Broken>,
    ) -> Result<Self> {
        let place = IndexPlace::new(index_folder)?;
        if files.bytes() < SMALL {
            let broken = find(&dataset)?;
            return Ok(Self::new(dataset, broken));
        }
        let index = SampleIndex::open_or_build(files, ("whole 1", &format!("{format} {parameters}")), &place, || {
            find(&dataset).map(|broken| broken.columns())
        })?;
        match Broken::read(&index, dataset.len())? {
            Some(broken) => Ok(Self::new(dataset, broken)),
            None => Err(index.mismatch()),
        }
    }

    pub(crate) fn new(dataset: D, broken: Broken) -> Self {
        let mut left_out = 0;
        let runs = broken.runs().iter().map(|run| {
            let before = run.start - left_out;
            left_out += run.len();
            (before, left_out)
        });
        let runs: Vec<_> = runs.collect();
        let selection = Gaps { runs, len: dataset.len() - left_out };
        Self { left: Selected { dataset, selection }, damages: broken.into_texts() }
    }

    /// Replaces the dataset by `change` of it, which must have the same number of samples; the same ones stay left out.
    #[must_use]
    pub fn map(self, change: impl FnOnce(D) -> D) -> Self {
        let Selected { dataset, selection } = self.left;
        Self { left: Selected { dataset: change(dataset), selection }, ..self }
    }

    /// The dataset with all samples.
    #[must_use]
    pub fn dataset(&self) -> &D {
        &self.left.dataset
    }

    /// What was left out, and why: one line per error, at most the first 1,000.
    #[must_use]
    pub fn damages(&self) -> &[String] {
        &self.damages
    }

    /// Returns the index in the full dataset of sample `index`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange).
    pub fn index_in_all(&self, index: usize) -> Result<usize> {
        self.left.inner(index)
    }

    /// Returns how many of the samples `all` of the full dataset were kept.
    #[must_use]
    pub fn whole_in(&self, all: Range<usize>) -> usize {
        let Gaps { runs, len } = &self.left.selection;
        let before = |index: usize| {
            let ended = runs.partition_point(|(before, left_out)| before + left_out <= index);
            let left_out = if ended == 0 { 0 } else { runs[ended - 1].1 };
            // Inside a run that is left out, the count stays at what was kept before the run.
            (index - left_out).min(runs.get(ended).map_or(*len, |(before, _)| *before))
        };
        before(all.end).saturating_sub(before(all.start))
    }
}

impl Selection for Gaps {
    fn len(&self) -> usize {
        self.len
    }

    fn index_at(&self, place: usize) -> usize {
        let gaps = self.runs.partition_point(|(before, _)| *before <= place);
        place + if gaps == 0 { 0 } else { self.runs[gaps - 1].1 }
    }
}

forward_dataset!([D: Dataset] WholeSamples<D>, self => self.left);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::InMemory;

    #[test]
    fn indices_skip_omitted_samples() {
        let cases: [&[(usize, usize)]; 7] =
            [&[], &[(0, 1)], &[(0, 3), (5, 6)], &[(2, 4), (9, 12)], &[(0, 12)], &[(11, 12)], &[(1, 2), (3, 4), (5, 6)]];
        for runs in cases.map(|runs| runs.iter().map(|&(start, end)| start..end).collect::<Vec<_>>()) {
            let mut broken = Broken::default();
            let error = || Error::Format { path: "x".into(), offset: 0, reason: "broken".into() };
            runs.iter().for_each(|run| broken.push(run.clone(), error));
            let all = InMemory::from_vec("x", (0..12_i64).collect(), []).unwrap();
            let whole = WholeSamples::new(all, broken);
            let left: Vec<usize> = (0..12).filter(|index| !runs.iter().any(|run| run.contains(index))).collect();
            let found: Vec<usize> = (0..whole.len()).map(|index| whole.index_in_all(index).unwrap()).collect();
            assert_eq!((found, whole.damages().len()), (left.clone(), runs.len()));
            assert!(matches!(whole.index_in_all(left.len()), Err(Error::IndexOutOfRange { .. })));
            for start in 0..12 {
                for end in start..=12 {
                    let expected = left.iter().filter(|index| (start..end).contains(*index)).count();
                    assert_eq!(whole.whole_in(start..end), expected, "{start}..{end} of {left:?}");
                }
            }
        }
    }
}
