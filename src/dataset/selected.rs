//! [`Selected`]: some samples of a dataset, selected by a rule over their indices.

use super::{BlockSize, Blocks, Dataset, Drawing, ReadMany, VariableSize, read_batch, write_sizes};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter, TorchGenerator};

/// The samples that are selected from a dataset, and their order.
pub(crate) trait Selection: Send + Sync {
    /// The number of selected samples.
    fn len(&self) -> usize;

    /// The index in the dataset of the sample at `place`, which is below the length.
    fn index_at(&self, place: usize) -> usize;

    /// Appends the indices of the samples at `places` to `into`; fails with the first place beyond the length.
    fn indices(&self, places: &[usize], into: &mut Vec<usize>) -> std::result::Result<(), usize> {
        let len = self.len();
        into.reserve(places.len());
        for &place in places {
            if place >= len {
                return Err(place);
            }
            into.push(self.index_at(place));
        }
        Ok(())
    }
}

impl Selection for Vec<usize> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn index_at(&self, place: usize) -> usize {
        self[place]
    }
}

impl<S: Selection + ?Sized> Selection for Box<S> {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn index_at(&self, place: usize) -> usize {
        (**self).index_at(place)
    }

    fn indices(&self, places: &[usize], into: &mut Vec<usize>) -> std::result::Result<(), usize> {
        (**self).indices(places, into)
    }
}

/// The samples of `dataset` that `selection` selects; its indices must all exist there.
pub(crate) struct Selected<D, S> {
    pub(crate) dataset: D,
    pub(crate) selection: S,
}

impl<D, S: Selection> Selected<D, S> {
    /// Returns the index in the underlying dataset of sample `index`.
    pub(crate) fn inner(&self, index: usize) -> Result<usize> {
        let len = self.selection.len();
        if index < len { Ok(self.selection.index_at(index)) } else { Err(Error::IndexOutOfRange { index, len }) }
    }

    fn all_inner(&self, indices: &[usize]) -> Result<Vec<usize>> {
        let mut inner = Vec::new();
        match self.selection.indices(indices, &mut inner) {
            Ok(()) => Ok(inner),
            Err(index) => Err(Error::IndexOutOfRange { index, len: self.selection.len() }),
        }
    }
}

impl<D: Dataset, S: Selection> Dataset for Selected<D, S> {
    fn len(&self) -> usize {
        self.selection.len()
    }

    fn schema(&self) -> &Schema {
        self.dataset.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.dataset.read(self.inner(index)?, into)
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

    fn as_drawing(&self) -> Option<&dyn Drawing> {
        self.dataset.as_drawing().map(|_| self as &dyn Drawing)
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        self.dataset.origin(self.inner(index).ok()?, field)
    }
}

impl<D: Dataset, S: Selection> Drawing for Selected<D, S> {
    fn draws_from_python(&self) -> bool {
        self.dataset.as_drawing().is_some_and(Drawing::draws_from_python)
    }

    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()> {
        let index = self.inner(index)?;
        self.dataset.as_drawing().map_or(Ok(()), |drawing| drawing.advance(index, generator))
    }
}

impl<D: Dataset, S: Selection> ReadMany for Selected<D, S> {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        read_batch(&self.dataset, &self.all_inner(indices)?, into)
    }
}

impl<D: Dataset, S: Selection> VariableSize for Selected<D, S> {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        write_sizes(&self.dataset, &self.all_inner(indices)?, into)
    }
}

impl<D: Dataset, S: Selection> Blocks for Selected<D, S> {
    fn count(&self) -> usize {
        self.dataset.as_blocks().map_or(0, Blocks::count)
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        if let (Some(blocks), Ok(index)) = (self.dataset.as_blocks(), self.inner(index)) {
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
