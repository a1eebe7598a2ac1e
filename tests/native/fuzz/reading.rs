//! [`read_all`]: every sample, in every way.

use std::sync::Arc;

use sluicegate::internal::{Fetch, FetchSamples, IndexBatch, Slab};
use sluicegate::{Batch, Dataset, Error, Result, StackSamples};

/// Maximum number of samples to read from a dataset, whatever its length claims to be.
const MOST_SAMPLES: usize = 40;

/// Maximum number of bytes of a batch's variable fields.
const MOST_BYTES: usize = 64 << 20;

/// The bytes of a sample, by field.
pub(super) type Values = Vec<Vec<u8>>;

/// The samples that were read: the first ones and, if the dataset is large, two others; None for damaged ones.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) samples: Vec<Option<Values>>,
    len: usize,
}

impl Samples {
    /// True if these are all samples, and none is damaged.
    pub(super) fn is_whole(&self) -> bool {
        self.samples.len() == self.len && !self.samples.contains(&None)
    }
}

/// Reads a dataset that was opened; asserts what an error must contain.
pub(super) fn read_opened<D: Dataset + 'static>(opened: Result<D>) -> Option<Samples> {
    opened.inspect_err(check_error).ok().map(read_all)
}

/// Reads the samples one by one and in batches, and asserts that the results are equal.
pub(super) fn read_all(dataset: impl Dataset + 'static) -> Samples {
    read_in(dataset, Ways::Same)
}

/// Says if the results of both kinds of read must be equal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ways {
    Same,
    /// They read different parts of a file, which contradict each other if it is damaged.
    Apart,
}

/// Reads the samples one by one and in batches.
pub(super) fn read_in(dataset: impl Dataset + 'static, ways: Ways) -> Samples {
    let dataset: Arc<dyn Dataset> = Arc::new(dataset);
    let len = dataset.len();
    let fetch = FetchSamples::new(Arc::clone(&dataset), Arc::new(StackSamples), Arc::new(Slab::new(1)));
    let fetch = fetch.with_largest_batch(MOST_BYTES);
    let fetch = |indices: &[usize]| {
        let batch = IndexBatch { epoch: 0, batch_in_epoch: 0, indices: indices.to_vec(), draws: None };
        fetch.fetch(&batch).inspect_err(check_error)
    };
    let mut indices: Vec<usize> = (0..len.min(MOST_SAMPLES)).collect();
    indices.extend([len / 2, len.wrapping_sub(1)].into_iter().filter(|&index| index < len && index >= MOST_SAMPLES));
    let single: Vec<Option<Values>> =
        indices.iter().map(|&index| fetch(&[index]).ok().map(|batch| sample(&batch, 0))).collect();
    for (indices, single) in indices.chunks(7).zip(single.chunks(7)) {
        let batch = fetch(indices);
        if ways == Ways::Apart {
            continue;
        }
        match batch {
            Ok(batch) => {
                let rows = (0..indices.len()).map(|row| Some(sample(&batch, row)));
                assert!(rows.eq(single.iter().cloned()), "samples {indices:?} differ when they are read at once");
            }
            Err(error) => {
                // All samples together may be too large.
                let is_size = matches!(&error, Error::Sample { reason, .. } if reason.contains("lower batch_size"))
                    || matches!(error, Error::InvalidArgument { .. } | Error::OutOfMemory { .. });
                assert!(is_size || single.contains(&None), "samples {indices:?} can be read one by one, but: {error}");
            }
        }
    }
    assert!(fetch(&[len]).is_err(), "there is a sample behind the last one");
    assert!(fetch(&[usize::MAX]).is_err());
    Samples { samples: single, len }
}

fn sample(batch: &Batch, row: usize) -> Values {
    (0..batch.fields().len()).map(|field| batch.sample(field, row).to_vec()).collect()
}

/// Asserts that an error about a file names it.
pub(super) fn check_error(error: &Error) {
    let text = error.to_string();
    let is_of_file =
        matches!(error, Error::Io { .. } | Error::Format { .. } | Error::Changed { .. } | Error::Shrunk { .. });
    assert!(!is_of_file || text.starts_with('/'), "an error that names no file: {text}");
    assert!(!matches!(error, Error::Panic { .. }), "{text}");
    assert!(text.len() < 1 << 16, "an error of {} bytes", text.len());
}
