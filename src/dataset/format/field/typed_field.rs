//! [`TypedField`]: a field that parsed text or bytes are converted to.

use super::nested_type::NestedType;
use crate::{DType, Error, Field, Result};

/// What the bytes of a field represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Numbers of the field's data type.
    Number,
    /// A UTF-8 string, whose bytes are the elements.
    Text,
    /// Any bytes.
    Bytes,
    /// The text of a JSON value. Null is a value, too, unless the field has a default, which replaces it.
    Json,
    /// Any number of UTF-8 strings, encoded as a list of [`NestedType::Text`].
    Texts,
    /// Any number of byte strings, encoded as a list of [`NestedType::Bytes`].
    ByteStrings,
}

impl Content {
    /// True if it is a list of strings or byte strings.
    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::Texts | Self::ByteStrings)
    }
}

/// A field of a parsed sample: its name there, the field that it becomes, and its default if it is missing.
///
/// # Example
/// ```
/// use sluicegate::{DType, Field, TypedField};
/// let label = TypedField::number(Field::new("label", DType::Int64, [])).unwrap();
/// let label = label.or(i64::to_ne_bytes(-1).to_vec()).unwrap();
/// let text = TypedField::text("text");
/// assert_eq!((label.field().name(), text.field().to_string().as_str()), ("label", "text: uint8[*]"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedField {
    field: Field,
    content: Content,
    default: Option<Vec<u8>>,
}

impl TypedField {
    /// Numbers: one, as many as the shape says, or, in a variable field, any number.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a data type that text can't be converted to: 16-bit and 8-bit floats, and complex
    /// numbers.
    pub fn number(field: Field) -> Result<Self> {
        use DType::{Bool, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        match field.dtype() {
            Bool | UInt8 | Int8 | UInt16 | Int16 | UInt32 | Int32 | UInt64 | Int64 | Float32 | Float64 => {
                Ok(Self { field, content: Content::Number, default: None })
            }
            dtype => Err(Error::invalid(
                "fields",
                format!("`{}`: {dtype} is not supported; read float32 and convert the batch", field.name()),
            )),
        }
    }

    /// Numbers of any data type, copied unchanged.
    #[must_use]
    pub fn plain(field: Field) -> Self {
        Self { field, content: Content::Number, default: None }
    }

    /// A UTF-8 string.
    pub fn text(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::Text, default: None }
    }

    /// Bytes, unchanged.
    pub fn bytes(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::Bytes, default: None }
    }

    /// The text of a JSON value.
    pub fn json(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::Json, default: None }
    }

    /// Any number of UTF-8 strings.
    pub fn texts(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::Texts, default: None }
    }

    /// Any number of byte strings.
    pub fn byte_strings(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::ByteStrings, default: None }
    }

    /// Sets the default for samples that lack the field: its bytes, as in a batch.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if their number does not fit the field, or they are not a valid list.
    pub fn or(self, default: Vec<u8>) -> Result<Self> {
        let (bytes, size) = (default.len(), self.field.bytes());
        let fits = match self.field.is_variable() {
            true => size == 0 || bytes.is_multiple_of(size),
            false => bytes == size,
        };
        if !fits {
            let reason = format!("{} bytes were given for {}, whose elements have {size} bytes", bytes, self.field);
            return Err(Error::invalid("defaults", reason));
        }
        if self.content.is_list() && NestedType::List(Box::new(NestedType::Bytes)).value(&default).is_none() {
            return Err(Error::invalid("defaults", format!("`{}`: the default is not a list", self.field.name())));
        }
        Ok(Self { default: Some(default), ..self })
    }

    /// The field that it becomes.
    #[must_use]
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// What its bytes represent.
    #[doc(hidden)]
    #[must_use]
    pub fn content(&self) -> Content {
        self.content
    }

    /// The bytes used for it if it is missing.
    #[must_use]
    pub fn default(&self) -> Option<&[u8]> {
        self.default.as_deref()
    }
}
