//! The tests of the core, in one binary: they see only what any other crate sees.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod architecture;
mod conformance;
mod fingerprint;
mod randomness;
mod rng;
mod sampler;
mod shard;
mod torch_draws;
