//! [`Block`]: the samples of one record batch, as bytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

use super::fixed::{FixedValues, blank, presence};
use super::leaf::{Form, Leaf, LeafNulls};
use super::nested_values::NestedBlock;
use super::nulls::{overwritten, union};
use super::rule::{Rule, rule_of};
use super::variable::{Offsets, VariableValues};
use super::{Columns, Decimals, Reason};

/// The samples of one record batch.
#[derive(Debug)]
pub(crate) struct Block {
    leaves: Vec<LeafBlock>,
    rows: usize,
}

/// One leaf of a block.
#[derive(Debug)]
pub(super) struct LeafBlock {
    pub(super) values: BlockValues,
    /// Which samples are null.
    pub(super) nulls: Option<NullBuffer>,
    /// Which samples contain a null.
    pub(super) broken: Option<NullBuffer>,
    /// The element mask, if there is one: a byte for each number.
    pub(super) elements: Option<BlockValues>,
}

#[derive(Debug)]
pub(super) enum BlockValues {
    Fixed { bytes: Buffer, width: usize },
    Variable(VariableValues),
}

impl Block {
    /// Converts `batch`, which may have more columns than requested, as `columns` says.
    ///
    /// # Errors
    /// The reason, with the name of the column: it is missing, of another type, or has values that can't be converted.
    pub(crate) fn new(columns: &Columns, batch: &RecordBatch) -> Result<Self, Reason> {
        let rows = batch.num_rows();
        if u32::try_from(rows).is_err() {
            return Err(format!("a batch has {rows} rows, but at most 2^32 - 1 are supported"));
        }
        let leaf = |leaf: &Leaf| {
            let array = leaf.path.first().and_then(|name| batch.column_by_name(name));
            let array = array.ok_or_else(|| "it is missing".to_owned());
            let block = array.and_then(|array| leaf_block(leaf, array, &leaf.path[1..], None, columns.decimals()));
            block.map_err(|reason| format!("column `{}`: {reason}", leaf.name()))
        };
        Ok(Self { leaves: columns.leaves().iter().map(leaf).collect::<Result<_, _>>()?, rows })
    }

    /// Returns the number of samples.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the size of all values, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes_outside(&[])
    }

    /// Returns the size of the buffers outside of `mapping`, which take memory of their own.
    pub(crate) fn bytes_outside(&self, mapping: &[u8]) -> usize {
        let mapping = mapping.as_ptr_range();
        let own = |bytes: &[u8]| if mapping.contains(&bytes.as_ptr()) { 0 } else { bytes.len() };
        let nulls = |nulls: &Option<NullBuffer>| nulls.as_ref().map_or(0, |nulls| own(nulls.validity()));
        let values = |values: &BlockValues| match values {
            BlockValues::Fixed { bytes, .. } => own(bytes),
            BlockValues::Variable(values) => values.size(own),
        };
        let masks = |leaf: &LeafBlock| nulls(&leaf.nulls) + nulls(&leaf.broken);
        let of_leaf = |leaf: &LeafBlock| values(&leaf.values) + leaf.elements.as_ref().map_or(0, values) + masks(leaf);
        self.leaves.iter().map(of_leaf).sum()
    }

    /// Copies the samples `rows`.
    ///
    /// # Panics
    /// If a row is out of range.
    pub(crate) fn taken(&self, rows: &[usize]) -> Self {
        Self { leaves: self.leaves.iter().map(|leaf| leaf.taken(rows)).collect(), rows: rows.len() }
    }

    pub(super) fn leaf(&self, number: usize) -> &LeafBlock {
        &self.leaves[number]
    }
}

impl LeafBlock {
    fn taken(&self, rows: &[usize]) -> Self {
        let nulls = |nulls: &Option<NullBuffer>| {
            let nulls = nulls.as_ref()?;
            union(Some(&NullBuffer::from_iter(rows.iter().map(|&row| nulls.is_valid(row)))), None)
        };
        Self {
            values: self.values.taken(rows),
            nulls: nulls(&self.nulls),
            broken: nulls(&self.broken),
            elements: self.elements.as_ref().map(|elements| elements.taken(rows)),
        }
    }
}

impl BlockValues {
    fn taken(&self, rows: &[usize]) -> Self {
        match self {
            Self::Variable(values) => Self::Variable(values.taken(rows)),
            Self::Fixed { bytes, width } => {
                let rows = rows.iter().map(|row| &bytes[row * width..(row + 1) * width]);
                Self::Fixed { bytes: Buffer::from_vec(rows.collect::<Vec<_>>().concat()), width: *width }
            }
        }
    }
}

