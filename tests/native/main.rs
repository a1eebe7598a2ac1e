//! The tests of the core, in one binary: they see only what any other crate sees.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod architecture;
mod arena;
mod collate;
mod conformance;
mod dataset;
mod datasets;
mod fingerprint;
mod loader;
mod memory;
mod npy;
mod own_process;
mod pipeline;
mod randomness;
mod rng;
mod sample;
mod sampler;
mod shard;
mod state;
mod torch_draws;
mod workers;
