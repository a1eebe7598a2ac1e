//! [`Number`]: a number from a text, to be converted to a data type.

use crate::DType;

/// A number as it was parsed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl Number {
    /// Appends it to `into` as one element of `dtype`, in native byte order.
    ///
    /// An integer may become a float, rounded if necessary; never the reverse. Nothing wraps around.
    pub(crate) fn push(self, dtype: DType, into: &mut Vec<u8>) -> Result<(), String> {
        macro_rules! integer {
            ($type:ty) => {{
                let number = match self {
                    Self::Signed(value) => <$type>::try_from(value).ok(),
                    Self::Unsigned(value) => <$type>::try_from(value).ok(),
                    Self::Bool(_) | Self::Float(_) => None,
                };
                into.extend(number.ok_or_else(|| self.refusal(dtype))?.to_ne_bytes());
            }};
        }
        match dtype {
            DType::Bool => match self {
                Self::Bool(value) => into.push(u8::from(value)),
                _ => return Err(self.refusal(dtype)),
            },
            DType::UInt8 => integer!(u8),
            DType::Int8 => integer!(i8),
            DType::UInt16 => integer!(u16),
            DType::Int16 => integer!(i16),
            DType::UInt32 => integer!(u32),
            DType::Int32 => integer!(i32),
            DType::UInt64 => integer!(u64),
            DType::Int64 => integer!(i64),
            DType::Float32 => into.extend((self.float(dtype)? as f32).to_ne_bytes()),
            _ => into.extend(self.float(dtype)?.to_ne_bytes()),
        }
        Ok(())
    }

    fn float(self, dtype: DType) -> Result<f64, String> {
        match self {
            Self::Signed(value) => Ok(value as f64),
            Self::Unsigned(value) => Ok(value as f64),
            Self::Float(value) => Ok(value),
            Self::Bool(_) => Err(self.refusal(dtype)),
        }
    }

    fn refusal(self, dtype: DType) -> String {
        let value = match self {
            Self::Bool(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            Self::Float(value) => format!("{value:?}"),
        };
        format!("{value} is not a valid {dtype}")
    }

    /// Parses `text` for an element of `dtype`: digits with an optional sign; for floats also a point, an exponent,
    /// `nan`, `inf` and `infinity`; for booleans `true`, `false`, `1` and `0`; letters in upper or lower case.
    pub(crate) fn parse(text: &str, dtype: DType) -> Option<Self> {
        match dtype {
            DType::Bool if text == "1" || text.eq_ignore_ascii_case("true") => Some(Self::Bool(true)),
            DType::Bool if text == "0" || text.eq_ignore_ascii_case("false") => Some(Self::Bool(false)),
            DType::Bool => None,
            DType::Float32 | DType::Float64 => text.parse().ok().map(Self::Float),
            DType::UInt64 => text.parse().ok().map(Self::Unsigned),
            _ => text.parse().ok().map(Self::Signed),
        }
    }
}
