//! Tests that need two processes: rings and bells across a fork, and what a child must not do to its parent's arena.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

use super::{Arena, Bell, EventBell, EventWoken, Ring, Segment, Woken};

const CAPACITY: usize = 16;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

/// A forked child, killed when it is dropped.
struct Child {
    pid: Pid,
    handle: OwnedFd,
}

impl Child {
    /// Runs `body` in a forked child.
    fn run(body: impl FnOnce()) -> Self {
        // SAFETY: the child runs `body` and leaves by `_exit`, so nothing of the parent's is run or dropped twice.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let failed = catch_unwind(AssertUnwindSafe(body)).is_err();
            // SAFETY: ends the process, and returns nowhere.
            unsafe { libc::_exit(i32::from(failed)) };
        }
        let pid = Pid::from_raw(pid).filter(|_| pid > 0).expect("a process is to be had");
        Self { pid, handle: pidfd_open(pid, PidfdFlags::empty()).unwrap() }
    }

    fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    fn kill(&self) {
        kill_process(self.pid, Signal::KILL).unwrap();
    }

    /// Waits for the child, which must exit successfully.
    fn join(self) {
        let ended = EventBell::new(words(), 0).unwrap().wait(|| false, &[self.handle()], PATIENCE);
        assert_eq!(ended, EventWoken::Died(0), "the child hangs");
        let (_, status) = waitpid(Some(self.pid), WaitOptions::NOHANG).unwrap().unwrap();
        std::mem::forget(self);
        assert_eq!(status.exit_status(), Some(0), "the child failed");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

fn words() -> Arc<Segment> {
    Arc::new(Segment::shared(Lane::BYTES).unwrap().0)
}

/// The shared objects that connect a parent to one worker.
struct Lane {
    requests: Ring,
    request_bell: Bell,
    answers: Ring,
    answer_bell: EventBell,
}

impl Lane {
    const BYTES: usize = 2 * Ring::bytes(CAPACITY) + Bell::BYTES + EventBell::BYTES;

    fn new() -> Self {
        let segment = words();
        let ring = Ring::bytes(CAPACITY);
        Self {
            requests: Ring::new(Arc::clone(&segment), 0, CAPACITY),
            answers: Ring::new(Arc::clone(&segment), ring, CAPACITY),
            request_bell: Bell::new(Arc::clone(&segment), 2 * ring),
            answer_bell: EventBell::new(segment, 2 * ring + Bell::BYTES).unwrap(),
        }
    }

    fn request(&self, descriptor: [u64; 8]) {
        assert!(self.requests.push(descriptor));
        self.request_bell.ring();
    }

    /// Runs the worker's side: answers each request with `answer`.
    fn serve(&self, requests: u64, answer: impl Fn([u64; 8]) -> [u64; 8]) {
        for _ in 0..requests {
            assert_eq!(self.request_bell.wait(|| !self.requests.is_empty(), PATIENCE), Woken::Work);
            assert!(self.answers.push(answer(self.requests.pop().unwrap())));
            self.answer_bell.ring().unwrap();
        }
    }
}

fn descriptor(number: u64) -> [u64; 8] {
    std::array::from_fn(|word| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(word as u32 * 8))
}

/// Sends `messages` there and back with at most `ahead` in flight.
fn exchange(messages: u64, ahead: u64) {
    let lane = Lane::new();
    let child = Child::run(|| lane.serve(messages, |request| request.map(|word| !word)));
    let (mut sent, mut received) = (0, 0);
    while received < messages {
        while sent < messages && sent - received < ahead {
            lane.request(descriptor(sent));
            sent += 1;
        }
        let woken = lane.answer_bell.wait(|| !lane.answers.is_empty(), &[child.handle()], PATIENCE);
        assert_eq!(woken, EventWoken::Work, "after {received} answers");
        while let Some(answer) = lane.answers.pop() {
            assert_eq!(answer, descriptor(received).map(|word| !word));
            received += 1;
        }
    }
    child.join();
}

#[test]
fn messages_arrive_complete_and_in_order() {
    exchange(100_000, CAPACITY as u64);
}

#[test]
fn no_wake_up_is_lost_when_both_sides_wait() {
    exchange(20_000, 1);
}

#[test]
fn data_is_visible_when_its_answer_arrives() {
    const BYTES: usize = 10_000;
    let (segment, file) = Segment::shared(64 << 20).unwrap();
    let arena = Arena::new(Arc::new(segment), 0..64 << 20, 4);
    let lane = Lane::new();
    let child = Child::run(|| {
        // Like a spawned worker: its own mapping, at a different address.
        let own = Segment::map_shared(&file, 64 << 20).unwrap();
        lane.serve(2_000, |[number, start, ..]| {
            own.populate(start as usize..start as usize + BYTES).unwrap();
            // SAFETY: the parent has granted these bytes, and reads them only after it has received the answer.
            unsafe { own.at(start as usize).as_ptr().write_bytes(number as u8, BYTES) };
            [number, start, 0, 0, 0, 0, 0, 0]
        });
    });
    let mut kept = Vec::new();
    for number in 0..2_000 {
        let grant = arena.grant(BYTES + 5_000).unwrap();
        lane.request([number, grant.range().start as u64, 0, 0, 0, 0, 0, 0]);
        let woken = lane.answer_bell.wait(|| !lane.answers.is_empty(), &[child.handle()], PATIENCE);
        assert_eq!((woken, lane.answers.pop().unwrap()[0]), (EventWoken::Work, number));
        kept.push(grant.into_lease(0, BYTES));
        if number % 3 > 0 {
            kept.swap_remove(number as usize % kept.len());
        }
        // Every batch must hold a single value: each byte equals the one before it.
        assert!(kept.iter().all(|lease| lease.bytes()[1..] == lease.bytes()[..BYTES - 1]));
    }
    drop(kept);
    assert!(arena.is_unused());
    child.join();
}

#[test]
fn a_killed_worker_is_reported_after_its_finished_work() {
    let lane = Lane::new();
    let idle = Child::run(|| thread::sleep(Duration::from_secs(60)));
    let worker = Child::run(|| {
        lane.serve(1, |request| request);
        thread::sleep(Duration::from_secs(60));
    });
    lane.request(descriptor(5));
    let has_answer = || !lane.answers.is_empty();
    let processes = [idle.handle(), worker.handle()];
    assert_eq!(lane.answer_bell.wait(has_answer, &processes, PATIENCE), EventWoken::Work);
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            worker.kill();
        });
        // The answer is still in the ring and the wait ignores it, so only the worker's death can end the wait.
        assert_eq!(lane.answer_bell.wait(|| false, &processes, PATIENCE), EventWoken::Died(1));
    });
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(lane.answer_bell.wait(has_answer, &processes, PATIENCE), EventWoken::Work, "the dead one's work first");
    assert_eq!(lane.answers.pop(), Some(descriptor(5)));
    assert_eq!(lane.answer_bell.wait(has_answer, &processes, PATIENCE), EventWoken::Died(1));
}

