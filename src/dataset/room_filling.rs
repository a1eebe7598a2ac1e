//! [`fill_rooms`]: writes the samples of a batch to their buffers, several at once.

use rayon::prelude::*;

use super::helpers::{each_helped, helpers};
use crate::Result;

/// The buffers of one row of a batch, one per field.
type Rooms<'a> = Vec<&'a mut [u8]>;

/// Rows per helper thread: starting a thread for fewer costs more than it helps.
const LEAST_ROWS: usize = 4;

/// Calls `fill` with the number and the buffers of each row, and returns its results in row order.
///
/// Inside a rayon pool, its idle threads take some of the rows. Elsewhere only rayon's global pool would be left, whose
/// threads do not exist in a forked child, so helper threads are started instead.
///
/// # Errors
/// The error of a signal to the consumer, or that of the first row that fails.
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
