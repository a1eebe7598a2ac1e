//! [`ColumnarOptions`]: which columns are read, and how nulls, strings, and decimals are converted.

/// Which columns are read, and how values are converted that tensors can't represent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnarOptions {
    /// The columns, or parts of nested ones (`a.b`), in this order. Default: all columns of the schema.
    pub columns: Option<Vec<String>>,
    /// Null rules: for one column with everything nested in it, or (without a name) for all others. Without a rule, a
    /// null is an error.
    pub nulls: Vec<(Option<String>, NullRule)>,
    /// What strings and byte strings become.
    pub strings: Strings,
    /// What decimals become.
    pub decimals: Decimals,
}

/// How a null is handled.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum NullRule {
    /// Reading it is an error.
    Refuse,
    /// It is replaced by zeros (or an empty list), and an additional field marks the values that are present. Strings
    /// and byte strings that become objects are missing instead.
    Mask,
    /// Like [`Mask`](Self::Mask); for lists of numbers, of any or fixed length, a third field marks the elements that
    /// are present: one boolean per number. Absent elements are zero.
    MaskElements,
    /// It is replaced by this value, as is each null in a list of numbers. A null list becomes empty.
    Fill(FillValue),
}

/// A value that replaces nulls, or that a filter compares with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FillValue {
    /// For booleans.
    Bool(bool),
    /// For all numeric columns that can represent it. Times are in the unit of their column.
    Int(i128),
    /// For floats and decimals.
    Float(f64),
    /// For strings.
    Text(String),
    /// For byte strings.
    Bytes(Vec<u8>),
}

/// What strings and byte strings become.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strings {
    /// String and bytes objects of the language that reads them.
    #[default]
    Objects,
    /// Variable-length fields of bytes, like any other list.
    Bytes,
}

/// What decimals become.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Decimals {
    /// The nearest `float64`.
    #[default]
    Float,
    /// `int64` without the decimal point: 1.25 with two decimal places is 125. Values that do not fit are errors.
    Unscaled,
}
