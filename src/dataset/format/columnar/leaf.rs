//! [`Leaf`]: a column without children that is read, and what it becomes.

use std::sync::Arc;

use super::nested::Nested;
use super::rule::{Meaning, Rule};
use super::select::{Found, rule_at};
use super::{ColumnarOptions, FillValue, NullRule, Reason, Strings};
use crate::{DType, Field};

/// What becomes of the nulls of one leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeafNulls {
    Refuse,
    Mask,
    /// Of lists and arrays: as `Mask`, and their elements too.
    MaskElements,
    /// The bytes of an element, or of a whole byte string.
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
    /// Byte strings with one byte more before each; nothing at all for what is missing.
    OptionalStrings,
    /// The bytes of values of a nested column, which tell nulls themselves.
    Nested,
}

/// A column without children, and what it becomes.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    /// Its place among all leaves of the schema; of a nested column those of all leaves in it that are read.
    pub(super) places: Vec<usize>,
    pub(super) meaning: Meaning,
    pub(super) form: Form,
    pub(super) nulls: LeafNulls,
    /// True if byte strings become objects.
    pub(super) strings: Strings,
}

impl Leaf {
    /// What `found` becomes.
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

    /// What the list becomes that `found` is the first leaf of, of whose leaves those at `places` are read.
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

    /// The field of its values.
    pub(super) fn field(&self) -> Field {
        let name = self.name();
        match (&self.meaning.rule, self.form) {
            (Rule::Fixed { dtype, shape, .. }, Form::List) => Field::variable(name, *dtype, shape.clone()),
            (Rule::Fixed { dtype, shape, .. }, _) => Field::new(name, *dtype, shape.clone()),
            (Rule::FixedBytes(bytes), Form::Fixed) => Field::new(name, DType::UInt8, [*bytes]),
            _ => Field::variable(name, DType::UInt8, []),
        }
    }

    /// The field that says where there is a value, if one marks the nulls.
    pub(super) fn mask(&self) -> Option<Field> {
        let is_masked =
            matches!(self.nulls, LeafNulls::Mask | LeafNulls::MaskElements) && self.form != Form::OptionalStrings;
        is_masked.then(|| Field::new(format!("{}.valid", self.name()), DType::Bool, []))
    }

    /// The field that says which elements there are, if there is one: as many booleans as there are numbers.
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

    /// How many fields it becomes: that of its values, and behind it those of its masks.
    pub(super) fn fields(&self) -> usize {
        1 + usize::from(self.mask().is_some()) + usize::from(self.nulls == LeafNulls::MaskElements)
    }

    /// What the values are, in words, for the error of files that differ.
    pub(super) fn describe(&self) -> String {
        let unit = if self.meaning.unit.is_empty() { String::new() } else { format!(" ({})", self.meaning.unit) };
        let what = match &self.meaning.rule {
            Rule::Fixed { dtype, shape, .. } if shape.is_empty() => format!("{dtype}{unit}"),
            Rule::Fixed { dtype, shape, .. } => format!("{dtype}{shape:?}{unit}"),
            Rule::FixedBytes(bytes) => format!("byte strings of {bytes} bytes"),
            Rule::Text => "texts".into(),
            Rule::Bytes => "byte strings".into(),
            Rule::Nested(nested) => nested.as_type().to_string(),
        };
        if self.form == Form::List { format!("lists of {what}") } else { what }
    }

    /// True if the samples of both can be those of one field. The nulls that one may have and the other not do not
    /// matter: the rule of the first one is for both.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.meaning.is_like(&other.meaning) && (self.form == Form::List) == (other.form == Form::List)
    }
}

/// The rule for the nulls of `found`: that of the innermost column that is named, or else the one for all.
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
            None if name.is_some() => Err(format!("nulls: {value:?} is not a value of its type")),
            None => Ok(LeafNulls::Refuse),
        },
    }
}

/// The bytes of `value` as an element of what `rule` makes; nothing when it is none.
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
