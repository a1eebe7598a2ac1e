//! [`TokenStream`]: the tokens of one file, one after the other.

use std::path::Path;

use super::files::{Documents, TokenLayout};
use super::form::TokenForm;
use super::megatron_index::{MegatronIndex, Run};
use crate::dataset::format::file::data_file::{Access, DataFile};
use crate::{DType, Result};

/// The tokens of one file in logical order, which may differ from their order in the file.
pub(super) struct TokenStream {
    file: DataFile,
    dtype: DType,
    tokens: u64,
    runs: Vec<Run>,
}

impl TokenStream {
    /// Opens a file without an index: flat, or with the header of a `.npy` or llm.c file.
    pub(super) fn plain(path: &Path, layout: &TokenLayout, access: Access) -> Result<Self> {
        let file = DataFile::open(path, access)?;
        let TokenForm { dtype, offset, tokens } = TokenForm::of(&file, layout)?;
        Ok(Self { file, dtype, tokens, runs: vec![Run { start: 0, offset }] })
    }

    /// Opens a Megatron `.bin` with the index at `index`; returns also the end of each document, if kept apart.
    pub(super) fn megatron(
        path: &Path,
        index: &Path,
        documents: Documents,
        access: Access,
    ) -> Result<(Self, Vec<u64>)> {
        let file = DataFile::open(path, access)?;
        let MegatronIndex { dtype, tokens, runs, ends } = MegatronIndex::read(index, file.bytes(), documents)?;
        Ok((Self { file, dtype, tokens, runs }, ends))
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> u64 {
        self.tokens
    }

    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Fails if the file was truncated or replaced before the last read was done.
    pub(super) fn check(&self) -> Result<()> {
        self.file.check()
    }

    /// Fills `into` with the tokens from `start` on, as int64.
    pub(super) fn read(&self, start: u64, into: &mut [u8]) -> Result<()> {
        let (mut start, mut into) = (start, into);
        while !into.is_empty() {
            let run = self.run_of(start);
            let end = self.runs.get(run + 1).map_or(self.tokens, |next| next.start);
            let bytes = ((end - start) * size_of::<i64>() as u64).min(into.len() as u64);
            let (now, later) = into.split_at_mut(bytes as usize);
            self.file.read_widened(self.offset_of(start, run), self.dtype, now)?;
            (start, into) = (end, later);
        }
        Ok(())
    }

    /// Prefetches the tokens from `start` on, which will be read soon, into the CPU cache.
    pub(super) fn prefetch(&self, start: u64, tokens: usize) {
        self.file.prefetch(self.offset_of(start, self.run_of(start)), tokens * self.dtype.bytes());
    }

    /// Asks the operating system to start reading the tokens from `start` on.
    pub(super) fn will_read(&self, start: u64, tokens: usize) {
        self.file.will_read(self.offset_of(start, self.run_of(start)), tokens * self.dtype.bytes());
    }

    /// Fails if one of the `tokens`, which were read from `start` on, is not below `vocabulary_size`.
    pub(super) fn check_vocabulary(&self, start: u64, tokens: &[u8], vocabulary_size: u64) -> Result<()> {
        let tokens = tokens.as_chunks::<8>().0.iter().map(|&bytes| i64::from_ne_bytes(bytes));
        // As unsigned numbers, negative tokens are too large, too. A loop without an early exit can be vectorized.
        if !tokens.clone().fold(false, |any, token| any | (token as u64 >= vocabulary_size)) {
            return Ok(());
        }
        let found = (start..).zip(tokens).find(|&(_, token)| token as u64 >= vocabulary_size);
        let (place, token) = found.expect("there is one, as was just seen");
        let reason = format!(
            "token {token} is not in a vocabulary of {vocabulary_size} tokens; the file was written with a different \
             tokenizer, or with a data type other than {}",
            self.dtype
        );
        Err(self.file.refuse(self.offset_of(place, self.run_of(place)), reason))
    }

    /// Returns the run that contains a token.
    fn run_of(&self, token: u64) -> usize {
        self.runs.partition_point(|run| run.start <= token) - 1
    }

    /// Returns the offset in the file of a token of a run, in bytes.
    fn offset_of(&self, token: u64, run: usize) -> u64 {
        let Run { start, offset } = self.runs[run];
        offset + (token - start) * self.dtype.bytes() as u64
    }
}
