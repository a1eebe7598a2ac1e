//! [`fill_rooms`]: one sample after the other written to its rooms, or several at once.

use rayon::prelude::*;

use crate::{Result, watch};

/// The rooms of a row of a batch, by field.
type Rooms<'a> = Vec<&'a mut [u8]>;

/// Calls `fill` with the number and the rooms of each row, and returns what it gives, by row.
///
/// In a pool, threads that have nothing else to do take some of the rows; elsewhere there is none but the global one, which no
/// child of a fork has.
///
/// # Errors
/// That of the first row that has one, or that of a signal to the consumer.
pub(super) fn fill_rooms<'a, T: Send>(
    rooms: Vec<Rooms<'a>>,
    fill: impl Fn((usize, Rooms<'a>)) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    match rayon::current_thread_index() {
        Some(_) => {
            let filled: Vec<Result<T>> = rooms.into_par_iter().enumerate().map(&fill).collect();
            filled.into_iter().collect()
        }
        // The consumer itself, who must hear of signals before the last image.
        None => rooms.into_iter().enumerate().map(|each| watch::advance(0).and_then(|()| fill(each))).collect(),
    }
}
