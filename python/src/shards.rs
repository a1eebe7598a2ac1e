//! `Shards`: files of bounded size, in every format that can be written.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use sluicegate::Result;
use sluicegate::internal::{
    ParquetColumn, ParquetCompression, ParquetElement, ParquetField, ParquetShardOptions, ParquetShards, TarShards,
    TokenShardLayout, TokenShards, Wait, WrittenShard,
};

use super::detach::{detach, detach_step};
use super::error::unknown;
use super::nested;

/// Writes files of bounded size.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Shards(Mutex<Kind>);

enum Kind {
    Tar(TarShards),
    Tokens(TokenShards),
    Parquet(Box<ParquetShards>),
}

/// (name; data type, "str", "bytes", or "nested" followed by a type; true for a list; shape of an element)
type Field = (String, String, bool, Vec<usize>);

/// (values, int64 sizes, int64 lengths, booleans that mark missing values)
type Column = (PyBackedBytes, PyBackedBytes, PyBackedBytes, PyBackedBytes);

#[pymethods]
impl Shards {
    /// Returns a writer of archives of at most `shard_bytes` bytes, with `threads` threads.
    #[staticmethod]
    fn tar(py: Python<'_>, shard_bytes: u64, threads: usize) -> PyResult<Self> {
        Self::new(py, || TarShards::new(shard_bytes, threads).map(Kind::Tar))
    }

    /// Returns a writer of token files of at most `shard_bytes` bytes, with or without Megatron's indices.
    #[staticmethod]
    fn tokens(py: Python<'_>, shard_bytes: u64, threads: usize, dtype: &str, megatron: bool) -> PyResult<Self> {
        let layout = if megatron { TokenShardLayout::Megatron } else { TokenShardLayout::Flat };
        Self::new(py, || TokenShards::new(shard_bytes, layout, dtype.parse()?, threads).map(Kind::Tokens))
    }

    /// Returns a writer of Parquet files of at most `shard_bytes` bytes before encoding.
    #[staticmethod]
    fn parquet(
        py: Python<'_>,
        shard_bytes: u64,
        threads: usize,
        fields: Vec<Field>,
        row_group_rows: usize,
        compression: Option<&str>,
    ) -> PyResult<Self> {
        Self::new(py, || {
            let fields = fields.into_iter().map(|(name, element, is_list, shape)| {
                let element = match element.as_str() {
                    nested if nested.starts_with("nested ") => {
                        let values = nested::of_spec(&nested["nested ".len()..]);
                        ParquetElement::Nested(values.ok_or_else(|| unknown("fields", nested))?)
                    }
                    "str" => ParquetElement::Text,
                    "bytes" => ParquetElement::Bytes,
                    dtype => ParquetElement::Number(dtype.parse()?),
                };
                Ok(ParquetField { name, element, is_list, shape })
            });
            let fields = fields.collect::<Result<_>>()?;
            let compression = match compression {
                Some("zstd") => ParquetCompression::Zstd,
                Some("snappy") => ParquetCompression::Snappy,
                None => ParquetCompression::Uncompressed,
                Some(other) => return Err(unknown("compression", other)),
            };
            let options = ParquetShardOptions { shard_bytes, row_group_rows, compression, threads };
            ParquetShards::new(fields, &options).map(|shards| Kind::Parquet(Box::new(shards)))
        })
    }

    /// Appends the samples from `start` on, each with members (name, contents). Returns how many there was room for.
    #[expect(clippy::needless_pass_by_value, reason = "the references keep the bytes alive without the GIL")]
    fn append_members(
        &self,
        py: Python<'_>,
        samples: Vec<Vec<(PyBackedBytes, PyBackedBytes)>>,
        start: usize,
    ) -> PyResult<usize> {
        self.with(py, |kind| {
            let Kind::Tar(shards) = kind else { return Ok(None) };
            let members = |sample: &Vec<(PyBackedBytes, PyBackedBytes)>| {
                shards.append(sample.iter().map(|(name, contents)| (&**name, &**contents)))
            };
            fitting(samples.get(start..).unwrap_or_default(), members).map(Some)
        })
    }

