//! [`Concat`]: datasets one after the other.

use std::ops::Range;
use std::sync::Arc;

use super::blocks::BlocksOfParts;
use super::{BlockSize, Blocks, Dataset, Drawing, ReadMany, VariableSize, read_batch, write_sizes};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter, TorchGenerator};

/// The samples of several datasets of one schema, one dataset after the other; parts may be empty.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{Concat, Dataset, InMemory};
/// let part = Arc::new(InMemory::from_vec("x", vec![1.0_f32, 2.0], []).unwrap());
/// assert_eq!(Concat::new(vec![part.clone(), part]).unwrap().len(), 4);
/// ```
pub struct Concat {
    parts: Vec<Arc<dyn Dataset>>,
    /// `ends[part]` is the number of samples in the parts up to and including `part`; never decreasing.
    ends: Vec<usize>,
    blocks: BlocksOfParts,
}

impl Concat {
    /// The concatenation of `parts`, which need equal data types and shapes (names are those of the first part).
    ///
    /// # Errors
    /// [`Error::SchemaMismatch`] names the first part that differs; [`Error::InvalidArgument`] when there is no part,
    /// or too many samples.
    pub fn new(parts: Vec<Arc<dyn Dataset>>) -> Result<Self> {
        let Some(first) = parts.first() else {
            return Err(Error::invalid("parts", "at least one dataset is needed"));
        };
        if let Some(part) = parts.iter().position(|other| !other.schema().stacks_with(first.schema())) {
            return Err(Error::SchemaMismatch {
                part,
                expected: first.schema().to_string(),
                found: parts[part].schema().to_string(),
            });
        }
        let mut ends = Vec::with_capacity(parts.len());
        for part in &parts {
            let end = ends.last().copied().unwrap_or(0_usize).checked_add(part.len());
            ends.push(
                end.ok_or_else(|| Error::invalid("parts", "they have more samples in total than an index can count"))?,
            );
        }
        let blocks = BlocksOfParts::new(parts.iter().map(|part| &**part));
        Ok(Self { parts, ends, blocks })
    }

    /// The part that holds sample `index`, and the number of samples before that part.
    fn locate(&self, index: usize) -> Result<(usize, usize)> {
        let part = self.ends.partition_point(|&end| end <= index);
        if part == self.parts.len() {
            return Err(Error::IndexOutOfRange { index, len: self.len() });
        }
        Ok((part, if part == 0 { 0 } else { self.ends[part - 1] }))
    }
}

impl Dataset for Concat {
    fn len(&self) -> usize {
        self.ends[self.ends.len() - 1]
    }

    fn schema(&self) -> &Schema {
        self.parts[0].schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        let (part, start) = self.locate(index)?;
        self.parts[part].read(index - start, into)
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        let all = self.parts.iter().all(|part| part.as_read_many().is_some());
        all.then_some(self as &dyn ReadMany)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        (self.blocks.count() > 0).then_some(self as &dyn Blocks)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.parts[0].as_variable().map(|_| self as &dyn VariableSize)
    }

    fn is_random(&self) -> bool {
        self.parts.iter().any(|part| part.is_random())
    }

    fn as_drawing(&self) -> Option<&dyn Drawing> {
        let mut random = self.parts.iter().filter(|part| part.is_random()).peekable();
        (random.peek().is_some() && random.all(|part| part.as_drawing().is_some())).then_some(self as &dyn Drawing)
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        let (part, start) = self.locate(index).ok()?;
        self.parts[part].origin(index - start, field)
    }
}

impl Drawing for Concat {
    fn draws_from_python(&self) -> bool {
        self.parts.iter().filter_map(|part| part.as_drawing()).any(Drawing::draws_from_python)
    }

    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()> {
        let (part, start) = self.locate(index)?;
        // Parts that are not random draw nothing.
        self.parts[part].as_drawing().map_or(Ok(()), |drawing| drawing.advance(index - start, generator))
    }
}

impl Concat {
    /// Calls `visit` for each run of `indices` within one part: with the part, the indices there, and their rows.
    fn runs(
        &self,
        indices: &[usize],
        mut visit: impl FnMut(&dyn Dataset, &[usize], Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut inner = Vec::with_capacity(indices.len());
        let mut row = 0;
        while row < indices.len() {
            let (part, start) = self.locate(indices[row])?;
            let end = self.ends[part];
            let run = indices[row..].iter().take_while(|&&index| (start..end).contains(&index));
            inner.clear();
            inner.extend(run.map(|index| index - start));
            visit(&*self.parts[part], &inner, row..row + inner.len())?;
            row += inner.len();
        }
        Ok(())
    }
}

impl ReadMany for Concat {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        self.runs(indices, |part, inner, rows| read_batch(part, inner, &mut into.rows_mut(rows)))
    }
}

impl VariableSize for Concat {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        self.runs(indices, |part, inner, rows| write_sizes(part, inner, &mut into.rows_mut(rows)))
    }
}

impl Concat {
    /// Returns the blocks of the part that contains `block`, and the block's number within it.
    fn block(&self, block: usize) -> Option<(&dyn Blocks, usize)> {
        let (part, within) = self.blocks.find(block);
        Some((self.parts.get(part)?.as_blocks()?, within))
    }
}

impl Blocks for Concat {
    fn count(&self) -> usize {
        self.blocks.count()
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        let Ok((part, start)) = self.locate(index) else { return };
        if let Some(blocks) = self.parts[part].as_blocks() {
            let first = self.blocks.start_of(part);
            blocks.blocks_of(index - start, &mut |block| visit(first + block));
        }
    }

    fn size_of(&self, block: usize) -> BlockSize {
        self.block(block).map_or(BlockSize::NONE, |(blocks, block)| blocks.size_of(block))
    }

    fn announce(&self, block: usize) {
        self.block(block).into_iter().for_each(|(blocks, block)| blocks.announce(block));
    }
}
