//! Conversions of batches to the types of other libraries, and of those libraries' types to datasets: one file per
//! library, each with a feature of the same name.

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

/// Returns the error for field `name`, whose data type `library` lacks.
#[cfg(any(feature = "arrow", feature = "burn", feature = "candle"))]
fn refused(name: &str, dtype: DType, library: &str) -> Error {
    let reason = format!("field `{name}` holds {dtype}, for which {library} has no type; convert it with `map`");
    Error::invalid("field", reason)
}
