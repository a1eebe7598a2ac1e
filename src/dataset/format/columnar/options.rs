//! [`ColumnarOptions`]: which columns are read, and what becomes of nulls, texts and decimals.

/// Which columns are read, and what becomes of what tensors do not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnarOptions {
    /// The columns, or parts of nested ones (`a.b`), in this order; all that the schema has, where there are none.
    pub columns: Option<Vec<String>>,
    /// Rules for nulls: of one column with all that is nested in it, or (without a name) of all others. Where there is none,
    /// a null is an error.
    pub nulls: Vec<(Option<String>, NullRule)>,
    /// What texts and byte strings become.
    pub strings: Strings,
    /// What decimals become.
    pub decimals: Decimals,
}

/// What becomes of a null.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum NullRule {
    /// It is an error when it is read.
    Refuse,
    /// Zeros (or an empty list) take its place, and another field says where there is a value. Texts and byte strings that
    /// become objects are missing.
    Mask,
    /// As [`Mask`](Self::Mask), and of lists of numbers, of any length or a fixed one, a third field says which of their elements
    /// there are: booleans, as many as there are numbers. Zeros take the place of the others.
    MaskElements,
    /// This takes its place; in a list of numbers that of each null. A list that is null itself is an empty one.
    Fill(FillValue),
}

/// A value that takes the place of a null.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FillValue {
    /// For booleans.
    Bool(bool),
    /// For all numbers that can be it; times count in the unit of their column.
    Int(i128),
    /// For floats and decimals.
    Float(f64),
    /// For texts.
    Text(String),
    /// For byte strings.
    Bytes(Vec<u8>),
}

/// What texts and byte strings become.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strings {
    /// Texts and byte strings of the language that reads them.
    #[default]
    Objects,
    /// Variable fields of bytes, like any other list.
    Bytes,
}

/// What decimals become.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Decimals {
    /// The nearest `float64`.
    #[default]
    Float,
    /// `int64` numbers without the point: 1.25 with two digits behind it is 125. What does not fit is an error.
    Unscaled,
}
