//! [`with_helpers`]: threads that help the consumer with a batch that it fetches itself.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

use crate::{Result, watch};

thread_local! {
    static HELPERS: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work`, a fetch on the consumer's own thread. Up to `helpers` threads help to fill each batch whose samples are
/// slow; they end before the batch is returned.
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

/// The number of threads that may help the current one.
pub(crate) fn helpers() -> usize {
    HELPERS.get()
}

/// Calls `work` with the number and the value of each item, and returns its results in the order of the items. Up to
/// `helpers` threads help.
///
/// # Errors
/// The error of a signal to the consumer, or that of the first item that fails.
pub(crate) fn each_helped<I: Send, T: Send>(
    helpers: usize,
    items: Vec<I>,
    work: impl Fn((usize, I)) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if helpers == 0 {
        // This is the consumer's thread: it must notice signals between items.
        return items.into_iter().enumerate().map(|each| watch::advance(0).and_then(|()| work(each))).collect();
    }
    let items = Mutex::new(items.into_iter().enumerate());
    let is_over = AtomicBool::new(false);
    // Handed out in order: when an item fails, all earlier ones have been started and are finished.
    let next =
        || items.lock().unwrap_or_else(PoisonError::into_inner).next().filter(|_| !is_over.load(Ordering::Relaxed));
    let work_on = |done: &mut Vec<_>| {
        let Some((number, item)) = next() else { return false };
        let one = work((number, item));
        is_over.fetch_or(one.is_err(), Ordering::Relaxed);
        done.push((number, one));
        true
    };
    let help = || {
        let mut done = Vec::new();
        while work_on(&mut done) {}
        done
    };
    let mut done = thread::scope(|scope| {
        let begin = |_| Builder::new().name("sluice-helper".into()).spawn_scoped(scope, help);
        // Fewer helpers are slower, but not an error.
        let helping: Vec<_> = (0..helpers).map_while(|at| begin(at).ok()).collect();
        let mut done = Vec::new();
        let outcome = loop {
            match watch::advance(0) {
                Ok(()) if work_on(&mut done) => {}
                outcome => break outcome,
            }
        };
        is_over.fetch_or(outcome.is_err(), Ordering::Relaxed);
        for helper in helping {
            done.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        outcome.map(|()| done)
    })?;
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn filled(helpers: usize, rows: usize, fails: &[usize]) -> Result<Vec<usize>> {
        let mut bytes = vec![0; rows];
        let rooms = bytes.iter_mut().map(|byte| vec![std::slice::from_mut(byte)]).collect();
        let done = each_helped(helpers, rooms, |(row, rooms): (usize, Vec<&mut [u8]>)| {
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
    fn helper_threads_fill_rows_in_order() {
        for helpers in [1, 3] {
            assert_eq!(filled(helpers, 200, &[]).unwrap(), (0..200).collect::<Vec<_>>());
            let error = filled(helpers, 200, &[190, 40, 41]).unwrap_err();
            assert!(error.to_string().contains("row 40"), "{error}");
        }
    }

    #[test]
    fn a_signal_takes_precedence_over_an_error() {
        let error = watch::within(Box::new(|_| Err(Error::State { reason: "a signal".into() })), || {
            let mut bytes = [0; 64];
            let rooms = bytes.iter_mut().map(|byte| vec![std::slice::from_mut(byte)]).collect();
            each_helped(1, rooms, |_| {
                thread::sleep(std::time::Duration::from_millis(5));
                Ok(())
            })
        });
        assert!(error.unwrap_err().to_string().contains("a signal"));
    }

    #[test]
    #[should_panic(expected = "a broken row")]
    fn a_panic_in_a_helper_is_reported() {
        let mut bytes = [0; 64];
        let rooms = bytes.iter_mut().map(|byte| vec![std::slice::from_mut(byte)]).collect();
        let consumer = thread::current().id();
        let _ = each_helped(1, rooms, |_| {
            assert_eq!(thread::current().id(), consumer, "a broken row");
            thread::sleep(std::time::Duration::from_millis(1));
            Ok(())
        });
    }
}
