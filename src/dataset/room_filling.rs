//! [`fill_rooms`]: one sample after the other written to its rooms, or several at once.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

use rayon::prelude::*;

use crate::{Result, watch};

/// The rooms of a row of a batch, by field.
type Rooms<'a> = Vec<&'a mut [u8]>;

/// A thread that is started for fewer rows costs more than it helps.
const LEAST_ROWS: usize = 4;

thread_local! {
    static HELPERS: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work`, a fetch on the consumer's own thread: each batch whose samples take long is filled with the help of up to
/// `helpers` threads, which end before the batch is returned.
pub fn with_helpers<T>(helpers: usize, work: impl FnOnce() -> T) -> T {
    struct Restore(usize);

    impl Drop for Restore {
        fn drop(&mut self) {
            HELPERS.set(self.0);
        }
    }

    let _before = Restore(HELPERS.replace(helpers));
    work()
}

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
    match HELPERS.get().min(rooms.len() / LEAST_ROWS) {
        // The consumer itself, who must hear of signals before the last image.
        0 => rooms.into_iter().enumerate().map(|each| watch::advance(0).and_then(|()| fill(each))).collect(),
        helpers => fill_with(helpers, rooms, fill),
    }
}

/// The same with this number of threads beside the consumer.
fn fill_with<'a, T: Send>(
    helpers: usize,
    rooms: Vec<Rooms<'a>>,
    fill: impl Fn((usize, Rooms<'a>)) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let rows = Mutex::new(rooms.into_iter().enumerate());
    let is_over = AtomicBool::new(false);
    // In their order: where one fails, those before it have been begun, and are finished.
    let next =
        || rows.lock().unwrap_or_else(PoisonError::into_inner).next().filter(|_| !is_over.load(Ordering::Relaxed));
    let fill_next = |filled: &mut Vec<_>| {
        let Some((row, rooms)) = next() else { return false };
        let one = fill((row, rooms));
        is_over.fetch_or(one.is_err(), Ordering::Relaxed);
        filled.push((row, one));
        true
    };
    let help = || {
        let mut filled = Vec::new();
        while fill_next(&mut filled) {}
        filled
    };
    let mut filled = thread::scope(|scope| {
        let begin = |_| Builder::new().name("sluice-helper".into()).spawn_scoped(scope, help);
        // Fewer of them are slower, and no reason to fail.
        let helping: Vec<_> = (0..helpers).map_while(|at| begin(at).ok()).collect();
        let mut filled = Vec::new();
        let heard = loop {
            match watch::advance(0) {
                Ok(()) if fill_next(&mut filled) => {}
                heard => break heard,
            }
        };
        is_over.fetch_or(heard.is_err(), Ordering::Relaxed);
        for helper in helping {
            filled.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        heard.map(|()| filled)
    })?;
    filled.sort_unstable_by_key(|(row, _)| *row);
    filled.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn filled(helpers: usize, rows: usize, fails: &[usize]) -> Result<Vec<usize>> {
        let mut bytes = vec![0; rows];
        let rooms = bytes.iter_mut().map(|byte| vec![std::slice::from_mut(byte)]).collect();
        let done = fill_with(helpers, rooms, |(row, rooms): (usize, Rooms<'_>)| {
            for room in rooms {
                room.fill(row as u8);
            }
            match fails.contains(&row) {
                true => Err(Error::State { reason: format!("row {row}") }),
                false => Ok(row),
            }
        })?;
        assert!(bytes.iter().enumerate().all(|(row, byte)| usize::from(*byte) == row));
        Ok(done)
    }

    #[test]
    fn rows_are_filled_by_several_threads_and_come_in_their_order() {
        for helpers in [1, 3] {
            assert_eq!(filled(helpers, 200, &[]).unwrap(), (0..200).collect::<Vec<_>>());
            let error = filled(helpers, 200, &[190, 40, 41]).unwrap_err();
            assert!(error.to_string().contains("row 40"), "{error}");
        }
    }

    #[test]
    fn a_signal_comes_before_what_failed() {
        let error = watch::within(Box::new(|_| Err(Error::State { reason: "a signal".into() })), || {
            let mut bytes = [0; 64];
            let rooms = bytes.iter_mut().map(|byte| vec![std::slice::from_mut(byte)]).collect();
            fill_with(1, rooms, |_| {
                thread::sleep(std::time::Duration::from_millis(5));
                Ok(())
            })
        });
        assert!(error.unwrap_err().to_string().contains("a signal"));
    }

    #[test]
    #[should_panic(expected = "a broken row")]
    fn a_helper_that_panics_is_heard() {
        let mut bytes = [0; 64];
        let rooms = bytes.iter_mut().map(|byte| vec![std::slice::from_mut(byte)]).collect();
        let consumer = thread::current().id();
        let _ = fill_with(1, rooms, |_| {
            assert_eq!(thread::current().id(), consumer, "a broken row");
            thread::sleep(std::time::Duration::from_millis(1));
            Ok(())
        });
    }
}
