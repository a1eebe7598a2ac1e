#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "the only place of the core that handles addresses; every block says why it is sound")]

mod array;
mod fault;
mod fork;
mod lease;
mod segment;
mod slab;

pub use array::Array;
pub(crate) use fork::{PerProcess, generation};
pub use lease::Lease;
pub use segment::Segment;
pub use slab::Slab;
