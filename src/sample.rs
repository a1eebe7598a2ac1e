//! The shape of one sample: [`DType`], [`Field`], [`Schema`], and the writers that samples are read into.

use std::fmt;

mod moments;
mod sizes;
mod writer;

pub use moments::Moments;
pub use sizes::{Sizes, SizesWriter};
pub use writer::{BatchWriter, Column, SampleWriter};

/// The data type of one element, with torch's names.
///
/// # Example
/// ```
/// use sluicegate::DType;
/// assert_eq!("bfloat16".parse::<DType>().unwrap(), DType::BFloat16);
/// assert_eq!(DType::Complex64.bytes(), 8);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is torch's data type of the same name")]
pub enum DType {
    Bool,
    UInt8,
    Int8,
    UInt16,
    Int16,
    UInt32,
    Int32,
    UInt64,
    Int64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Complex32,
    Complex64,
    Complex128,
    Float8E4M3Fn,
    Float8E4M3Fnuz,
    Float8E5M2,
    Float8E5M2Fnuz,
    Float8E8M0Fnu,
}

/// One line per data type: the variant, torch's name, bytes per element. This is the only list of them.
const DTYPES: [(DType, &str, usize); 21] = [
    (DType::Bool, "bool", 1),
    (DType::UInt8, "uint8", 1),
    (DType::Int8, "int8", 1),
    (DType::UInt16, "uint16", 2),
    (DType::Int16, "int16", 2),
    (DType::UInt32, "uint32", 4),
    (DType::Int32, "int32", 4),
    (DType::UInt64, "uint64", 8),
    (DType::Int64, "int64", 8),
    (DType::Float16, "float16", 2),
    (DType::BFloat16, "bfloat16", 2),
    (DType::Float32, "float32", 4),
    (DType::Float64, "float64", 8),
    (DType::Complex32, "complex32", 4),
    (DType::Complex64, "complex64", 8),
    (DType::Complex128, "complex128", 16),
    (DType::Float8E4M3Fn, "float8_e4m3fn", 1),
    (DType::Float8E4M3Fnuz, "float8_e4m3fnuz", 1),
    (DType::Float8E5M2, "float8_e5m2", 1),
    (DType::Float8E5M2Fnuz, "float8_e5m2fnuz", 1),
    (DType::Float8E8M0Fnu, "float8_e8m0fnu", 1),
];

impl DType {
    fn entry(self) -> &'static (Self, &'static str, usize) {
        DTYPES.iter().find(|entry| entry.0 == self).expect("every variant has its line in DTYPES")
    }

    /// Returns the position of this data type in the list, which represents it in messages between processes.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Returns the data type of that `number`, if there is one.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        DTYPES.get(usize::from(number)).map(|entry| entry.0)
    }

    /// Returns the data type of NumPy's code for it, without the byte order (`f4`).
    pub(crate) fn from_numpy(code: &str) -> Option<Self> {
        Some(match code {
            "b1" => Self::Bool,
            "u1" => Self::UInt8,
            "i1" => Self::Int8,
            "u2" => Self::UInt16,
            "i2" => Self::Int16,
            "u4" => Self::UInt32,
            "i4" => Self::Int32,
            "u8" => Self::UInt64,
            "i8" => Self::Int64,
            "f2" => Self::Float16,
            "f4" => Self::Float32,
            "f8" => Self::Float64,
            "c8" => Self::Complex64,
            "c16" => Self::Complex128,
            _ => return None,
        })
    }

    /// Returns the size of one element in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.entry().2
    }

    /// Returns torch's name, without the `torch.` prefix.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }
}

impl std::str::FromStr for DType {
    type Err = crate::Error;

