//! Fields that are parsed, as passed from Python.

use sluicegate::internal::Content;
use sluicegate::{Error, Field, Result, TypedField};

/// (name, dtype, shape, is variable, content, default as bytes).
pub(crate) type TypedForm = (String, String, Vec<usize>, bool, String, Option<Vec<u8>>);

/// Converts `forms` to the core's fields.
pub(crate) fn typed_fields(forms: Vec<TypedForm>) -> Result<Vec<TypedField>> {
    let typed = |(name, dtype, shape, is_variable, content, default): TypedForm| {
        let typed = match content.as_str() {
            "number" if is_variable => TypedField::number(Field::variable(name, dtype.parse()?, shape))?,
            "number" => TypedField::number(Field::new(name, dtype.parse()?, shape))?,
            "text" => TypedField::text(name),
            "bytes" => TypedField::bytes(name),
            "json" => TypedField::json(name),
            "texts" => TypedField::texts(name),
            "byte strings" => TypedField::byte_strings(name),
            other => {
                return Err(Error::InvalidArgument {
                    argument: "fields",
                    reason: format!("`{name}`: unknown content `{other}` of a field"),
                });
            }
        };
        default.map_or(Ok(typed.clone()), |default| typed.or(default))
    };
    forms.into_iter().map(typed).collect()
}

/// Returns what `typed` holds: "number", "numbers" (any count), "text", "bytes", "json", "texts", or "byte strings".
pub(crate) fn content_of(typed: &TypedField) -> &'static str {
    match typed.content() {
        Content::Number if typed.field().is_variable() => "numbers",
        Content::Number => "number",
        Content::Text => "text",
        Content::Bytes => "bytes",
        Content::Json => "json",
        Content::Texts => "texts",
        Content::ByteStrings => "byte strings",
    }
}
