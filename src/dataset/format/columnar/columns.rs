//! [`Columns`]: what of a schema becomes which field.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;

use super::leaf::{Form, Leaf};
use super::rule::Rule;
use super::select::{Found, leaves, places, starts_with, unknown};
use super::{ColumnarOptions, Decimals, NestedType, Nesting, Reason, Strings};
use crate::{Field, Schema};

/// What a field is in the language that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnKind {
    /// Samples of one shape.
    Tensor,
    /// Lists of numbers, of any length.
    List,
    /// Which elements of such lists there are: lists of booleans, padded with false.
    ListMask,
    /// Byte strings that are to stay arrays of bytes, of any length.
    Raw,
    /// Texts.
    Text,
    /// Byte strings.
    Bytes,
    /// Texts, of which some are missing: one byte stands before those that are not.
    OptionalText,
    /// Byte strings, of which some are missing, as of texts.
    OptionalBytes,
    /// Lists of texts, of lists, or of dictionaries of such, as bytes that their type can read.
    Nested(Arc<NestedType>),
}

/// The columns of a schema that are read, and the fields that they become: that of the values of each, and behind it those
/// of its masks, if it has any.
#[derive(Debug)]
pub(in crate::dataset::format) struct Columns {
    leaves: Vec<Leaf>,
    schema: Schema,
    kinds: Vec<ColumnKind>,
    nesting: Nesting,
    decimals: Decimals,
}

impl Columns {
    /// The columns of `schema` that `options` ask for.
    ///
    /// # Errors
    /// In words, with the name of the column: it is not there, or there is no rule for it.
    pub(in crate::dataset::format) fn new(schema: &ArrowSchema, options: &ColumnarOptions) -> Result<Self, Reason> {
        let all = leaves(schema.fields());
        let mut asked: Vec<usize> = Vec::with_capacity(all.len());
        let mut is_asked = vec![false; all.len()];
        match &options.columns {
            None => asked.extend(0..all.len()),
            Some(columns) => {
                for column in columns {
                    let found = places(&all, column);
                    if found.is_empty() {
                        return Err(unknown(&all, column));
                    }
                    asked.extend(found.into_iter().filter(|&place| !std::mem::replace(&mut is_asked[place], true)));
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
            // A list with anything in it that is not a tensor is made as a whole, where the first of its leaves is.
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
                format!("column `{name}`: {reason}: leave it out by naming the others in `columns`")
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
            nested.ok_or_else(|| format!("there are two columns `{name}`: name the others in `columns`"))?;
            columns.leaves.push(leaf);
        }
        columns.schema = Schema::new(fields);
        Ok(columns)
    }

    /// The fields of a sample.
    pub(in crate::dataset::format) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What each field is.
    pub(in crate::dataset::format) fn kinds(&self) -> &[ColumnKind] {
        &self.kinds
    }

    /// How they are nested.
    pub(in crate::dataset::format) fn nesting(&self) -> &Nesting {
        &self.nesting
    }

    /// The places of the leaves that are read, among all of the schema, depth first.
    pub(in crate::dataset::format) fn leaf_places(&self) -> Vec<usize> {
        self.leaves.iter().flat_map(|leaf| leaf.places.iter().copied()).collect()
    }

    /// The columns of the schema itself in which they lie.
    #[allow(dead_code, reason = "what is read by leaves does not need it")]
    pub(in crate::dataset::format) fn top_level(&self, schema: &ArrowSchema) -> Vec<usize> {
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

    /// The first column that `other`, of another file, has in another form, with words for both; nothing when samples of both
    /// can stand in one batch.
    pub(in crate::dataset::format) fn difference(&self, other: &Self) -> Option<(String, String, String)> {
        for leaf in &self.leaves {
            let same = other.leaves.iter().find(|other| other.path == leaf.path);
            match same {
                Some(same) if leaf.is_like(same) => {}
                Some(same) => return Some((leaf.name(), leaf.describe(), same.describe())),
                None => return Some((leaf.name(), leaf.describe(), "not there".into())),
            }
        }
        let extra = other.leaves.iter().find(|other| !self.leaves.iter().any(|leaf| leaf.path == other.path))?;
        Some((extra.name(), "not there".into(), extra.describe()))
    }
}

/// The lists, by their first leaf, of which something is asked for that no tensor can hold, with all that is asked for of them.
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
