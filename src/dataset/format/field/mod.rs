//! The fields that samples are decoded into.

pub(super) mod decoding;
pub(super) mod json_text;
pub(super) mod nested_type;
pub(super) mod number;
pub(super) mod sample_block;
pub(super) mod typed_field;

pub use nested_type::NestedBytes;
pub use nested_type::{NestedType, NestedValue};
pub use sample_block::SampleBlock;
pub use typed_field::{Content, TypedField};
