//! [`Leaf`]: a column without children, and how it is read.

use std::sync::Arc;

use super::nested::Nested;
use super::rule::{Meaning, Rule};
use super::select::{Found, rule_at};
use super::{ColumnarOptions, FillValue, NullRule, Reason, Strings};
use crate::{DType, Field};

/// How the nulls of a leaf are handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeafNulls {
    Refuse,
    Mask,
    /// For lists and arrays: `Mask`, and an element mask.
    MaskElements,
    /// With the bytes of an element, or of a whole byte string.
    Fill(Vec<u8>),
}

/// How the samples of a leaf are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Samples of one size.
    Fixed,
    /// Elements of one size, any number of them.
    List,
    /// Byte strings.
    Strings,
    /// Byte strings with a prefix byte; missing ones have no bytes at all.
    OptionalStrings,
    /// Encoded values of a nested column, including its nulls.
    Nested,
}

/// A column without children, and how it is read.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    /// Its index among all leaves of the schema; for a nested column, the indices of its leaves that are read.
    pub(super) places: Vec<usize>,
    pub(super) meaning: Meaning,
    pub(super) form: Form,
    pub(super) nulls: LeafNulls,
    /// What strings and byte strings become.
    pub(super) strings: Strings,
}

impl Leaf {
    /// Determines how `found` is read.
    pub(super) fn new(found: &Found<'_>, options: &ColumnarOptions) -> Result<Self, Reason> {
        let meaning = super::rule::rule_of(found.values, options.decimals)?;
        let is_text = matches!(meaning.rule, Rule::Text | Rule::Bytes | Rule::FixedBytes(_));
        let nulls = nulls_of(found, &meaning.rule, options)?;
        let may_be_missing = nulls == LeafNulls::Mask && options.strings == Strings::Objects;
        let form = match meaning.rule {
            Rule::Fixed { .. } if found.is_list => Form::List,
            _ if is_text && may_be_missing => Form::OptionalStrings,
            Rule::Fixed { .. } | Rule::FixedBytes(_) => Form::Fixed,
            Rule::Text | Rule::Bytes => Form::Strings,
            Rule::Nested(_) => Form::Nested,
        };
        let strings = options.strings;
        Ok(Self { path: found.path.clone(), places: vec![found.leaf], meaning, form, nulls, strings })
    }

    /// Determines how the list whose first leaf is `found` is read, of which only the leaves at `places` are requested.
    pub(super) fn nested(found: &Found<'_>, options: &ColumnarOptions, places: Vec<usize>) -> Result<Self, Reason> {
        let nested = Nested::new(found, options, &|place| places.contains(&place))?;
        let names = found.outer.as_ref().map_or(found.path.len(), |outer| outer.names);
        Ok(Self {
            path: found.path[..names].to_vec(),
            places,
            meaning: Meaning { rule: Rule::Nested(Arc::new(nested)), unit: String::new() },
            form: Form::Nested,
            nulls: LeafNulls::Refuse,
            strings: options.strings,
        })
    }

    pub(super) fn name(&self) -> String {
        self.path.join(".")
    }

    /// Returns the field of its values.
    pub(super) fn field(&self) -> Field {
        let name = self.name();
        match (&self.meaning.rule, self.form) {
            (Rule::Fixed { dtype, shape, .. }, Form::List) => Field::variable(name, *dtype, shape.clone()),
            (Rule::Fixed { dtype, shape, .. }, _) => Field::new(name, *dtype, shape.clone()),
            (Rule::FixedBytes(bytes), Form::Fixed) => Field::new(name, DType::UInt8, [*bytes]),
            _ => Field::variable(name, DType::UInt8, []),
        }
    }

    /// Returns the mask field, if nulls are masked.
    pub(super) fn mask(&self) -> Option<Field> {
        let is_masked =
            matches!(self.nulls, LeafNulls::Mask | LeafNulls::MaskElements) && self.form != Form::OptionalStrings;
        is_masked.then(|| Field::new(format!("{}.valid", self.name()), DType::Bool, []))
    }

    /// Returns the element mask field, if there is one: a boolean for each number.
    pub(super) fn element_mask(&self) -> Option<Field> {
        let (Rule::Fixed { shape, .. }, LeafNulls::MaskElements) = (&self.meaning.rule, &self.nulls) else {
            return None;
        };
        let name = format!("{}.valid_elements", self.name());
        match self.form {
            Form::List => Some(Field::variable(name, DType::Bool, shape.clone())),
            _ => Some(Field::new(name, DType::Bool, shape.clone())),
        }
    }

    /// Returns the number of its fields: its values, then its masks.
    pub(super) fn fields(&self) -> usize {
        1 + usize::from(self.mask().is_some()) + usize::from(self.nulls == LeafNulls::MaskElements)
    }

