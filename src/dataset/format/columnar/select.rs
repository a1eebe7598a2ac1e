//! Which leaves of a schema are meant by the names of columns.

use arrow_schema::{DataType, FieldRef, Fields};

use super::Reason;

/// A column without children, as it is found in a schema.
#[derive(Debug, Clone)]
pub(super) struct Found<'a> {
    /// The names that lead to it. Lists have none for what is in them.
    pub(super) path: Vec<String>,
    /// Its place among all leaves, depth first.
    pub(super) leaf: usize,
    /// The type of its values.
    pub(super) values: &'a DataType,
    /// Whether it is (or lies) in a list of any length.
    pub(super) is_list: bool,
    /// Whether it, or what it lies in, may be null.
    pub(super) is_nullable: bool,
}

/// All leaves, in the order of the schema.
pub(super) fn leaves(fields: &Fields) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    let mut leaf = 0;
    let root = Walk { path: Vec::new(), is_list: false, is_nullable: false };
    fields.iter().for_each(|field| root.field(field, &mut leaf, &mut found));
    found
}

struct Walk {
    path: Vec<String>,
    is_list: bool,
    is_nullable: bool,
}

impl Walk {
    fn field<'a>(&self, field: &'a FieldRef, leaf: &mut usize, found: &mut Vec<Found<'a>>) {
        let mut path = self.path.clone();
        path.push(field.name().clone());
        let here = Self { path, is_list: self.is_list, is_nullable: self.is_nullable || field.is_nullable() };
        here.values(field.data_type(), leaf, found);
    }

    fn values<'a>(&self, values: &'a DataType, leaf: &mut usize, found: &mut Vec<Found<'a>>) {
        match values {
            DataType::Struct(fields) if !fields.is_empty() => {
                fields.iter().for_each(|field| self.field(field, leaf, found));
            }
            DataType::List(item) | DataType::LargeList(item) if !self.is_list => {
                let path = self.path.clone();
                let here = Self { path, is_list: true, is_nullable: self.is_nullable || item.is_nullable() };
                here.values(item.data_type(), leaf, found);
            }
            _ => {
                let Self { path, is_list, is_nullable } = self;
                let may_be_null = |item: &FieldRef| item.is_nullable();
                let is_nullable =
                    *is_nullable || matches!(values, DataType::FixedSizeList(item, _) if may_be_null(item));
                found.push(Found { path: path.clone(), leaf: *leaf, values, is_list: *is_list, is_nullable });
                *leaf += count(values);
            }
        }
    }
}

/// How many leaves a schema has.
pub(in crate::dataset::format) fn count_leaves(fields: &Fields) -> usize {
    fields.iter().map(|field| count(field.data_type())).sum()
}

/// How many leaves a type has.
fn count(values: &DataType) -> usize {
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

/// The places in `all` that `column` stands for: the leaf itself, or all that are nested in it.
pub(super) fn places(all: &[Found<'_>], column: &str) -> Vec<usize> {
    let within = |found: &Found<'_>| starts_with(&found.path, column);
    all.iter().enumerate().filter(|(_, found)| within(found)).map(|(place, _)| place).collect()
}

/// Whether the names of `path` begin with those of `column`, in which points stand between them, and maybe in them.
pub(super) fn starts_with(path: &[String], column: &str) -> bool {
    let Some((name, rest)) = path.split_first() else { return false };
    match column.strip_prefix(name.as_str()) {
        Some("") => true,
        Some(behind) => behind.strip_prefix('.').is_some_and(|inner| starts_with(rest, inner)),
        None => false,
    }
}

/// What to say of a column that is not there.
pub(super) fn unknown(all: &[Found<'_>], column: &str) -> Reason {
    let mut names: Vec<String> = Vec::new();
    for found in all {
        let name = found.path.join(".");
        if names.len() < 20 && !names.contains(&name) {
            names.push(name);
        }
    }
    format!("there is no column `{column}`, but {names:?}")
}
