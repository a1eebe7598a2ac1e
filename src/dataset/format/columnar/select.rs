//! Finds the leaves of a schema that column names refer to.

use arrow_schema::{DataType, FieldRef, Fields};

use super::{ColumnarOptions, NullRule, Reason};

/// A column without children, in a schema.
#[derive(Debug, Clone)]
pub(super) struct Found<'a> {
    /// The names on the path to it. Lists do not add a name.
    pub(super) path: Vec<String>,
    /// Its index among all leaves, in depth-first order.
    pub(super) leaf: usize,
    /// The type of its values.
    pub(super) values: &'a DataType,
    /// True if it is a list of any length, or inside of one.
    pub(super) is_list: bool,
    /// True if it, or anything that contains it, may be null.
    pub(super) is_nullable: bool,
    /// The outermost list that contains it.
    pub(super) outer: Option<Outer<'a>>,
    /// True if one field can hold it: it is in no such list, or it holds numbers in only one.
    pub(super) is_plain: bool,
}

/// A list that is not in another one.
#[derive(Debug, Clone)]
pub(super) struct Outer<'a> {
    /// The number of names on the path to it.
    pub(super) names: usize,
    /// The index of its first leaf.
    pub(super) leaf: usize,
    /// Its type.
    pub(super) of: &'a DataType,
}

/// Returns all leaves, in the order of the schema.
pub(super) fn leaves(fields: &Fields) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    let mut leaf = 0;
    let root = Walk { path: Vec::new(), lists: 0, is_nullable: false, outer: None };
    fields.iter().for_each(|field| root.field(field, &mut leaf, &mut found));
    found
}

#[derive(Clone)]
struct Walk<'a> {
    path: Vec<String>,
    /// The number of enclosing lists that are not an axis of a tensor.
    lists: usize,
    is_nullable: bool,
    outer: Option<Outer<'a>>,
}

impl<'a> Walk<'a> {
    fn field(&self, field: &'a FieldRef, leaf: &mut usize, found: &mut Vec<Found<'a>>) {
        let mut inner = self.clone();
        inner.path.push(field.name().clone());
        inner.is_nullable |= field.is_nullable();
        inner.values(field.data_type(), leaf, found);
    }

    fn values(&self, values: &'a DataType, leaf: &mut usize, found: &mut Vec<Found<'a>>) {
        match values {
            DataType::Struct(fields) if !fields.is_empty() => {
                fields.iter().for_each(|field| self.field(field, leaf, found));
            }
            DataType::List(item) | DataType::LargeList(item) => self.list(values, item, 1, leaf, found),
            // Counts as two, so that its leaves are never plain.
            DataType::FixedSizeList(item, _) if !is_array(item) => self.list(values, item, 2, leaf, found),
            _ => {
                let Self { path, lists, is_nullable, outer } = self.clone();
                let may_be_null = |item: &FieldRef| item.is_nullable();
                let is_nullable =
                    is_nullable || matches!(values, DataType::FixedSizeList(item, _) if may_be_null(item));
                let is_plain = lists == 0 || lists == 1 && !is_string(values);
                found.push(Found { path, leaf: *leaf, values, is_list: lists > 0, is_nullable, outer, is_plain });
                *leaf += count(values);
            }
        }
    }

    fn list(
        &self,
        values: &'a DataType,
        item: &'a FieldRef,
        lists: usize,
        leaf: &mut usize,
        found: &mut Vec<Found<'a>>,
    ) {
        let mut inner = self.clone();
        inner.lists += lists;
        inner.is_nullable |= item.is_nullable();
        inner.outer.get_or_insert(Outer { names: self.path.len(), leaf: *leaf, of: values });
        inner.values(item.data_type(), leaf, found);
    }
}

/// True if fixed-size lists of such items are rows of a tensor.
fn is_array(item: &FieldRef) -> bool {
    match item.data_type() {
        DataType::FixedSizeList(item, _) => is_array(item),
        of => !of.is_nested() && !is_string(of),
    }
}

/// True for strings and byte strings.
fn is_string(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => is_string(values),
        of => of.is_string() || of.is_binary(),
    }
}

/// Returns the null rule for `path`: that of the innermost named column, with its name, or else the general one.
pub(super) fn rule_at<'a>(path: &[String], options: &'a ColumnarOptions) -> Option<(&'a NullRule, Option<&'a str>)> {
    let named = options.nulls.iter().filter_map(|(name, nulls)| Some((name.as_deref()?, nulls)));
    let named = named.filter(|(name, _)| starts_with(path, name)).max_by_key(|(name, _)| name.len());
    let all = || options.nulls.iter().find(|(name, _)| name.is_none()).map(|(_, nulls)| (nulls, None));
    named.map(|(name, nulls)| (nulls, Some(name))).or_else(all)
}

/// Returns the number of leaves of a schema.
pub(crate) fn count_leaves(fields: &Fields) -> usize {
    fields.iter().map(|field| count(field.data_type())).sum()
}

/// Returns the field of leaf `leaf` of a schema; inside of a list, that of the list.
pub(crate) fn field_of_leaf(fields: &Fields, mut leaf: usize) -> Option<&FieldRef> {
    for field in fields {
        match field.data_type() {
            of if leaf >= count(of) => leaf -= count(of),
            DataType::Struct(parts) => return field_of_leaf(parts, leaf),
            _ => return Some(field),
        }
    }
    None
}

/// Returns the number of leaves of a type.
pub(super) fn count(values: &DataType) -> usize {
    match values {
        DataType::Struct(fields) => fields.iter().map(|field| count(field.data_type())).sum(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| count(field.data_type())).sum(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => count(item.data_type()),
        _ => 1,
    }
}

/// Returns the indices in `all` that `column` refers to: the leaf itself, or all leaves nested in it.
pub(super) fn places(all: &[Found<'_>], column: &str) -> Vec<usize> {
    let within = |found: &Found<'_>| starts_with(&found.path, column);
    all.iter().enumerate().filter(|(_, found)| within(found)).map(|(place, _)| place).collect()
}

/// True if the names of `path` begin with those of `column`, which are joined by dots, and may contain dots.
pub(super) fn starts_with(path: &[String], column: &str) -> bool {
    let Some((name, rest)) = path.split_first() else { return false };
    match column.strip_prefix(name.as_str()) {
        Some("") => true,
        Some(after) => after.strip_prefix('.').is_some_and(|inner| starts_with(rest, inner)),
        None => false,
    }
}

/// The reason for a column that does not exist.
pub(super) fn unknown(all: &[Found<'_>], column: &str) -> Reason {
    let mut names: Vec<String> = Vec::new();
    for found in all {
        let name = found.path.join(".");
        if names.len() < 20 && !names.contains(&name) {
            names.push(name);
        }
    }
    format!("there is no column `{column}`; the columns are {names:?}")
}
