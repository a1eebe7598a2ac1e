//! [`Stack`]: datasets side by side.

use std::ops::Range;
use std::sync::Arc;

use super::blocks::BlocksOfParts;
use super::sample_generator::generator_of;
use super::{BlockSize, Blocks, Dataset, Drawing, ReadMany, VariableSize, read_batch, write_sizes};
use crate::rng::GeneratorPlace;
use crate::{BatchWriter, Error, Field, Result, SampleWriter, Schema, SizesWriter, TorchGenerator};

/// Datasets of the same length, read side by side: sample i has the fields of sample i of every part.
///
/// If several parts are random and report their draws ([`Drawing`]), each draws after the one before it, sample by sample.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{Dataset, InMemory, Stack};
/// let image = Arc::new(InMemory::from_vec("pixels", vec![0_u8; 12], [2, 3]).unwrap());
/// let label = Arc::new(InMemory::from_vec("class", vec![4_i64, 2], []).unwrap());
/// let both = Stack::new(vec![("image".into(), image), ("label".into(), label)]).unwrap();
/// assert_eq!(both.schema().to_string(), "(image.pixels: uint8[2, 3], label.class: int64[])");
/// ```
pub struct Stack {
    parts: Vec<(Arc<dyn Dataset>, Range<usize>)>,
    schema: Schema,
    len: usize,
    blocks: BlocksOfParts,
}

impl Stack {
    /// The named `parts` side by side. A field is called `part.field`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] names the first part that differs; [`Error::InvalidArgument`] when there is no part.
    pub fn new(parts: Vec<(String, Arc<dyn Dataset>)>) -> Result<Self> {
        let Some((first, len)) = parts.first().map(|(name, part)| (name.clone(), part.len())) else {
            return Err(Error::invalid("parts", "at least one dataset is needed"));
        };
        if let Some((other, part)) = parts.iter().find(|(_, part)| part.len() != len) {
            return Err(Error::LengthMismatch { first, first_len: len, other: other.clone(), other_len: part.len() });
        }
        let renamed = |(name, part): (String, Arc<dyn Dataset>)| {
            let named = part.schema().fields().iter();
            let fields = named.map(|field| field.renamed(format!("{name}.{}", field.name()))).collect();
            (part, fields)
        };
        Ok(Self::side_by_side(parts.into_iter().map(renamed).collect(), len))
    }

    /// Two datasets side by side, whose fields keep their names.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if the lengths differ; [`Error::InvalidArgument`] if both have a field of the same
    /// name.
    pub(crate) fn zipped(first: Arc<dyn Dataset>, second: Arc<dyn Dataset>) -> Result<Self> {
        let len = first.len();
        if second.len() != len {
            let (first, other, other_len) = ("the first".into(), "the second".into(), second.len());
            return Err(Error::LengthMismatch { first, first_len: len, other, other_len });
        }
        let has = |name: &str| first.schema().fields().iter().any(|field| field.name() == name);
        if let Some(field) = second.schema().fields().iter().find(|field| has(field.name())) {
            let reason = format!("both datasets have a field `{}`; name the parts with Stack::new", field.name());
            return Err(Error::invalid("other", reason));
        }
        let own = |part: Arc<dyn Dataset>| {
            let fields = part.schema().fields().to_vec();
            (part, fields)
        };
        Ok(Self::side_by_side(vec![own(first), own(second)], len))
    }

    /// Joins parts of `len` samples; the fields given with each part carry the names that they get here.
    fn side_by_side(parts: Vec<(Arc<dyn Dataset>, Vec<Field>)>, len: usize) -> Self {
        let mut fields = Vec::new();
        let mut windows = Vec::new();
        for (part, named) in parts {
            let start = fields.len();
            fields.extend(named);
            windows.push((part, start..fields.len()));
        }
        let blocks = BlocksOfParts::new(windows.iter().map(|(part, _)| &**part));
        Self { parts: windows, schema: Schema::new(fields), len, blocks }
    }
}

impl Dataset for Stack {
    fn len(&self) -> usize {
        self.len
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        if self.random_parts().count() > 1 {
            return self.read_many(&[index], &mut into.as_batch());
        }
        self.parts.iter().try_for_each(|(part, fields)| part.read(index, &mut into.fields_mut(fields.clone())))
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        let all = self.parts.iter().all(|(part, _)| part.as_read_many().is_some());
        all.then_some(self as &dyn ReadMany)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        (self.blocks.count() > 0).then_some(self as &dyn Blocks)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.schema.is_variable().then_some(self as &dyn VariableSize)
    }

