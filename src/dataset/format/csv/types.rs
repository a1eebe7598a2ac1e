//! The types of columns, inferred from the first rows.

use crate::dataset::format::field::number::Number;
use crate::dataset::format::field::typed_field::TypedField;
use crate::{DType, Error, Field, Result};

/// The type that fits all cells of a column so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Integer,
    Float,
    Text,
}

/// The state of type inference.
pub(crate) struct Inference<'a> {
    names: &'a [String],
    /// Per column: the text to use for an empty cell.
    defaults: Vec<Option<&'a str>>,
    /// Per column; `None` until a cell or a default has determined it.
    kinds: Vec<Option<Kind>>,
    unknown: Option<&'a str>,
}

fn kind_of(text: &[u8]) -> Kind {
    let Ok(text) = std::str::from_utf8(text) else { return Kind::Text };
    let is = |dtype| Number::parse(text, dtype).is_some();
    match (is(DType::Int64), is(DType::Float64)) {
        (true, _) => Kind::Integer,
        (_, true) => Kind::Float,
        _ => Kind::Text,
    }
}

impl<'a> Inference<'a> {
    pub(crate) fn new(names: &'a [String], defaults: &'a [(String, String)]) -> Self {
        let default = |name: &String| defaults.iter().find(|(of, _)| of == name).map(|(_, text)| text.as_str());
        let defaults_by_column: Vec<_> = names.iter().map(default).collect();
        let kinds = defaults_by_column.iter().map(|text| text.map(|text| kind_of(text.as_bytes()))).collect();
        let unknown = defaults.iter().find(|(of, _)| !names.contains(of)).map(|(of, _)| of.as_str());
        Self { names, defaults: defaults_by_column, kinds, unknown }
    }

    /// Takes one more cell of column `column` into account.
    pub(crate) fn see(&mut self, column: usize, cell: &[u8]) {
        let Some(kind) = self.kinds.get_mut(column) else { return };
        if cell.is_empty() && self.defaults[column].is_some() || *kind == Some(Kind::Text) {
            return;
        }
        *kind = (*kind).max(Some(kind_of(cell)));
    }

    /// Returns the fields of the columns. A column of unknown type holds strings.
    pub(crate) fn fields(self) -> Result<Vec<TypedField>> {
        if let Some(name) = self.unknown {
            let reason = format!("there is no column `{name}`; the columns are {:?}", self.names);
            return Err(Error::invalid("defaults", reason));
        }
        let columns = self.names.iter().zip(self.kinds).zip(self.defaults);
        columns.map(|((name, kind), default)| field(name, kind.unwrap_or(Kind::Text), default)).collect()
    }
}

fn field(name: &str, kind: Kind, default: Option<&str>) -> Result<TypedField> {
    let dtype = match kind {
        Kind::Integer => DType::Int64,
        Kind::Float => DType::Float64,
        Kind::Text => {
            let text = TypedField::text(name);
            return default.map_or(Ok(text.clone()), |default| text.or(default.as_bytes().to_vec()));
        }
    };
    let typed = TypedField::number(Field::new(name, dtype, []))?;
    let Some(default) = default else { return Ok(typed) };
    let mut bytes = Vec::new();
    let refuse = |reason| Error::invalid("defaults", reason);
    let number = Number::parse(default, dtype).ok_or_else(|| refuse(format!("{default:?} is not a valid {dtype}")))?;
    number.push(dtype, &mut bytes).map_err(refuse)?;
    typed.or(bytes)
}
