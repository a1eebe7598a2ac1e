//! [`Columns`]: how the columns of a schema become fields.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;

use super::leaf::{Form, Leaf};
use super::rule::Rule;
use super::select::{Found, leaves, places, starts_with, unknown};
use super::{ColumnarOptions, Decimals, NestedType, Nesting, Reason, Strings};
use crate::{Field, Schema};

/// The kind of value a field has in the language that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnKind {
    /// Samples of one shape.
    Tensor,
    /// Lists of numbers, of any length.
    List,
    /// Masks of the elements of such lists: lists of booleans, padded with false.
    ListMask,
    /// Strings or byte strings of any length, as arrays of bytes.
    Raw,
    /// Strings.
    Text,
    /// Byte strings.
    Bytes,
    /// Strings that may be missing: those that are present have a prefix byte.
    OptionalText,
    /// Byte strings that may be missing, encoded the same way.
    OptionalBytes,
    /// Lists of strings, of lists, or of dictionaries, encoded as their type describes.
    Nested(Arc<NestedType>),
}

/// The columns of a schema that are read, and the fields that they become: for each column its values, then its masks,
/// if any.
#[derive(Debug)]
pub(crate) struct Columns {
    leaves: Vec<Leaf>,
    schema: Schema,
    kinds: Vec<ColumnKind>,
    nesting: Nesting,
    decimals: Decimals,
}

impl Columns {
    /// Selects the columns of `schema` that `options` request.
    ///
    /// # Errors
    /// The reason, with the name of the column: it does not exist, or its type is not supported.
    pub(crate) fn new(schema: &ArrowSchema, options: &ColumnarOptions) -> Result<Self, Reason> {
        let all = leaves(schema.fields());
        let mut asked: Vec<usize> = Vec::with_capacity(all.len());
        let mut is_selected = vec![false; all.len()];
        match &options.columns {
            None => asked.extend(0..all.len()),
            Some(columns) => {
                for column in columns {
                    let found = places(&all, column);
                    if found.is_empty() {
                        return Err(unknown(&all, column));
                    }
                    asked.extend(found.into_iter().filter(|&place| !std::mem::replace(&mut is_selected[place], true)));
                }
            }
        }
        for (name, _) in &options.nulls {
            if let Some(name) = name
                && !asked.iter().any(|&place| starts_with(&all[place].path, name))
            {
                return Err(format!("nulls: {}", unknown(&all, name)));
            }
        }
        if asked.is_empty() {
            return Err("there are no columns to read".into());
        }
        let (nesting, decimals) = (Nesting::Dict(Vec::new()), options.decimals);
        let mut columns = Self { leaves: Vec::new(), schema: Schema::new([]), kinds: Vec::new(), nesting, decimals };
        let mut fields: Vec<Field> = Vec::new();
        let mut nested = nested_lists(&all, &asked);
        let mut made = HashSet::new();
        for place in asked {
            let found = &all[place];
            // A list with anything in it that is not a tensor becomes one field, at the position of its first leaf.
            let of_list = found.outer.as_ref().map(|outer| outer.leaf).filter(|list| nested.contains_key(list));
            if of_list.is_some_and(|list| !made.insert(list)) {
                continue;
            }
            let name = found.path.join(".");
            let leaf = match of_list.and_then(|list| nested.get_mut(&list)) {
                Some(places) => Leaf::nested(found, options, std::mem::take(places)),
                None => Leaf::new(found, options),
            };
            let leaf = leaf.map_err(|reason| {
                format!("column `{name}`: {reason}; skip it by naming the other columns in `columns`")
            })?;
            let values = Nesting::Field(fields.len());
            fields.push(leaf.field());
            columns.kinds.push(kind_of(&leaf));
            let part = match leaf.mask() {
                None => values,
                Some(mask) => {
                    fields.push(mask);
                    columns.kinds.push(ColumnKind::Tensor);
                    let valid = Nesting::Field(fields.len() - 1);
                    let mut parts = vec![("values".into(), values), ("valid".into(), valid)];
                    if let Some(mask) = leaf.element_mask() {
                        let is_list = mask.is_variable();
                        columns.kinds.push(if is_list { ColumnKind::ListMask } else { ColumnKind::Tensor });
                        parts.push(("valid_elements".into(), Nesting::Field(fields.len())));
                        fields.push(mask);
                    }
                    Nesting::Dict(parts)
                }
            };
            let nested = columns.nesting.insert(&leaf.path, part);
            nested.ok_or_else(|| {
                format!("two columns are named `{name}`; skip them by naming the other columns in `columns`")
            })?;
            columns.leaves.push(leaf);
        }
        columns.schema = Schema::new(fields);
        Ok(columns)
    }