#[test]
fn stale_rings_do_not_change_timeouts() {
    let lane = Lane::new();
    for timeout in [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(120)] {
        // A wake-up left over from finished work, as from a ringer that saw the flag just before it was cleared.
        rustix::io::write(lane.answer_bell.as_fd(), &1_u64.to_ne_bytes()).unwrap();
        let begin = Instant::now();
        assert_eq!(lane.answer_bell.wait(|| false, &[], Some(timeout)), EventWoken::TimedOut);
        let event = begin.elapsed();
        assert_eq!(lane.request_bell.wait(|| false, Some(timeout)), Woken::TimedOut);
        let futex = begin.elapsed() - event;
        for waited in [event, futex] {
            assert!(waited >= timeout && waited < timeout + Duration::from_millis(400), "{waited:?} for {timeout:?}");
        }
    }
    assert_eq!(lane.request_bell.wait(|| true, Some(Duration::MAX)), Woken::Work);
    lane.answer_bell.ring().unwrap();
    assert_eq!(lane.answer_bell.wait(|| true, &[], Some(Duration::MAX)), EventWoken::Work);
}

#[test]
fn a_wait_ends_when_its_descriptor_is_closed_or_replaced() {
    let lane = Lane::new();
    // SAFETY: this number is not an open descriptor, which is what polling it reports.
    let none = unsafe { BorrowedFd::borrow_raw(1 << 29) };
    assert_eq!(lane.answer_bell.wait(|| false, &[none], PATIENCE), EventWoken::Closed);
    assert_eq!(lane.answer_bell.wait(|| true, &[none], PATIENCE), EventWoken::Work);
    let segment = Arc::new(Segment::shared(EventBell::BYTES).unwrap().0);
    let always_readable = std::fs::File::open("/dev/zero").unwrap().into();
    let bell = EventBell::attach(segment, 0, always_readable);
    assert_eq!(bell.wait(|| false, &[], Some(Duration::from_millis(20))), EventWoken::TimedOut);
}

#[test]
fn a_signal_interrupts_both_bells() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: a zeroed `sigaction` is a valid value of this C structure; no SA_RESTART, as in Python.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    // SAFETY: the handler does nothing, and nothing else uses this signal.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()) }, 0);
    let lane = Lane::new();
    thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiting = scope.spawn(move || {
            // SAFETY: asks for the number of the calling thread.
            sender.send(unsafe { libc::pthread_self() }).unwrap();
            let woken = lane.request_bell.wait(|| false, PATIENCE);
            (woken, lane.answer_bell.wait(|| false, &[], PATIENCE))
        });
        let thread = receiver.recv().unwrap();
        while !waiting.is_finished() {
            // SAFETY: the thread was not joined, so its number is its own.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(waiting.join().unwrap(), (Woken::Interrupted, EventWoken::Interrupted));
    });
}

/// A thread takes and drops leases continuously, so some forks find the lock held or a change half done.
#[test]
fn a_child_neither_allocates_nor_frees_in_its_parents_arena() {
    let arena = Arena::new(Arc::new(Segment::shared(64 << 20).unwrap().0), 0..64 << 20, 2);
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let held: Vec<_> = (1..30).map(|size| arena.grant(size * 5_000).unwrap().into_lease(64, 999)).collect();
                drop(held);
            }
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for round in 0..100 {
                let mut lease = arena.grant(100_000).unwrap().into_lease(0, 90_000);
                lease.bytes_mut().fill(round);
                let inherited = (lease, arena.grant(7).unwrap(), arena.reserve(1 << 20).unwrap(), Arc::clone(&arena));
                let mut inherited = Some(inherited);
                Child::run(|| {
                    assert!(arena.grant(5).is_none() && arena.reserve(5).is_none());
                    let (lease, grant, extent, arena) = inherited.take().unwrap();
                    assert!(lease.bytes().iter().all(|byte| *byte == round));
                    drop((lease, grant.into_lease(0, 3), extent, arena));
                })
                .join();
                let lease = &inherited.as_ref().unwrap().0;
                assert!(lease.bytes().iter().all(|byte| *byte == round), "discarded by a child");
            }
        }));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome.unwrap();
    });
    assert!(arena.is_unused());
}
