//! Resizes images by weighted sums of neighboring pixels, first along rows and then along columns.

mod bytes;
mod filters;
mod floats;
mod part;
mod shares;
mod weights;

pub(super) use bytes::{ByteResize, refuse_floats};
pub(super) use floats::resize_floats;
pub(super) use part::Part;
