//! Decodes the features of a `tf.train.Example` into columns.

use super::example::{Feature, Kind, features};
use crate::dataset::format::field::decoding::{Decoded, DecodedColumn};
use crate::dataset::format::field::nested_type::len_bytes;
use crate::dataset::format::field::number::Number;
use crate::dataset::format::field::typed_field::{Content, TypedField};
use crate::{DType, Field};

/// Fills the columns of `fields` with the features of the same names in `example`, or with their defaults.
pub(super) fn read_features(example: &[u8], fields: &[TypedField], into: &mut Decoded) -> Result<(), String> {
    let mut found: Vec<Option<Feature<'_>>> = vec![None; fields.len()];
    features(example, |name, feature| {
        if let Some(number) = fields.iter().position(|typed| typed.field().name() == name) {
            // The last of duplicate entries counts.
            found[number] = Some(feature);
        }
        Ok(())
    })
    .map_err(|reason| format!("not a tf.train.Example: {reason}"))?;
    for (number, (typed, feature)) in fields.iter().zip(found).enumerate() {
        let column = into.column(number);
        let feature = feature.filter(|feature| feature.kind().is_some());
        let name = typed.field().name();
        match (feature, typed.default()) {
            (Some(feature), _) => {
                fill(&feature, typed, column).map_err(|reason| format!("feature `{name}`: {reason}"))?;
            }
            (None, Some(default)) => column.bytes.extend(default),
            (None, None) => return Err(format!("feature `{name}` is missing or empty, and has no default")),
        }
    }
    Ok(())
}

fn fill(feature: &Feature<'_>, typed: &TypedField, column: &mut DecodedColumn) -> Result<(), String> {
    let dtype = typed.field().dtype();
    match (typed.content(), feature.kind()) {
        (Content::Number, Some(Kind::Integers)) => feature.integers(|number| {
            // The format has no boolean type.
            let number = match (dtype, number) {
                (DType::Bool, 0 | 1) => Number::Bool(number == 1),
                _ => Number::Signed(number),
            };
            number.push(dtype, &mut column.bytes)
        }),
        (Content::Number, Some(Kind::Floats)) => {
            feature.floats(|number| Number::Float(f64::from(number)).push(dtype, &mut column.bytes))
        }
        (Content::Number, _) => raw_numbers(feature, typed.field(), column),
        (Content::Texts | Content::ByteStrings, Some(Kind::Bytes)) => byte_strings(feature, typed.content(), column),
        (content, Some(Kind::Bytes)) => {
            let count = feature.count(1)?;
            if count != 1 {
                let more = if count > 1 { "more than one byte string" } else { "no byte string" };
                return Err(format!("expected one byte string, got {more}; declare a list to accept any number"));
            }
            feature.bytes(|bytes| {
                if content == Content::Text && std::str::from_utf8(bytes).is_err() {
                    return Err("it is not UTF-8 text; read it as bytes".into());
                }
                column.bytes.extend(bytes);
                Ok(())
            })
        }
        (_, Some(Kind::Floats)) => Err("expected bytes, got floats".into()),
        (_, _) => Err("expected bytes, got integers".into()),
    }
}

/// Writes any number of byte strings as a nested list without nulls.
fn byte_strings(feature: &Feature<'_>, content: Content, column: &mut DecodedColumn) -> Result<(), String> {
    column.bytes.push(0);
    column.bytes.extend(len_bytes(feature.count(usize::MAX)?)?);
    column.bytes.push(0);
    let mut place = 0;
    feature.bytes(|bytes| {
        if content == Content::Texts && std::str::from_utf8(bytes).is_err() {
            return Err(format!("[{place}] is not UTF-8 text; read it as bytes"));
        }
        place += 1;
        column.bytes.extend(len_bytes(bytes.len())?);
        column.bytes.extend(bytes);
        Ok(())
    })
}

/// Writes byte strings that contain the elements of an array, little-endian, like `tf.io.decode_raw`.
fn raw_numbers(feature: &Feature<'_>, field: &Field, column: &mut DecodedColumn) -> Result<(), String> {
    let size = field.dtype().bytes();
    feature.bytes(|bytes| {
        if !bytes.len().is_multiple_of(size) {
            return Err(format!("{} bytes are not a whole number of elements of {}", bytes.len(), field.dtype()));
        }
        if field.dtype() == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err("a byte is neither 0 nor 1, so it is not a bool".into());
        }
        let start = column.bytes.len();
        column.bytes.extend(bytes);
        if cfg!(target_endian = "big") {
            column.bytes[start..].chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        Ok(())
    })
}

/// Fails if `example` is not a `tf.train.Example`.
pub(super) fn check_features(example: &[u8]) -> Result<(), String> {
    let mut checked = Ok(());
    features(example, |_, feature| {
        checked = std::mem::replace(&mut checked, Ok(())).and_then(|()| feature.count(1).map(drop));
        Ok(())
    })?;
    checked
}

/// The features found in some samples so far.
#[derive(Default)]
pub(crate) struct Inference {
    /// By name, sorted: their type, whether each sample had exactly one value, and how many samples had them.
    found: std::collections::BTreeMap<String, (Kind, bool, usize)>,
    samples: usize,
}

impl Inference {
    /// Takes one more sample into account.
    pub(crate) fn see(&mut self, example: &[u8]) -> Result<(), String> {
        let mut found_features = std::collections::BTreeMap::new();
        features(example, |name, feature| {
            found_features.insert(name, feature);
            Ok(())
        })
        .map_err(|reason| format!("not a tf.train.Example: {reason}"))?;
        self.samples += 1;
        for (name, feature) in found_features {
            let Some(kind) = feature.kind() else { continue };
            let is_one = feature.count(1).map_err(|reason| format!("feature `{name}`: {reason}"))? == 1;
            let (before, one, samples) = self.found.entry(name.to_owned()).or_insert((kind, true, 0));
            if *before != kind {
                return Err(format!(
                    "feature `{name}` holds {before:?} in an earlier sample, but {kind:?} here; declare its type"
                ));
            }
            *one &= is_one;
            *samples += 1;
        }
        Ok(())
    }

    /// Returns the inferred fields.
    pub(crate) fn fields(self) -> Result<Vec<TypedField>, String> {
        let typed = |(name, (kind, is_one, samples)): (String, (Kind, bool, usize))| {
            if samples < self.samples {
                return Err(format!(
                    "feature `{name}` is in only {samples} of the first {} samples; declare the features, and a \
                     default for this one",
                    self.samples
                ));
            }
            let dtype = if kind == Kind::Integers { DType::Int64 } else { DType::Float32 };
            let field = if is_one { Field::new(&*name, dtype, []) } else { Field::variable(&*name, dtype, []) };
            match kind {
                Kind::Bytes if is_one => Ok(TypedField::bytes(name)),
                Kind::Bytes => Ok(TypedField::byte_strings(name)),
                _ => TypedField::number(field).map_err(|error| error.to_string()),
            }
        };
        self.found.into_iter().map(typed).collect()
    }
}
