//! Files of tokens: plain, NPY, and those of llm.c and Megatron.

mod dataset;
mod documents;
mod files;
mod form;
mod megatron_index;
mod places;
mod shards;
mod stream;

pub use dataset::{TokenOutput, TokenWindows, Tokens};
pub use documents::{DocumentPiece, TokenDocuments};
pub use files::{Documents, TokenFiles, TokenLayout};
pub use shards::{TokenShardLayout, TokenShards};