/// Converts the leaf at `path` below `array`; it is null where `outer` is.
fn leaf_block(
    leaf: &Leaf,
    array: &ArrayRef,
    path: &[String],
    outer: Option<&NullBuffer>,
    decimals: Decimals,
) -> Result<LeafBlock, Reason> {
    if let DataType::Struct(_) = array.data_type() {
        let (child, path) = child_of(array, path)?;
        return leaf_block(leaf, child, path, union(outer, array.nulls()).as_ref(), decimals);
    }
    let (values, nulls, broken) = match leaf.form {
        Form::List => return list_block(leaf, array, path, outer, decimals),
        Form::Fixed => return fixed_block(leaf, array, path, outer, decimals),
        Form::Nested => return nested_block(leaf, array, path, outer, decimals),
        Form::Strings | Form::OptionalStrings => match array.data_type() {
            DataType::FixedSizeBinary(_) => {
                let fixed = FixedValues::of(&**array, decimals, &leaf.nulls)?;
                (VariableValues::of_fixed(fixed.bytes, fixed.width, array.len())?, fixed.nulls, fixed.broken)
            }
            _ => {
                let (values, nulls) = VariableValues::strings(&**array)?;
                (values, nulls, None)
            }
        },
    };
    ended(path)?;
    let nulls = union(outer, nulls.as_ref());
    let (values, nulls) = match (&leaf.nulls, nulls) {
        (LeafNulls::Fill(fill), Some(nulls)) => (values.filled(&nulls, fill), None),
        (LeafNulls::Mask, Some(nulls)) if leaf.form == Form::Strings => (values.filled(&nulls, &[]), Some(nulls)),
        (_, nulls) => (values, nulls),
    };
    Ok(LeafBlock { values: BlockValues::Variable(values), nulls, broken, elements: None })
}

fn nested_block(
    leaf: &Leaf,
    array: &ArrayRef,
    path: &[String],
    outer: Option<&NullBuffer>,
    decimals: Decimals,
) -> Result<LeafBlock, Reason> {
    ended(path)?;
    let Rule::Nested(nested) = &leaf.meaning.rule else { return Err("it is not nested".into()) };
    let NestedBlock { values, nulls, broken } = NestedBlock::new(nested, array, outer, decimals)?;
    Ok(LeafBlock { values: BlockValues::Variable(values), nulls, broken, elements: None })
}

fn fixed_block(
    leaf: &Leaf,
    array: &ArrayRef,
    path: &[String],
    outer: Option<&NullBuffer>,
    decimals: Decimals,
) -> Result<LeafBlock, Reason> {
    ended(path)?;
    check_type(leaf, array.data_type(), decimals)?;
    let FixedValues { mut bytes, width, nulls, mut broken } = FixedValues::of(&**array, decimals, &leaf.nulls)?;
    let mut nulls = union(outer, nulls.as_ref());
    let elements = (leaf.nulls == LeafNulls::MaskElements).then(|| {
        broken = None;
        masked(&mut bytes, presence(&**array), nulls.as_ref())
    });
    let elements =
        elements.map(|present| BlockValues::Fixed { width: present.len() / array.len().max(1), bytes: present });
    match (&leaf.nulls, &nulls) {
        (LeafNulls::Fill(fill), Some(null)) => {
            bytes = overwritten(&bytes, width, null, fill);
            nulls = None;
        }
        (LeafNulls::Mask, Some(null)) => bytes = overwritten(&bytes, width, null, &[]),
        _ => {}
    }
    Ok(LeafBlock { values: BlockValues::Fixed { bytes, width }, nulls, broken, elements })
}

/// Returns the offsets and items of lists. If the array is a slice, returns only the items of the slice: otherwise all
/// items would be converted, and kept, for every slice.
fn items_of<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> (ScalarBuffer<O>, ArrayRef) {
    let (offsets, items) = (list.offsets(), list.values());
    let (start, end) = (offsets[0], offsets[offsets.len() - 1]);
    let (first, last) = (start.as_usize(), end.as_usize());
    // Unsorted offsets, from a damaged file, are refused later.
    if (first, last) == (0, items.len()) || first > last || last > items.len() {
        return (offsets.inner().clone(), Arc::clone(items));
    }
    (offsets.iter().map(|&offset| offset - start).collect(), items.slice(first, last - first))
}