    fn from_str(name: &str) -> crate::Result<Self> {
        DTYPES.iter().find(|entry| entry.1 == name).map(|entry| entry.0).ok_or_else(|| {
            crate::Error::invalid("dtype", format!("`{name}` is not a data type of fixed size that can be stacked"))
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The Rust types that can be elements of an array.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The data type of a batch of them.
    const DTYPE: DType;

    /// Returns the element with these bytes, in the machine's byte order.
    ///
    /// # Panics
    /// If there are more or fewer bytes than an element of `DTYPE` has.
    fn from_ne_bytes(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;

            fn from_ne_bytes(bytes: &[u8]) -> Self {
                <$rust>::from_ne_bytes(bytes.try_into().expect("as many bytes as the data type has"))
            }
        }
    )*};
}

element!(
    u8 => UInt8, i8 => Int8, u16 => UInt16, i16 => Int16, u32 => UInt32, i32 => Int32,
    u64 => UInt64, i64 => Int64, f32 => Float32, f64 => Float64,
);

/// One named part of a sample: a dense array of fixed shape, or with a first axis whose length varies by sample.
///
/// # Example
/// ```
/// use sluicegate::{DType, Field};
/// let image = Field::new("image", DType::UInt8, [3, 64, 64]);
/// assert_eq!(image.bytes(), 3 * 64 * 64);
/// let boxes = Field::variable("boxes", DType::Float32, [4]);
/// assert_eq!((boxes.to_string().as_str(), boxes.bytes()), ("boxes: float32[*, 4]", 16));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    extent: Extent,
}

/// How a field's size depends on the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Fixed,
    Variable,
}

impl Field {
    /// Returns a field `name` whose samples have `shape`; the empty shape is a scalar.
    pub fn new(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), extent: Extent::Fixed }
    }

    /// Returns a field `name` whose samples have any number of consecutive elements of `shape`: a string has `uint8`
    /// elements of the empty shape. The dataset reports the number through [`VariableSize`](crate::VariableSize).
    pub fn variable(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), extent: Extent::Variable }
    }

    /// Returns the same field with a different name.
    #[must_use]
    pub fn renamed(&self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self.clone() }
    }

    /// Returns the name, which is unique in its schema.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the data type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// True if the number of elements differs from sample to sample.
    #[must_use]
    pub fn is_variable(&self) -> bool {
        self.extent == Extent::Variable
    }

    /// Returns the shape of this field in one sample, or of one element if it is variable.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the size of this field in one sample in bytes, or of one element if it is variable; `usize::MAX` if it
    /// overflows an address.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shape.iter().fold(self.dtype.bytes(), |bytes, &size| bytes.saturating_mul(size))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axis = self.is_variable().then(|| "*".to_owned());
        let axes: Vec<String> = axis.into_iter().chain(self.shape.iter().map(usize::to_string)).collect();
        write!(formatter, "{}: {}[{}]", self.name, self.dtype, axes.join(", "))
    }
}

/// The fields of a sample, in order: enough to lay out a slot before anything is read.
///
/// # Example
/// ```
/// use sluicegate::{DType, Field, Schema};
/// let schema = Schema::new([Field::new("x", DType::Float32, [8]), Field::new("y", DType::Int64, [])]);
/// assert_eq!(schema.to_string(), "(x: float32[8], y: int64[])");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    fields: Vec<Field>,
}

impl Schema {
    /// Returns a schema of these fields.
    pub fn new(fields: impl Into<Vec<Field>>) -> Self {
        Self { fields: fields.into() }
    }

    /// Returns the fields, in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// True if the samples may differ in size.
    #[must_use]
    pub fn is_variable(&self) -> bool {
        self.fields.iter().any(Field::is_variable)
    }

    /// True if samples of both schemas can be in one batch: equal data types and shapes, whatever the names.
    #[must_use]
    pub fn stacks_with(&self, other: &Self) -> bool {
        let same_form = |a: &Field, b: &Field| (a.dtype, &a.shape, a.extent) == (b.dtype, &b.shape, b.extent);
        self.fields.len() == other.fields.len() && self.fields.iter().zip(&other.fields).all(|(a, b)| same_form(a, b))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<String> = self.fields.iter().map(ToString::to_string).collect();
        write!(formatter, "({})", fields.join(", "))
    }
}
