//! Handles pages of a mapped file that no longer exist.
//!
//! # Rationale
//! Another process can truncate a file at any time, including between a size check and the copy of a row. Touching a
//! page beyond its new end raises SIGBUS, which ends the process and with it a training run. So copies from mapped
//! files run under [`guarded`]: a signal handler replaces the lost page with an empty one and records the fault, the
//! copy continues, and the caller learns that the copied bytes are not the file's.
//!
//! The handler is installed again whenever a file is mapped, because other code replaces it (Lightning's trainer, when
//! it ends, restores only the handlers that Python knows), and by a forked child at its first copy, because torch's
//! workers start with a handler that ends the process. It acts only on a fault of the guarded thread inside the guarded
//! range. Any other SIGBUS goes to the previous handler, or gets its default action.
//!
//! # Limitations
//! A handler that is installed later in the same process replaces this one until the next file is mapped: until then,
//! lost pages end the process as they would without this guard. Checking at each copy would cost a system call per row.

use std::cell::Cell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::fork::generation;

thread_local! {
    /// The addresses that this thread is copying from (empty while it is not copying), and the number of faults.
    /// Initialized by constants and without destructors, so that the signal handler may read them.
    static START: Cell<usize> = const { Cell::new(0) };
    static END: Cell<usize> = const { Cell::new(0) };
    static FAULTS: Cell<usize> = const { Cell::new(0) };
    /// True while the previous handler processes a fault of this thread.
    static PASSED_ON: Cell<bool> = const { Cell::new(false) };
}

/// The previous SIGBUS action. It is never freed, because the handler may be reading it.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// The fork generation in which the handler was last installed; `u64::MAX` before the first.
static INSTALLED: AtomicU64 = AtomicU64::new(u64::MAX);

/// The page size, determined before the handler can run, because the handler must not query it.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// Enables [`guarded`] in this process, even if another handler has replaced ours.
pub(super) fn install() {
    PAGE.store(rustix::param::page_size(), Ordering::Relaxed);
    // SAFETY: a zeroed `sigaction` is a valid value of this C structure of numbers and an optional function.
    let (mut ours, mut before) =
        unsafe { (std::mem::zeroed::<libc::sigaction>(), std::mem::zeroed::<libc::sigaction>()) };
    ours.sa_sigaction = on_bus_error as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: this call installs nothing; `before` outlives it.
    unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) };
    // Our handler must not be recorded as its own predecessor.
    if before.sa_sigaction != ours.sa_sigaction {
        BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
        // SAFETY: `ours` outlives the call; the handler makes only calls that are allowed in a signal handler.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) };
    }
    INSTALLED.store(generation(), Ordering::Relaxed);
}

/// Runs `copy`, which reads from `range` and writes elsewhere. Returns false if pages of the range were lost meanwhile:
/// they read as zeros from then on.
pub(super) fn guarded(range: Range<usize>, copy: impl FnOnce()) -> bool {
    if INSTALLED.load(Ordering::Relaxed) != generation() {
        install();
    }
    let faults = FAULTS.get();
    let unguard = Unguard { before: START.get()..END.get() };
    START.set(range.start);
    END.set(range.end);
    // The handler runs on this thread, so only the compiler could reorder these.
    compiler_fence(Ordering::SeqCst);
    copy();
    compiler_fence(Ordering::SeqCst);
    drop(unguard);
    FAULTS.get() == faults
}

/// Ends the guard, even if the copy panics, because the range may soon belong to another mapping. An enclosing guard
/// continues.
struct Unguard {
    before: Range<usize>,
}

impl Drop for Unguard {
    fn drop(&mut self) {
        START.set(self.before.start);
        END.set(self.before.end);
    }
}

/// The signal handler. It does only what is allowed in one: no locks, no allocation, no formatting.
unsafe extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    if (START.get()..END.get()).contains(&address) {
        let page = PAGE.load(Ordering::Relaxed);
        let start = ptr::with_exposed_provenance_mut(address / page * page);
        // SAFETY: the page is inside a mapping that the guarded copy keeps alive, is only read, and has lost its
        // contents.
        let replaced = unsafe { mmap_anonymous(start, page, ProtFlags::READ, MapFlags::PRIVATE | MapFlags::FIXED) };
        if replaced.is_ok() {
            FAULTS.set(FAULTS.get() + 1);
            return;
        }
    }
    // SAFETY: called with the arguments of this very signal.
    unsafe { pass_on(signal, info, context) };
}

