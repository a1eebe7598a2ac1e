//! Files that are written in parts, by threads.

pub(super) mod file;
pub(super) mod thread_pool;
pub(super) mod threads;

pub use threads::{Wait, WrittenShard};
