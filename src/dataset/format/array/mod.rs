//! Arrays: the header of NumPy's, what those of one field have in common, and the rows of those of one file.

pub(super) mod form;
pub(super) mod header;
pub(super) mod mapped_arrays;