/// Handles a fault that is not ours as the previous action would have.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the pointer is null, or points to a structure that is never freed and never written to again.
    let before = unsafe { BEFORE.load(Ordering::Acquire).as_ref() };
    // A handler that was installed over ours, and is now recorded as the previous one, may return the fault to us.
    let before = before.filter(|_| !PASSED_ON.replace(true));
    // SAFETY: a zeroed `sigaction` is the default action.
    let before = before.copied().unwrap_or_else(|| unsafe { std::mem::zeroed() });
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: a plain system call. The faulting instruction runs again, and faults with this action in force.
            unsafe { libc::sigaction(signal, &raw const before, ptr::null_mut()) };
        }
        // SAFETY: a handler of the type that its flags declare was installed at this address.
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => unsafe {
            let handler: unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        },
        // SAFETY: as above, for the older handler type.
        handler => unsafe {
            let handler: unsafe extern "C" fn(libc::c_int) = std::mem::transmute(handler);
            handler(signal);
        },
    }
    PASSED_ON.set(false);
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::sync::Arc;
    use std::{env, thread};

    use crate::memory::{Array, Segment};

    const PAGES: usize = 8;
    const PAGE: usize = 4096;

    fn mapped() -> (File, Array) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; PAGES * PAGE]).unwrap();
        let segment = Arc::new(Segment::map_file(&file, PAGES * PAGE).unwrap());
        (file, Array::contiguous(segment, 0, 1, &[PAGES, PAGE]).unwrap())
    }

    #[test]
    fn lost_pages_read_as_zeros_and_are_reported() {
        let (file, array) = mapped();
        let mut rows = vec![1; 2 * PAGE];
        array.gather(&[0, 7], &mut rows).unwrap();
        assert!(!array.segment().has_lost_pages());
        file.set_len(PAGE as u64).unwrap();
        array.gather(&[0, 5], &mut rows).unwrap();
        assert!(rows[..PAGE].iter().all(|&byte| byte == 7) && rows[PAGE..].iter().all(|&byte| byte == 0));
        assert!(array.segment().has_lost_pages());
    }

    #[test]
    fn nested_guarded_copies_stay_guarded() {
        let (file, array) = mapped();
        let (_other, within) = mapped();
        file.set_len(0).unwrap();
        let start = array.segment().at(0).as_ptr();
        let range = start.addr()..start.addr() + PAGES * PAGE;
        let is_whole = super::guarded(range, || {
            within.copy_row(0, &mut [0; PAGE]).unwrap();
            // SAFETY: mapped memory; the lost page reads as zeros.
            assert_eq!(unsafe { start.read_volatile() }, 0);
        });
        assert!(!is_whole);
    }

    #[test]
    fn many_threads_can_lose_the_same_pages() {
        for _ in 0..50 {
            let (file, array) = mapped();
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| (0..200).for_each(|row| array.copy_row(row % PAGES, &mut [0; PAGE]).unwrap()));
                }
                file.set_len(0).unwrap();
            });
            array.copy_row(3, &mut [0; PAGE]).unwrap();
            assert!(array.segment().has_lost_pages());
        }
    }

    #[test]
    fn a_file_mapped_after_another_handler_took_over_is_guarded() {
        const ALONE: &str = "SLUICEGATE_TEST_BUS_HANDLER";
        let test = "memory::fault::tests::a_file_mapped_after_another_handler_took_over_is_guarded";
        if env::var_os(ALONE).is_none() {
            let mut child = Command::new(env::current_exe().unwrap());
            let status = child.args(["--exact", test]).env(ALONE, "1").output().unwrap().status;
            assert!(status.success(), "{status}");
            return;
        }
        let _before = mapped();
        // SAFETY: the default action is installed, with no handler to outlive.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        let (file, array) = mapped();
        file.set_len(0).unwrap();
        array.copy_row(0, &mut [0; PAGE]).unwrap();
        assert!(array.segment().has_lost_pages());
    }

    #[test]
    fn another_bus_error_still_ends_the_process() {
        const ALONE: &str = "SLUICEGATE_TEST_BUS_ERROR";
        if env::var_os(ALONE).is_some() {
            let (file, array) = mapped();
            file.set_len(0).unwrap();
            // SAFETY: mapped memory; the test is about the lost page.
            unsafe { array.segment().at(0).as_ptr().read_volatile() };
            return;
        }
        let test = "memory::fault::tests::another_bus_error_still_ends_the_process";
        let mut child = Command::new(env::current_exe().unwrap());
        let status = child.args(["--exact", test]).env(ALONE, "1").output().unwrap().status;
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
    }
}
