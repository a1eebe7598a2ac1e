//! NPY arrays: the header, and what the arrays of one field have in common.

pub(super) mod form;
pub(super) mod header;
