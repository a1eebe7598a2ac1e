//! [`Broken`]: which samples of a dataset can't be read, and why.

use std::ops::Range;

use super::columns::IndexColumn;
use super::file::digest_of;
use super::sample_index::SampleIndex;
use crate::dataset::format::file::scan::scan;
use crate::{Error, Result};

/// The number of errors that are listed; one more line says how many were left out.
const MOST_TEXTS: usize = 1000;

/// The number of parts that are searched for broken samples at a time, which bounds the memory for the results.
const PARTS: usize = 256;

/// True if `error` is due to the data, and will recur whenever they are read.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Format { .. } | Error::Sample { .. } | Error::Image { .. })
}

/// True if the file itself is the reason why it can't be opened, now and later. Temporary errors, and those of the
/// machine, must not leave samples out: each process checks for itself, and they would disagree.
pub(crate) fn is_file_error(error: &Error) -> bool {
    use libc::{EAGAIN, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ESTALE, ETIMEDOUT};
    match error {
        Error::Io { source, .. } => {
            !matches!(source.raw_os_error(), Some(EAGAIN | EINTR | EIO | EMFILE | ENFILE | ENOMEM | ESTALE | ETIMEDOUT))
        }
        error => is_damage(error),
    }
}

/// The samples that can't be read, as runs, and what is wrong with them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    /// In order; adjacent runs are merged.
    runs: Vec<Range<usize>>,
    texts: Vec<String>,
    /// The number of errors that have no text.
    unlisted: u64,
}

/// Columns of the index: per run, its first sample and its length; per text, its end offset; the texts; and the number
/// of errors without a text with a checksum of everything, because a corrupt run would leave out the wrong samples.
const STARTS: usize = 0;
const LENGTHS: usize = 1;
const TEXT_ENDS: usize = 2;
const TEXTS: usize = 3;
const UNLISTED: usize = 4;

impl Broken {
    /// Calls `find` for these parts of a dataset in parallel and joins the results.
    ///
    /// # Errors
    /// The error of the first part that fails.
    pub(crate) fn find<T: Sync>(parts: &[T], find: impl Fn(&T) -> Result<Self> + Sync) -> Result<Self> {
        let mut broken = Self::default();
        for some in parts.chunks(PARTS) {
            scan(some, &find)?.into_iter().for_each(|of_part| broken.append(of_part));
        }
        Ok(broken)
    }

    /// Adds the samples `run`, which come after all that were pushed before; all fail with the same error.
    pub(crate) fn push(&mut self, run: Range<usize>, error: impl FnOnce() -> Error) {
        match run.len() {
            0 => return,
            1 => self.add_text(|| error().to_string()),
            samples => self.add_text(|| format!("{} ({samples} samples)", error())),
        }
        self.extend(run);
    }

    /// Adds sample `index`, which comes after all that were pushed before, with its own text.
    #[cfg(feature = "image")]
    pub(crate) fn push_text(&mut self, index: usize, text: impl FnOnce() -> String) {
        self.add_text(text);
        self.extend(index..index + 1);
    }

    /// Adds the samples `run`, which come after those pushed before; [`push_rest`](Self::push_rest) adds a text.
    #[cfg(feature = "zarr")]
    pub(crate) fn leave_out(&mut self, run: Range<usize>) {
        self.extend(run);
    }

    /// Adds an error without samples, because the affected samples are unknown.
    pub(crate) fn push_rest(&mut self, error: &Error) {
        self.add_text(|| error.to_string());
    }

    /// Appends `others`, whose samples all come after these.
    pub(crate) fn append(&mut self, mut others: Self) {
        let runs = std::mem::take(&mut others.runs);
        self.append_texts(others);
        runs.into_iter().for_each(|run| self.extend(run));
    }

    /// Appends the errors only, because the samples of `others` are numbered differently.
    pub(crate) fn append_texts(&mut self, others: Self) {
        others.texts.into_iter().for_each(|text| self.add_text(|| text));
        self.unlisted = self.unlisted.saturating_add(others.unlisted);
    }

    /// Takes a closure, because making a text may be slow, and is skipped once the list is full.
    fn add_text(&mut self, text: impl FnOnce() -> String) {
        match self.texts.len() {
            MOST_TEXTS.. => self.unlisted = self.unlisted.saturating_add(1),
            _ => self.texts.push(text()),
        }
    }

