//! [`Nested`]: a column of lists that no tensor can hold, with a null rule for each level.

use arrow_schema::{DataType, FieldRef};

use super::leaf::{LeafNulls, fill_bytes};
use super::nested_type::NestedType;
use super::rule::{Rule, rule_of};
use super::select::{Found, count, rule_at};
use super::{ColumnarOptions, NullRule, Reason, Strings};
use crate::DType;

/// Maximum nesting depth of a column: each level takes stack space, and deeper columns are unlikely.
const DEEPEST: usize = 64;

/// A level of a nested column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nested {
    pub(super) contents: LevelContents,
    /// How nulls are handled. A null list is filled by an empty list, and a null dictionary by the fills of its parts.
    pub(super) nulls: LeafNulls,
}

/// The contents of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LevelContents {
    Number(DType),
    Text,
    Bytes,
    /// Of any length, or of a fixed one.
    List(Box<Nested>),
    Dict(Vec<(String, Nested)>),
}

impl Nested {
    /// Creates the outermost list that contains `found`, with its leaves for which `is_selected` returns true.
    pub(super) fn new(
        found: &Found<'_>,
        options: &ColumnarOptions,
        is_selected: &dyn Fn(usize) -> bool,
    ) -> Result<Self, Reason> {
        let outer = found.outer.as_ref().ok_or("it is not a list")?;
        let path = found.path[..outer.names].to_vec();
        let mut builder = Builder { options, is_selected, leaf: outer.leaf, path };
        builder.level(outer.of, 0)?.ok_or_else(|| "none of its parts is selected".into())
    }

    /// Returns the type of its values.
    pub(super) fn as_type(&self) -> NestedType {
        match &self.contents {
            LevelContents::Number(dtype) => NestedType::Number(*dtype),
            LevelContents::Text => NestedType::Text,
            LevelContents::Bytes => NestedType::Bytes,
            LevelContents::List(item) => NestedType::List(Box::new(item.as_type())),
            LevelContents::Dict(parts) => {
                NestedType::Dict(parts.iter().map(|(name, part)| (name.clone(), part.as_type())).collect())
            }
        }
    }

    fn is_filled(&self) -> bool {
        matches!(self.nulls, LeafNulls::Fill(_))
    }
}

struct Builder<'a> {
    options: &'a ColumnarOptions,
    is_selected: &'a dyn Fn(usize) -> bool,
    /// The index of the next leaf.
    leaf: usize,
    /// The names on the path to the current level.
    path: Vec<String>,
}

impl Builder<'_> {
    fn level(&mut self, of: &DataType, depth: usize) -> Result<Option<Nested>, Reason> {
        if depth > DEEPEST {
            return Err(format!("it is nested more than {DEEPEST} levels deep"));
        }
        let contents = match of {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                let item = self.level(item.data_type(), depth + 1)?;
                item.map(|item| LevelContents::List(Box::new(item)))
            }
            DataType::Struct(fields) if !fields.is_empty() => {
                let mut parts: Vec<(String, Nested)> = Vec::new();
                for field in fields {
                    self.part(field, depth, &mut parts)?;
                }
                Some(parts).filter(|parts| !parts.is_empty()).map(LevelContents::Dict)
            }
            of => {
                let leaf = self.leaf;
                self.leaf += count(of);
                return if (self.is_selected)(leaf) { self.innermost(of).map(Some) } else { Ok(None) };
            }
        };
        let Some(contents) = contents else { return Ok(None) };
        let nulls = self.nulls_of(&contents)?;
        Ok(Some(Nested { contents, nulls }))
    }

    fn part(&mut self, field: &FieldRef, depth: usize, parts: &mut Vec<(String, Nested)>) -> Result<(), Reason> {
        self.path.push(field.name().clone());
        let part = self.level(field.data_type(), depth + 1)?;
        self.path.pop();
        let Some(part) = part else { return Ok(()) };
        if parts.iter().any(|(name, _)| name == field.name()) {
            return Err(format!("two of its parts are named `{}`", field.name()));
        }
        parts.push((field.name().clone(), part));
        Ok(())
    }

    fn innermost(&self, of: &DataType) -> Result<Nested, Reason> {
        let rule = rule_of(of, self.options.decimals)?.rule;
        let nulls = match rule_at(&self.path, self.options) {
            Some((NullRule::Mask | NullRule::MaskElements, _)) => LeafNulls::Mask,
            Some((NullRule::Fill(value), name)) => match fill_bytes(value, &rule) {
                Some(bytes) => LeafNulls::Fill(bytes),
                None if name.is_some_and(|name| name == self.path.join(".")) => {
                    return Err(format!("nulls: {value:?} is not a valid value of `{}`", self.path.join(".")));
                }
                None => LeafNulls::Refuse,
            },
            Some((NullRule::Refuse, _)) | None => LeafNulls::Refuse,
        };
        let contents = match rule {
            Rule::Fixed { dtype, shape, .. } if shape.is_empty() => LevelContents::Number(dtype),
            Rule::Text if self.options.strings == Strings::Objects => LevelContents::Text,
            Rule::Text | Rule::Bytes | Rule::FixedBytes(_) => LevelContents::Bytes,
            Rule::Fixed { .. } | Rule::Nested(_) => {
                return Err(format!("values of type {of} are not supported in a list"));
            }
        };
        Ok(Nested { contents, nulls })
    }

    /// Returns how nulls of a list or dictionary are handled.
    fn nulls_of(&self, contents: &LevelContents) -> Result<LeafNulls, Reason> {
        let is_filled = match contents {
            LevelContents::List(item) => item.is_filled(),
            LevelContents::Dict(parts) => parts.iter().any(|(_, part)| part.is_filled()),
            _ => false,
        };
        Ok(match rule_at(&self.path, self.options) {
            Some((NullRule::Mask | NullRule::MaskElements, _)) => LeafNulls::Mask,
            Some((NullRule::Fill(_), _)) if is_filled => LeafNulls::Fill(Vec::new()),
            Some((NullRule::Fill(value), Some(name))) if name == self.path.join(".") => {
                return Err(format!("nulls: {value:?} is not a valid value of the column's type"));
            }
            _ => LeafNulls::Refuse,
        })
    }
}