fn list_block(
    leaf: &Leaf,
    array: &ArrayRef,
    path: &[String],
    outer: Option<&NullBuffer>,
    decimals: Decimals,
) -> Result<LeafBlock, Reason> {
    let (offsets, items) = match array.data_type() {
        DataType::List(_) => {
            let (offsets, items) = items_of(array.as_list::<i32>());
            (Offsets::Small(offsets), items)
        }
        DataType::LargeList(_) => {
            let (offsets, items) = items_of(array.as_list::<i64>());
            (Offsets::Large(offsets), items)
        }
        other => return Err(format!("expected lists, got values of type {other}")),
    };
    let (mut path, mut items, mut inside) = (path, &items, None);
    while let DataType::Struct(_) = items.data_type() {
        inside = union(inside.as_ref(), items.nulls());
        (items, path) = child_of(items, path)?;
    }
    ended(path)?;
    check_type(leaf, items.data_type(), decimals)?;
    let mut fixed = FixedValues::of(&**items, decimals, &leaf.nulls)?;
    inside = union(inside.as_ref(), fixed.nulls.as_ref());
    if let (LeafNulls::Fill(fill), Some(null)) = (&leaf.nulls, &inside) {
        fixed.bytes = overwritten(&fixed.bytes, fixed.width, null, fill);
        inside = None;
    }
    let elements = (leaf.nulls == LeafNulls::MaskElements).then(|| {
        let present = masked(&mut fixed.bytes, presence(&**items), inside.as_ref());
        (inside, fixed.broken) = (None, None);
        VariableValues::new(offsets.clone(), present.clone(), present.len() / items.len().max(1), array.len())
    });
    let elements = elements.transpose()?;
    inside = union(inside.as_ref(), fixed.broken.as_ref());
    let values = VariableValues::new(offsets, fixed.bytes, fixed.width, array.len())?;
    let nulls = union(outer, array.nulls());
    let broken = inside.map(|inside| {
        let is_whole = |row| values.elements(row).all(|item| inside.is_valid(item));
        NullBuffer::from_iter((0..array.len()).map(is_whole))
    });
    let without_null_rows = |values: VariableValues| match &nulls {
        // A null list may still have elements.
        Some(nulls) if leaf.nulls != LeafNulls::Refuse => values.filled(nulls, &[]),
        _ => values,
    };
    let values = BlockValues::Variable(without_null_rows(values));
    let elements = elements.map(|elements| BlockValues::Variable(without_null_rows(elements)));
    let nulls = nulls.filter(|_| !matches!(leaf.nulls, LeafNulls::Fill(_)));
    Ok(LeafBlock { values, nulls, broken: union(broken.as_ref(), None), elements })
}

/// Combines `present` with row `nulls` into an element mask, and zeroes absent numbers in `bytes`.
fn masked(bytes: &mut Buffer, mut present: Vec<u8>, nulls: Option<&NullBuffer>) -> Buffer {
    if let Some(nulls) = nulls {
        blank(&mut present, nulls);
    }
    let absent = NullBuffer::from_iter(present.iter().map(|&present| present == 1));
    if absent.null_count() > 0 {
        *bytes = overwritten(bytes, bytes.len() / present.len(), &absent, &[]);
    }
    Buffer::from_vec(present)
}

fn child_of<'a, 'b>(array: &'a ArrayRef, path: &'b [String]) -> Result<(&'a ArrayRef, &'b [String]), Reason> {
    let (name, rest) = path.split_first().ok_or("expected values, got a struct")?;
    let child = array.as_struct().column_by_name(name);
    child.map(|child| (child, rest)).ok_or_else(|| format!("the struct has no `{name}`"))
}

fn ended(path: &[String]) -> Result<(), Reason> {
    path.first().map_or(Ok(()), |name| Err(format!("expected a struct with `{name}`, got plain values")))
}

/// Fails if values of type `found` are not what the leaf had when the dataset was opened.
fn check_type(leaf: &Leaf, found: &DataType, decimals: Decimals) -> Result<(), Reason> {
    let meaning = rule_of(found, decimals)?;
    match leaf.meaning.is_like(&meaning) {
        true => Ok(()),
        false => Err(format!("expected values of type {}, got {found}", leaf.describe())),
    }
}