    /// Describes the values, for errors about files that differ.
    pub(super) fn describe(&self) -> String {
        let unit = if self.meaning.unit.is_empty() { String::new() } else { format!(" ({})", self.meaning.unit) };
        let element = match &self.meaning.rule {
            Rule::Fixed { dtype, shape, .. } if shape.is_empty() => format!("{dtype}{unit}"),
            Rule::Fixed { dtype, shape, .. } => format!("{dtype}{shape:?}{unit}"),
            Rule::FixedBytes(bytes) => format!("byte strings of {bytes} bytes"),
            Rule::Text => "texts".into(),
            Rule::Bytes => "byte strings".into(),
            Rule::Nested(nested) => nested.as_type().to_string(),
        };
        if self.form == Form::List { format!("lists of {element}") } else { element }
    }

    /// True if samples of both fit into one field. They may differ in whether they have nulls, since the null rule of
    /// the first one applies to both.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.meaning.is_like(&other.meaning) && (self.form == Form::List) == (other.form == Form::List)
    }
}

/// Returns the null rule of `found`: that of the innermost named column, or else the general one.
fn nulls_of(found: &Found<'_>, rule: &Rule, options: &ColumnarOptions) -> Result<LeafNulls, Reason> {
    let Some((nulls, name)) = rule_at(&found.path, options) else { return Ok(LeafNulls::Refuse) };
    match nulls {
        NullRule::Refuse => Ok(LeafNulls::Refuse),
        NullRule::Mask | NullRule::MaskElements if !found.is_nullable => Ok(LeafNulls::Refuse),
        NullRule::MaskElements => {
            let has_elements = matches!(rule, Rule::Fixed { shape, .. } if found.is_list || !shape.is_empty());
            Ok(if has_elements { LeafNulls::MaskElements } else { LeafNulls::Mask })
        }
        NullRule::Mask => Ok(LeafNulls::Mask),
        NullRule::Fill(value) => match fill_bytes(value, rule) {
            Some(bytes) => Ok(LeafNulls::Fill(bytes)),
            None if name.is_some() => Err(format!("nulls: {value:?} is not a valid value of the column's type")),
            None => Ok(LeafNulls::Refuse),
        },
    }
}

/// Returns the bytes of `value` as an element made by `rule`, or `None` if it can't be one.
pub(super) fn fill_bytes(value: &FillValue, rule: &Rule) -> Option<Vec<u8>> {
    let dtype = match (rule, value) {
        (Rule::Text, FillValue::Text(text)) => return Some(text.as_bytes().to_vec()),
        (Rule::Bytes, FillValue::Bytes(bytes)) => return Some(bytes.clone()),
        (Rule::FixedBytes(len), FillValue::Bytes(bytes)) if bytes.len() == *len => return Some(bytes.clone()),
        (Rule::Fixed { dtype, .. }, _) => *dtype,
        _ => return None,
    };
    macro_rules! int {
        ($number:expr, $type:ty) => {
            <$type>::try_from($number).ok()?.to_ne_bytes().to_vec()
        };
    }
    Some(match (value, dtype) {
        (FillValue::Bool(value), DType::Bool) => vec![u8::from(*value)],
        (FillValue::Int(0), DType::Bool) => vec![0],
        (FillValue::Int(1), DType::Bool) => vec![1],
        (FillValue::Int(number), DType::Int8) => int!(*number, i8),
        (FillValue::Int(number), DType::Int16) => int!(*number, i16),
        (FillValue::Int(number), DType::Int32) => int!(*number, i32),
        (FillValue::Int(number), DType::Int64) => int!(*number, i64),
        (FillValue::Int(number), DType::UInt8) => int!(*number, u8),
        (FillValue::Int(number), DType::UInt16) => int!(*number, u16),
        (FillValue::Int(number), DType::UInt32) => int!(*number, u32),
        (FillValue::Int(number), DType::UInt64) => int!(*number, u64),
        (FillValue::Int(number), dtype) => return float_bytes(*number as f64, dtype),
        (FillValue::Float(number), dtype) => return float_bytes(*number, dtype),
        _ => return None,
    })
}

fn float_bytes(number: f64, dtype: DType) -> Option<Vec<u8>> {
    type Half = <arrow_array::types::Float16Type as arrow_array::ArrowPrimitiveType>::Native;
    Some(match dtype {
        DType::Float16 => Half::from_f64(number).to_ne_bytes().to_vec(),
        DType::Float32 => (number as f32).to_ne_bytes().to_vec(),
        DType::Float64 => number.to_ne_bytes().to_vec(),
        _ => return None,
    })
}