    fn is_random(&self) -> bool {
        self.parts.iter().any(|(part, _)| part.is_random())
    }

    fn as_drawing(&self) -> Option<&dyn Drawing> {
        let is_drawing = self.is_random() && self.random_parts().all(|part| part.as_drawing().is_some());
        is_drawing.then_some(self as &dyn Drawing)
    }

    fn counts_from_end(&self) -> bool {
        self.parts.iter().all(|(part, _)| part.counts_from_end())
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        let (part, fields) = self.parts.iter().find(|(_, fields)| fields.contains(&field))?;
        part.origin(index, field - fields.start)
    }
}

impl ReadMany for Stack {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let later = self.places_of_later_parts(indices, into)?;
        let mut random = 0;
        self.parts.iter().try_for_each(|(part, fields)| {
            let mut into = into.fields_mut(fields.clone());
            random += usize::from(part.is_random());
            let places = random.checked_sub(2).and_then(|number| later.get(number)).filter(|_| part.is_random());
            match places {
                Some(places) => read_batch(&**part, indices, &mut into.with_places(places)),
                None => read_batch(&**part, indices, &mut into),
            }
        })
    }
}

impl VariableSize for Stack {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        self.parts
            .iter()
            .try_for_each(|(part, fields)| write_sizes(&**part, indices, &mut into.fields_mut(fields.clone())))
    }
}

impl Stack {
    /// Returns the blocks of the part that contains `block`, and the block's number within it.
    fn block(&self, block: usize) -> Option<(&dyn Blocks, usize)> {
        let (part, within) = self.blocks.find(block);
        Some((self.parts.get(part)?.0.as_blocks()?, within))
    }

    fn random_parts(&self) -> impl Iterator<Item = &dyn Dataset> {
        self.parts.iter().map(|(part, _)| &**part).filter(|part| part.is_random())
    }

    /// Returns, for each random part after the first, where the samples at `indices` begin to draw; empty if that is
    /// not known.
    fn places_of_later_parts(&self, indices: &[usize], into: &BatchWriter<'_>) -> Result<Vec<Vec<GeneratorPlace>>> {
        let drawing: Vec<&dyn Drawing> = self.random_parts().map_while(|part| part.as_drawing()).collect();
        let is_known = |row| into.place(row).is_some() || into.key(row).is_some();
        if drawing.len() < 2 || drawing.len() < self.random_parts().count() || !(0..indices.len()).all(is_known) {
            return Ok(Vec::new());
        }
        let mut places = vec![Vec::with_capacity(indices.len()); drawing.len() - 1];
        for (row, &index) in indices.iter().enumerate() {
            let mut generator = generator_of((into.place(row), into.key(row)), self.draws_from_python())?;
            drawing[0].advance(index, &mut generator)?;
            for (part, places) in drawing[1..].iter().zip(&mut places) {
                places.push(generator.place(places.last()));
                part.advance(index, &mut generator)?;
            }
        }
        Ok(places)
    }
}

impl Drawing for Stack {
    fn draws_from_python(&self) -> bool {
        self.random_parts().filter_map(|part| part.as_drawing()).any(Drawing::draws_from_python)
    }

    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()> {
        let mut drawing = self.random_parts().filter_map(|part| part.as_drawing());
        drawing.try_for_each(|drawing| drawing.advance(index, generator))
    }
}

impl Blocks for Stack {
    fn count(&self) -> usize {
        self.blocks.count()
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        for (number, (part, _)) in self.parts.iter().enumerate() {
            if let Some(blocks) = part.as_blocks() {
                let first = self.blocks.start_of(number);
                blocks.blocks_of(index, &mut |block| visit(first + block));
            }
        }
    }

    fn size_of(&self, block: usize) -> BlockSize {
        self.block(block).map_or(BlockSize::NONE, |(blocks, block)| blocks.size_of(block))
    }

    fn announce(&self, block: usize) {
        self.block(block).into_iter().for_each(|(blocks, block)| blocks.announce(block));
    }
}