    fn extend(&mut self, run: Range<usize>) {
        match self.runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => self.runs.push(run),
        }
    }

    /// The runs of broken samples.
    pub(crate) fn runs(&self) -> &[Range<usize>] {
        &self.runs
    }

    /// Returns the errors, one line each.
    pub(crate) fn into_texts(mut self) -> Vec<String> {
        if self.unlisted > 0 {
            self.texts.push(format!("and {} more", self.unlisted));
        }
        self.texts
    }

    /// Converts to the columns of an index.
    pub(crate) fn columns(&self) -> Vec<IndexColumn> {
        let mut end = 0;
        let ends = self.texts.iter().map(|text| {
            end += text.len() as u64;
            end
        });
        vec![
            IndexColumn::U64(self.runs.iter().map(|run| run.start as u64).collect()),
            IndexColumn::U64(self.runs.iter().map(|run| run.len() as u64).collect()),
            IndexColumn::U64(ends.collect()),
            IndexColumn::U8(self.texts.concat().into_bytes()),
            IndexColumn::U64(vec![self.unlisted, self.digest()]),
        ]
    }

    fn digest(&self) -> u64 {
        let mut bytes = Vec::new();
        let numbers = self.runs.iter().flat_map(|run| [run.start as u64, run.len() as u64]);
        let lengths = self.texts.iter().map(|text| text.len() as u64);
        numbers.chain(lengths).chain([self.unlisted]).for_each(|number| bytes.extend(number.to_le_bytes()));
        self.texts.iter().for_each(|text| bytes.extend(text.as_bytes()));
        digest_of(&bytes)
    }

    /// Reads them from the index of a dataset of `samples` samples; `None` if its columns are inconsistent.
    ///
    /// # Errors
    /// The index was truncated since it was opened.
    pub(crate) fn read(index: &SampleIndex, samples: usize) -> Result<Option<Self>> {
        let fits = index.columns() == 5
            && index.len(STARTS) == index.len(LENGTHS)
            && index.len(TEXT_ENDS) <= MOST_TEXTS
            && index.len(UNLISTED) == 2;
        if !fits {
            return Ok(None);
        }
        let column = |column| -> Result<Vec<u64>> {
            let mut numbers = vec![0; index.len(column)];
            index.get_range(column, 0, &mut numbers)?;
            Ok(numbers)
        };
        let (mut broken, mut last_end) = (Self { unlisted: index.get(UNLISTED, 0)?, ..Self::default() }, None);
        for (start, length) in column(STARTS)?.into_iter().zip(column(LENGTHS)?) {
            let end = start.checked_add(length).filter(|&end| end <= samples as u64 && length > 0);
            let (Some(end), true) = (end, last_end.is_none_or(|last_end| start > last_end)) else { return Ok(None) };
            last_end = Some(end);
            broken.runs.push(start as usize..end as usize);
        }
        let mut start = 0;
        for end in column(TEXT_ENDS)? {
            let end = usize::try_from(end).unwrap_or(usize::MAX);
            if end < start || end > index.len(TEXTS) {
                return Ok(None);
            }
            broken.texts.push(String::from_utf8_lossy(&index.get_bytes(TEXTS, start..end)?).into_owned());
            start = end;
        }
        index.check_whole()?;
        Ok((index.get(UNLISTED, 1)? == broken.digest()).then_some(broken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(reason: &str) -> Error {
        Error::Format { path: "x".into(), offset: 7, reason: reason.into() }
    }

    #[test]
    fn adjacent_runs_are_merged_and_survive_the_index() {
        let mut broken = Broken::default();
        broken.push(2..3, || damage("a"));
        broken.push(3..5, || damage("b"));
        broken.push(6..6, || damage("none"));
        let mut others = Broken::default();
        others.push(9..10, || damage("c"));
        others.push_rest(&damage("d"));
        broken.append(others);
        assert_eq!(broken.runs(), [2..5, 9..10]);
        let index = SampleIndex::in_memory(broken.columns(), 0).unwrap();
        assert_eq!(Broken::read(&index, 10).unwrap().as_ref(), Some(&broken));
        assert_eq!(Broken::read(&index, 9).unwrap(), None, "of a dataset that has no such sample");
        let texts = ["x, byte 7: a", "x, byte 7: b (2 samples)", "x, byte 7: c", "x, byte 7: d"];
        assert_eq!(broken.into_texts(), texts);
    }

    #[test]
    fn only_the_first_places_are_listed() {
        let mut broken = Broken::default();
        (0..MOST_TEXTS + 5).for_each(|number| broken.push(2 * number..2 * number + 1, || damage("a")));
        assert_eq!(broken.runs().len(), MOST_TEXTS + 5);
        let texts = broken.into_texts();
        assert_eq!((texts.len(), texts.last().map(String::as_str)), (MOST_TEXTS + 1, Some("and 5 more")));
    }

    #[test]
    fn an_index_with_mismatched_columns_is_rejected() {
        let mut broken = Broken::default();
        broken.push(2..4, || damage("a"));
        broken.push(6..7, || damage("b"));
        let whole = broken.columns();
        let refused = |column: usize, with: IndexColumn| {
            let mut columns = whole.clone();
            columns[column] = with;
            Broken::read(&SampleIndex::in_memory(columns, 0).unwrap(), 10).unwrap().is_none()
        };
        assert!(refused(STARTS, IndexColumn::U64(vec![6, 2])), "they are not in order");
        assert!(refused(STARTS, IndexColumn::U64(vec![2])));
        assert!(refused(LENGTHS, IndexColumn::U64(vec![0, 1])));
        assert!(refused(LENGTHS, IndexColumn::U64(vec![u64::MAX, 1])));
        assert!(refused(TEXT_ENDS, IndexColumn::U64(vec![5, 1 << 40])));
        assert!(refused(TEXT_ENDS, IndexColumn::U64(vec![5, 4])));
        assert!(refused(UNLISTED, IndexColumn::U64(Vec::new())));
        assert!(refused(STARTS, IndexColumn::U64(vec![1, 6])), "they are others");
        assert!(!refused(STARTS, IndexColumn::U64(vec![2, 6])));
    }
}
