//! [`TypedField`]: a field that some text or some bytes are turned into.

use super::nested_type::NestedType;
use crate::{DType, Error, Field, Result};

/// What the bytes of a field stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Numbers of the field's data type.
    Number,
    /// A text in UTF-8, whose bytes are the elements.
    Text,
    /// Any bytes.
    Bytes,
    /// The text of a JSON value. Null is one, unless the field has a default, which takes its place.
    Json,
    /// Any number of texts in UTF-8, as the bytes that [`NestedType`] says of a list of [`NestedType::Text`].
    Texts,
    /// Any number of byte strings, as the bytes that [`NestedType`] says of a list of [`NestedType::Bytes`].
    ByteStrings,
}

impl Content {
    /// True if it is a list of texts or of byte strings.
    pub(in crate::dataset::format) fn is_list(self) -> bool {
        matches!(self, Self::Texts | Self::ByteStrings)
    }
}

/// A field of a sample that is parsed: its name there, what it becomes, and what stands for it where it is missing.
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
    /// Numbers: one, as many as the shape says, or, in a variable field, any number of them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a data type that texts are not turned into: those of half and of a quarter of a float,
    /// and complex numbers.
    pub fn number(field: Field) -> Result<Self> {
        use DType::{Bool, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        match field.dtype() {
            Bool | UInt8 | Int8 | UInt16 | Int16 | UInt32 | Int32 | UInt64 | Int64 | Float32 | Float64 => {
                Ok(Self { field, content: Content::Number, default: None })
            }
            dtype => Err(Error::InvalidArgument {
                argument: "fields",
                reason: format!(
                    "`{}`: no value is turned into {dtype}: take float32 and convert the batch",
                    field.name()
                ),
            }),
        }
    }

    /// Numbers of any data type, which are copied as they are.
    #[must_use]
    pub fn plain(field: Field) -> Self {
        Self { field, content: Content::Number, default: None }
    }

    /// A text in UTF-8.
    pub fn text(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::Text, default: None }
    }

    /// Bytes as they are.
    pub fn bytes(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::Bytes, default: None }
    }

    /// The text of a JSON value.
    pub fn json(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::Json, default: None }
    }

    /// Any number of texts in UTF-8.
    pub fn texts(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::Texts, default: None }
    }

    /// Any number of byte strings.
    pub fn byte_strings(name: impl Into<String>) -> Self {
        Self { field: Field::variable(name, DType::UInt8, []), content: Content::ByteStrings, default: None }
    }

    /// The same, with the bytes of what stands for it where a sample does not have it, as they are in a batch.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when they are not as many as the field has, no whole number of elements, or no list.
    pub fn or(self, default: Vec<u8>) -> Result<Self> {
        let (bytes, size) = (default.len(), self.field.bytes());
        let fits = match self.field.is_variable() {
            true => size == 0 || bytes.is_multiple_of(size),
            false => bytes == size,
        };
        if !fits {
            let reason = format!("{} bytes are given for {}, of which an element has {size}", bytes, self.field);
            return Err(Error::InvalidArgument { argument: "defaults", reason });
        }
        if self.content.is_list() && NestedType::List(Box::new(NestedType::Bytes)).value(&default).is_none() {
            let reason = format!("`{}`: the given bytes are not a list", self.field.name());
            return Err(Error::InvalidArgument { argument: "defaults", reason });
        }
        Ok(Self { default: Some(default), ..self })
    }

    /// What it becomes.
    #[must_use]
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// What its bytes stand for.
    #[must_use]
    pub fn content(&self) -> Content {
        self.content
    }

    /// The bytes that stand for it where it is missing.
    #[must_use]
    pub fn default(&self) -> Option<&[u8]> {
        self.default.as_deref()
    }
}