    /// Returns the fields of a sample.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the kind of each field.
    pub(crate) fn kinds(&self) -> &[ColumnKind] {
        &self.kinds
    }

    /// Returns how the fields are nested.
    pub(crate) fn nesting(&self) -> &Nesting {
        &self.nesting
    }

    /// Returns the indices of the leaves that are read, among all leaves of the schema in depth-first order.
    pub(crate) fn leaf_places(&self) -> Vec<usize> {
        self.leaves.iter().flat_map(|leaf| leaf.places.iter().copied()).collect()
    }

    /// Returns the indices of the top-level columns of `schema` that contain them.
    pub(crate) fn top_level(&self, schema: &ArrowSchema) -> Vec<usize> {
        let names: Vec<&String> = self.leaves.iter().filter_map(|leaf| leaf.path.first()).collect();
        let fields = schema.fields().iter().enumerate();
        fields.filter(|(_, field)| names.contains(&field.name())).map(|(place, _)| place).collect()
    }

    pub(super) fn decimals(&self) -> Decimals {
        self.decimals
    }

    pub(super) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Returns the first column that has another form in `other`, from another file, with descriptions of both. Returns
    /// `None` if samples of both can be in one batch.
    pub(crate) fn difference(&self, other: &Self) -> Option<(String, String, String)> {
        for leaf in &self.leaves {
            let same = other.leaves.iter().find(|other| other.path == leaf.path);
            match same {
                Some(same) if leaf.is_like(same) => {}
                Some(same) => return Some((leaf.name(), leaf.describe(), same.describe())),
                None => return Some((leaf.name(), leaf.describe(), "missing".into())),
            }
        }
        let extra = other.leaves.iter().find(|other| !self.leaves.iter().any(|leaf| leaf.path == other.path))?;
        Some((extra.name(), "missing".into(), extra.describe()))
    }
}

/// Returns the lists, by first leaf, with a requested leaf that no tensor can hold, and all their requested leaves.
fn nested_lists(all: &[Found<'_>], asked: &[usize]) -> HashMap<usize, Vec<usize>> {
    let list_of = |place: usize| all[place].outer.as_ref().map(|outer| outer.leaf);
    let odd = asked.iter().filter(|&&place| !all[place].is_plain);
    let mut lists: HashMap<usize, Vec<usize>> = odd.filter_map(|&place| Some((list_of(place)?, Vec::new()))).collect();
    for &place in asked {
        if let Some(places) = list_of(place).and_then(|list| lists.get_mut(&list)) {
            places.push(all[place].leaf);
        }
    }
    lists
}

fn kind_of(leaf: &Leaf) -> ColumnKind {
    match (&leaf.meaning.rule, leaf.form, leaf.strings) {
        (Rule::Nested(nested), ..) => ColumnKind::Nested(Arc::new(nested.as_type())),
        (Rule::Fixed { .. }, Form::List, _) => ColumnKind::List,
        (Rule::Fixed { .. }, ..) | (Rule::FixedBytes(_), _, Strings::Bytes) => ColumnKind::Tensor,
        (_, _, Strings::Bytes) => ColumnKind::Raw,
        (Rule::Text, Form::OptionalStrings, _) => ColumnKind::OptionalText,
        (_, Form::OptionalStrings, _) => ColumnKind::OptionalBytes,
        (Rule::Text, ..) => ColumnKind::Text,
        _ => ColumnKind::Bytes,
    }
}
