//! [`WholeSamples`]: a dataset without the samples of it that can't be read.

use std::ops::Range;
use std::path::PathBuf;

use super::broken::Broken;
use super::place::{IndexPlace, SMALL};
use super::sample_index::SampleIndex;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::dataset::{BlockSize, Blocks, Dataset, ReadMany, VariableSize, read_batch, write_sizes};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter};

/// The samples of a dataset that can be read. Each is read once when the dataset is opened, so that the number of samples,
/// their indices and their order are known before an epoch begins: what is broken has no index.
///
/// Which ones are left out is kept in an index for files of 4 MiB and more; it is found again when a file has changed.
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
    dataset: D,
    /// By run of samples that are left out: how many are left before it, and how many are left out up to its end.
    gaps: Vec<(usize, usize)>,
    damages: Vec<String>,
}

impl<D: Dataset> WholeSamples<D> {
    /// Those of `dataset`, which is made of `files`, without those that `find` finds.
    ///
    /// `kind` is the format, and all that the samples depend on besides the files.
    pub(in crate::dataset::format) fn open(
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
            None => {
                let reason = "the columns of the index do not fit together: remove it".into();
                Err(Error::Changed { path: index.path().map(PathBuf::from).unwrap_or_default(), reason })
            }
        }
    }

    pub(in crate::dataset::format) fn new(dataset: D, broken: Broken) -> Self {
        let mut left_out = 0;
        let gaps = broken.runs().iter().map(|run| {
            let before = run.start - left_out;
            left_out += run.len();
            (before, left_out)
        });
        Self { gaps: gaps.collect(), damages: broken.into_texts(), dataset }
    }

    /// The same samples of what `change` makes of the dataset, which has as many.
    #[must_use]
    pub fn map(self, change: impl FnOnce(D) -> D) -> Self {
        Self { dataset: change(self.dataset), ..self }
    }

    /// The dataset with all samples.
    #[must_use]
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// What was left out, and why: a line for each place, the first 1,000 of them.
    #[must_use]
    pub fn damages(&self) -> &[String] {
        &self.damages
    }

    /// The index that sample `index` has in the dataset with all samples.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    pub fn index_in_all(&self, index: usize) -> Result<usize> {
        let len = self.len();
        if index < len { Ok(self.inner(index)) } else { Err(Error::IndexOutOfRange { index, len }) }
    }

    /// How many of the samples `all` of the dataset with all of them are left.
    #[must_use]
    pub fn whole_in(&self, all: Range<usize>) -> usize {
        let before = |index: usize| {
            // The first sample at `index` or behind it that is left.
            let (mut low, mut high) = (0, self.len());
            while low < high {
                let middle = low + (high - low) / 2;
                if self.inner(middle) < index { low = middle + 1 } else { high = middle }
            }
            low
        };
        before(all.end).saturating_sub(before(all.start))
    }

    fn left_out_before(&self, index: usize) -> usize {
        let gaps = self.gaps.partition_point(|(before, _)| *before <= index);
        if gaps == 0 { 0 } else { self.gaps[gaps - 1].1 }
    }

    fn inner(&self, index: usize) -> usize {
        index + self.left_out_before(index)
    }

    fn all_inner(&self, indices: &[usize]) -> Result<Vec<usize>> {
        indices.iter().map(|&index| self.index_in_all(index)).collect()
    }
}

impl<D: Dataset> Dataset for WholeSamples<D> {
    fn len(&self) -> usize {
        self.dataset.len() - self.gaps.last().map_or(0, |(_, left_out)| *left_out)
    }

    fn schema(&self) -> &Schema {
        self.dataset.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.dataset.read(self.index_in_all(index)?, into)
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        self.dataset.as_read_many().map(|_| self as &dyn ReadMany)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        self.dataset.as_blocks().map(|_| self as &dyn Blocks)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.dataset.as_variable().map(|_| self as &dyn VariableSize)
    }

    fn is_random(&self) -> bool {
        self.dataset.is_random()
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        self.dataset.origin(self.index_in_all(index).ok()?, field)
    }
}

impl<D: Dataset> ReadMany for WholeSamples<D> {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        read_batch(&self.dataset, &self.all_inner(indices)?, into)
    }
}

impl<D: Dataset> VariableSize for WholeSamples<D> {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        write_sizes(&self.dataset, &self.all_inner(indices)?, into)
    }
}

impl<D: Dataset> Blocks for WholeSamples<D> {
    fn count(&self) -> usize {
        self.dataset.as_blocks().map_or(0, Blocks::count)
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        if let (Some(blocks), Ok(index)) = (self.dataset.as_blocks(), self.index_in_all(index)) {
            blocks.blocks_of(index, visit);
        }
    }

    fn size_of(&self, block: usize) -> BlockSize {
        self.dataset.as_blocks().map_or(BlockSize::NONE, |blocks| blocks.size_of(block))
    }

    fn announce(&self, block: usize) {
        self.dataset.as_blocks().into_iter().for_each(|blocks| blocks.announce(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InMemory;

    #[test]
    fn indices_pass_over_what_is_left_out() {
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