    /// Appends the documents from `start` on, each of little-endian tokens. Returns how many there was room for.
    #[expect(clippy::needless_pass_by_value, reason = "the references keep the bytes alive without the GIL")]
    fn append_documents(&self, py: Python<'_>, documents: Vec<PyBackedBytes>, start: usize) -> PyResult<usize> {
        self.with(py, |kind| {
            let Kind::Tokens(shards) = kind else { return Ok(None) };
            fitting(documents.get(start..).unwrap_or_default(), |document| shards.append(document)).map(Some)
        })
    }

    /// Appends the samples of `columns` from `start` to `end`. Returns how many there was room for.
    #[expect(clippy::needless_pass_by_value, reason = "the references keep the bytes alive without the GIL")]
    fn append_columns(&self, py: Python<'_>, columns: Vec<Column>, start: usize, end: usize) -> PyResult<usize> {
        self.with(py, |kind| {
            let Kind::Parquet(shards) = kind else { return Ok(None) };
            let int64 = |bytes: &PyBackedBytes| -> Vec<i64> {
                bytes.as_chunks::<8>().0.iter().map(|word| i64::from_ne_bytes(*word)).collect()
            };
            let owned: Vec<_> = columns
                .iter()
                .map(|(_, sizes, lengths, missing)| {
                    (int64(sizes), int64(lengths), missing.iter().map(|&byte| byte != 0).collect::<Vec<_>>())
                })
                .collect();
            let columns: Vec<_> = columns
                .iter()
                .zip(&owned)
                .map(|((values, ..), (sizes, lengths, missing))| ParquetColumn { values, sizes, lengths, missing })
                .collect();
            shards.append(&columns, start..end).map(Some)
        })
    }

    /// Ends the current shard, and begins one at `path`.
    fn begin(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.with(py, |kind| {
            match kind {
                Kind::Tar(shards) => shards.begin(path),
                Kind::Tokens(shards) => shards.begin(path),
                Kind::Parquet(shards) => shards.begin(path),
            }
            Ok(Some(()))
        })
    }

    /// Ends the current shard.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |kind| {
            match kind {
                Kind::Tar(shards) => shards.end(),
                Kind::Tokens(shards) => shards.end(),
                Kind::Parquet(shards) => shards.end(),
            }
            Ok(Some(()))
        })
    }

    /// Returns the shards completed since the last call, as (number, samples, bytes); with `wait`, all that were ended.
    fn written(&self, py: Python<'_>, wait: bool) -> PyResult<Vec<(usize, usize, u64)>> {
        let wait = if wait { Wait::ForAll } else { Wait::ForNone };
        let written = self.with(py, |kind| {
            let written: Vec<WrittenShard> = match kind {
                Kind::Tar(shards) => shards.written(wait),
                Kind::Tokens(shards) => shards.written(wait),
                Kind::Parquet(shards) => shards.written(wait),
            }?;
            Ok(Some(written))
        })?;
        Ok(written.into_iter().map(|shard| (shard.number, shard.samples, shard.bytes)).collect())
    }

    /// Discards what was not ended: when this returns, no thread is writing, and nothing unfinished is left. Raises
    /// OSError if a thread does not end because the file system does not respond.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |kind| {
            match kind {
                Kind::Tar(shards) => shards.close(),
                Kind::Tokens(shards) => shards.close(),
                Kind::Parquet(shards) => shards.close(),
            }
            .map(Some)
        })
    }
}

impl Shards {
    fn new(py: Python<'_>, make: impl FnOnce() -> Result<Kind> + Send) -> PyResult<Self> {
        detach(py, || Ok(Self(Mutex::new(make()?))))
    }

    /// Runs `work`, which returns None if the shards are of a different kind.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Kind) -> Result<Option<T>> + Send) -> PyResult<T> {
        let done = detach_step(py, || work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))?;
        done.ok_or_else(|| PyTypeError::new_err("the shards have a different format"))
    }
}

/// Returns how many of `samples` there is room for.
fn fitting<T>(samples: &[T], mut append: impl FnMut(&T) -> Result<bool>) -> Result<usize> {
    for (place, sample) in samples.iter().enumerate() {
        if !append(sample)? {
            return Ok(place);
        }
    }
    Ok(samples.len())
}
