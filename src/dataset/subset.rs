//! [`Subset`]: some samples of a dataset, in an order of its own.

use std::sync::Arc;

use super::{BlockSize, Blocks, Dataset, Drawing, ReadMany, VariableSize, read_batch, write_sizes};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter, TorchGenerator};

/// The samples of `dataset` at `indices`; an index may occur more than once.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{Dataset, InMemory, Subset};
/// let dataset = Arc::new(InMemory::from_vec("x", vec![10_i64, 20, 30], []).unwrap());
/// assert_eq!(Subset::new(dataset, vec![2, 0]).unwrap().len(), 2);
/// ```
pub struct Subset {
    dataset: Arc<dyn Dataset>,
    indices: Box<dyn Selection>,
}

/// Which samples of a dataset there are, and in which order.
pub(crate) trait Selection: Send + Sync {
    /// How many.
    fn len(&self) -> usize;

    /// The index of the one at `place`, which is below the length.
    fn index_at(&self, place: usize) -> usize;

    /// Puts those at `places`, where all are below the length, into `into`; otherwise it is the first that is not.
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

impl Subset {
    /// The subset at `indices`, 8 bytes of memory each.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] when the dataset has no sample at one of them.
    pub fn new(dataset: Arc<dyn Dataset>, indices: Vec<usize>) -> Result<Self> {
        let len = dataset.len();
        match indices.iter().find(|&&index| index >= len) {
            Some(&index) => Err(Error::IndexOutOfRange { index, len }),
            None => Ok(Self::selected(dataset, indices)),
        }
    }

    /// The subset that `selection` makes, all of whose indices `dataset` has.
    pub(crate) fn selected(dataset: Arc<dyn Dataset>, selection: impl Selection + 'static) -> Self {
        Self { dataset, indices: Box::new(selection) }
    }

    /// The samples at `indices`, all of which `dataset` has: the caller has checked them.
    #[doc(hidden)]
    pub fn checked(dataset: Arc<dyn Dataset>, indices: Vec<usize>) -> Self {
        Self::selected(dataset, indices)
    }

    fn inner(&self, index: usize) -> Result<usize> {
        let len = self.indices.len();
        if index < len { Ok(self.indices.index_at(index)) } else { Err(Error::IndexOutOfRange { index, len }) }
    }

    fn all_inner(&self, indices: &[usize]) -> Result<Vec<usize>> {
        let mut inner = Vec::new();
        match self.indices.indices(indices, &mut inner) {
            Ok(()) => Ok(inner),
            Err(index) => Err(Error::IndexOutOfRange { index, len: self.indices.len() }),
        }
    }
}

impl Dataset for Subset {
    fn len(&self) -> usize {
        self.indices.len()
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

impl Drawing for Subset {
    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()> {
        let index = self.inner(index)?;
        self.dataset.as_drawing().map_or(Ok(()), |drawing| drawing.advance(index, generator))
    }
}

impl ReadMany for Subset {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        read_batch(&*self.dataset, &self.all_inner(indices)?, into)
    }
}

impl VariableSize for Subset {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        write_sizes(&*self.dataset, &self.all_inner(indices)?, into)
    }
}

impl Blocks for Subset {
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
