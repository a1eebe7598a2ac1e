#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "the only place of the core that handles addresses; every block says why it is sound")]

mod arena;
mod array;
#[cfg(feature = "arrow")]
mod arrow_buffer;
mod bell;
mod claims;
mod container;
mod disk_reads;
mod elements;
mod event;
mod fault;
#[cfg(feature = "arrow")]
mod foreign_table;
mod foreign_words;
mod fork;
mod freed_memory;
mod grant;
#[cfg(feature = "image")]
mod jpeg;
#[cfg(feature = "image")]
mod jpeg_encoder;
#[cfg(feature = "image")]
mod kept_values;
#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod late_device;
mod lease;
mod limits;
mod offers;
#[cfg(feature = "image")]
mod pair_sums;
mod ranges;
mod ring;
mod row;
mod scattered;
mod segment;
mod shared;
mod shared_word;
mod slab;
mod slot;
mod stream;
mod sync;
#[cfg(test)]
#[cfg(not(loom))]
mod two_processes;
#[cfg(feature = "image")]
mod vectors;
mod widen;
mod worker_slot;

pub use arena::Arena;
pub use array::Array;
pub use bell::{Bell, EventBell, EventWoken, Woken};
pub use container::{container_bytes, memory_limit};
pub(crate) use disk_reads::disk_reads;
pub(crate) use elements::typed_elements;
#[cfg(feature = "arrow")]
pub use foreign_table::ForeignTable;
pub use foreign_words::ForeignWords;
pub(crate) use fork::PerProcess;
pub use fork::generation;
pub use freed_memory::{keep_freed_memory, return_freed_memory};
pub use grant::Grant;
#[cfg(feature = "image")]
pub use jpeg::{JpegColors, JpegDecoder, JpegFault, JpegHeader, Region};
#[cfg(feature = "image")]
pub use jpeg_encoder::encode_jpeg;
#[cfg(feature = "image")]
pub use kept_values::KeptValues;
pub use lease::Lease;
pub(crate) use limits::{address_space_left, physical_bytes};
#[cfg(feature = "image")]
pub(crate) use pair_sums::PairSums;
pub use ring::Ring;
use row::RowLayout;
pub use scattered::Scattered;
pub use segment::Segment;
pub(crate) use shared_word::SharedWord;
pub use slab::Slab;
#[cfg(feature = "image")]
pub(crate) use vectors::{Kernel, MultiplyAdd, run_on_vectors};
pub use widen::widen;
pub(crate) use worker_slot::{WorkerSlot, spare_for};
