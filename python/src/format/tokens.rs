//! Token files, their documents, and datasets of both.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sluicegate::{DType, Documents, Result, TokenDocuments, TokenLayout, TokenOutput, TokenWindows, Tokens};

use crate::dataset::Dataset;
use crate::detach::{detach, detach_long, opening};
use crate::engine::Engine;
use crate::error::unknown;
use crate::memory::capsule;

/// Open token files. Threads may share them.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct TokenFiles(pub(crate) Arc<sluicegate::TokenFiles>);

#[pymethods]
impl TokenFiles {
    /// Opens the files at `paths`: flat ones of `dtype` after `offset` bytes, and Megatron's, which have an index.
    #[new]
    fn new(py: Python<'_>, paths: Vec<PathBuf>, dtype: &str, offset: u64, apart: bool) -> PyResult<Self> {
        let documents = if apart { Documents::Apart } else { Documents::Joined };
        let files = detach_long(py, "opening tokens", || {
            let layout = TokenLayout { dtype: dtype.parse()?, offset };
            sluicegate::TokenFiles::open(&paths, &layout, documents)
        })?;
        Ok(Self(Arc::new(files)))
    }

    /// Returns the number of documents.
    fn __len__(&self) -> usize {
        self.0.documents()
    }

    /// Returns the number of tokens.
    #[getter]
    fn tokens(&self) -> u64 {
        self.0.tokens()
    }

    /// Returns the data type of the tokens in each file.
    #[getter]
    fn dtypes(&self) -> Vec<&'static str> {
        self.0.dtypes().map(DType::name).collect()
    }

    /// Returns the number of tokens of each document: int64.
    fn document_lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let lengths = (0..self.0.documents()).map(|document| self.0.document_len(document));
        PyBytes::new_with(py, 8 * self.0.documents(), |bytes| {
            bytes.as_chunks_mut::<8>().0.iter_mut().zip(lengths).for_each(|(bytes, len)| *bytes = len.to_ne_bytes());
            Ok(())
        })
    }

    /// Returns the tokens of these pieces of documents (document, start, stop), concatenated: a capsule of int64.
    fn read<'py>(
        &self,
        py: Python<'py>,
        engine: &Engine,
        pieces: Vec<(usize, u64, u64)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut len = 0_usize;
        for &(_, start, stop) in &pieces {
            let piece = stop.checked_sub(start).and_then(|piece| usize::try_from(piece).ok());
            let sum = piece.and_then(|piece| len.checked_add(piece)).filter(|sum| sum.checked_mul(8).is_some());
            len = sum.ok_or_else(|| PyValueError::new_err(format!("a piece from {start} to {stop}")))?;
        }
        let lease = detach(py, || {
            let mut lease = engine.slab.lease(8 * len)?;
            let mut rest = lease.bytes_mut();
            for &(document, start, stop) in &pieces {
                let (now, later) = rest.split_at_mut(8 * (stop - start) as usize);
                self.0.read_document(document, start, now)?;
                rest = later;
            }
            Ok(lease)
        })?;
        capsule(py, &Arc::new(lease), 0, (DType::Int64, &[len]))
    }
}

/// Returns what a sample contains, by name.
fn token_output(name: &str) -> Result<TokenOutput> {
    match name {
        "tokens" => Ok(TokenOutput::Tokens),
        "shifted" => Ok(TokenOutput::Shifted),
        "same" => Ok(TokenOutput::Same),
        other => Err(unknown("output", other)),
    }
}

/// Returns windows of `length` tokens, `stride` apart. `output` is "tokens", "shifted", or "same".
#[pyfunction]
#[pyo3(signature = (files, length, stride, output, vocabulary_size))]
pub(crate) fn tokens_dataset(
    py: Python<'_>,
    files: &TokenFiles,
    length: usize,
    stride: usize,
    output: &str,
    vocabulary_size: Option<u64>,
) -> PyResult<Dataset> {
    let tokens = opening(py, || {
        let windows = TokenWindows { length, stride, output: token_output(output)?, vocabulary_size };
        Tokens::new(Arc::clone(&files.0), windows)
    })?;
    Dataset::wrap(py, Ok(tokens))
}

/// Returns the documents of `files`, each as a whole.
#[pyfunction]
pub(crate) fn token_documents_dataset(files: &TokenFiles) -> Dataset {
    Dataset(Arc::new(TokenDocuments::new(Arc::clone(&files.0))))
}
