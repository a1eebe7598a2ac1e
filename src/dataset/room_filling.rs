//! [`fill_rooms`]: the samples of a batch written to their rooms, several at once.

use rayon::prelude::*;

use super::helpers::{each_helped, helpers};
use crate::Result;

/// The rooms of a row of a batch, by field.
type Rooms<'a> = Vec<&'a mut [u8]>;

/// A thread that is started for fewer rows costs more than it helps.
const LEAST_ROWS: usize = 4;

/// Calls `fill` with the number and the rooms of each row, and returns what it gives, by row.
///
/// In a pool, threads that have nothing else to do take some of the rows; elsewhere there is none but the global one, which no
/// child of a fork has.
///
/// # Errors
/// That of a signal to the consumer, or that of the first row that has one.
pub(super) fn fill_rooms<'a, T: Send>(
    rooms: Vec<Rooms<'a>>,
    fill: impl Fn((usize, Rooms<'a>)) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if rayon::current_thread_index().is_some() {
        let filled: Vec<Result<T>> = rooms.into_par_iter().enumerate().map(&fill).collect();
        return filled.into_iter().collect();
    }
    each_helped(helpers().min(rooms.len() / LEAST_ROWS), rooms, fill)
}
