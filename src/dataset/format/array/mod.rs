//! Arrays: NumPy headers, the common form of a field's arrays, and the rows of the arrays in a file.

pub(super) mod form;
pub(super) mod header;
pub(super) mod mapped_arrays;
