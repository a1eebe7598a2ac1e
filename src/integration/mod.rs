//! Batches as what other libraries work with, and what they have as datasets: one library a file, behind the feature of its
//! name.

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "burn")]
mod burn;
#[cfg(feature = "candle")]
mod candle;
#[cfg(feature = "ndarray")]
mod ndarray;

#[cfg(feature = "burn")]
pub use self::burn::{BurnLoader, FromBurn, ToBurn, burn_collate};
#[cfg(any(feature = "arrow", feature = "burn", feature = "candle"))]
use crate::{DType, Error};

/// The error of field `name`, whose data type `library` does not have.
#[cfg(any(feature = "arrow", feature = "burn", feature = "candle"))]
fn refused(name: &str, dtype: DType, library: &str) -> Error {
    let reason = format!("field `{name}` holds {dtype}, which {library} has no type for: make it another with `map`");
    Error::InvalidArgument { argument: "field", reason }
}
