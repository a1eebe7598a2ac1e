//! [`Prefetch`]: a window of batches that are fetched ahead.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "futures")]
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use super::blocks_ahead::BlocksAhead;
use super::pace::Worth;
use super::pool::Pool;
use super::spawn::Spawn;
use super::tasks::Tasks;
use super::work::Work;
use super::{Batch, BytesAhead, Fetch, IndexBatch};
use crate::Result;
use crate::error::ignore_panic;
use crate::memory::generation;

/// The timeout used when the consumer's own timeout is too long for the clock.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// Batches that a woken thread fetches before it yields to other users of the pool.
const MOST_OF_A_CALL: usize = 64;

/// The order in which batches reach the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// In the order in which they were pushed.
    #[default]
    InOrder,
    /// As they are completed, so that a slow batch does not delay the others.
    AsCompleted,
}

/// A batch of the window.
enum Entry {
    /// Its fetch has not started; the consumer fetches it when its turn comes.
    Waiting(Arc<IndexBatch>),
    /// A thread is fetching it under this ticket, or will fetch it unless the consumer does so first.
    Started(u64, Arc<IndexBatch>),
}

impl Entry {
    fn is_started(&self) -> bool {
        matches!(self, Self::Started(..))
    }

    fn into_indices(self) -> Arc<IndexBatch> {
        match self {
            Self::Waiting(indices) | Self::Started(_, indices) => indices,
        }
    }
}

/// Who fetches the next batch: the consumer or the threads.
enum Turn {
    /// The consumer, which takes the first batch of the window.
    Here,
    /// A thread: under this ticket, or the first to finish if None.
    Of(Option<u64>),
}

/// Batches that a consumer has pushed and not popped yet. Owned by one consumer thread at a time.
///
/// With a pool, threads start to fetch batches as soon as they are pushed, unless fetching is cheap, which is measured
/// continuously. A batch that takes about as long as waking a thread is fetched by an awake thread or by the consumer,
/// whichever is first. A cheaper batch, or any batch without a pool, is fetched by the consumer when it is popped. The
/// consumer decides how many batches are ahead by how many it pushes. Dropping the window lets running fetches finish
/// by themselves and does not wait for them, because the caller may hold what they need to finish (Python's lock, for
/// example). [`join`](Self::join) waits for them.
///
/// The fetch and its threads may borrow values that live as long as `'scope`.
pub struct Prefetch<'scope, B = Batch> {
    fetch: Arc<dyn Fetch<B> + 'scope>,
    threads: Option<Arc<dyn Spawn<'scope> + 'scope>>,
    delivery: Delivery,
    window: VecDeque<Entry>,
    work: Arc<Work<'scope, B>>,
    blocks_ahead: BlocksAhead,
    tasks: Arc<Tasks>,
    next_ticket: u64,
    generation: u64,
}

impl Prefetch<'static> {
    /// Returns an empty window over `fetch`.
    #[must_use]
    pub fn new(fetch: Arc<dyn Fetch>, pool: Option<Arc<Pool>>, delivery: Delivery) -> Self {
        Self::over(fetch, pool.map(|pool| pool as Arc<dyn Spawn<'static>>), delivery)
    }

    /// Reports the sizes of batches to `bytes_ahead`, and counts batches that are ready there. The consumer asks
    /// `bytes_ahead` how many batches may be in flight.
    #[must_use]
    pub fn with_bytes_ahead(mut self, bytes_ahead: Arc<BytesAhead>) -> Self {
        self.work = Arc::new(self.work.cleared().counted(bytes_ahead, Batch::slot_bytes));
        self
    }
}

impl<'scope, B: Send + 'scope> Prefetch<'scope, B> {
    /// Returns an empty window over `fetch`, on these threads.
    pub(crate) fn over(
        fetch: Arc<dyn Fetch<B> + 'scope>,
        threads: Option<Arc<dyn Spawn<'scope> + 'scope>>,
        delivery: Delivery,
    ) -> Self {
        Self {
            work: Arc::new(Work::new(&fetch)),
            fetch,
            threads,
            delivery,
            window: VecDeque::new(),
            blocks_ahead: BlocksAhead::default(),
            tasks: Arc::default(),
            next_ticket: 0,
            generation: generation(),
        }
    }

    /// Returns the number of batches that are pushed and not popped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// True if there is nothing to pop.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// Adds a batch to the end of the window. Never waits.
    ///
    /// # Errors
    /// [`Error::Threads`](crate::Error::Threads) if the pool cannot be started; the batch is then not in the window.
    pub fn push(&mut self, batch: IndexBatch) -> Result<()> {
        self.enter_process();
        self.window.push_back(Entry::Waiting(Arc::new(batch)));
        self.start_waiting().inspect_err(|_| drop(self.window.pop_back()))
    }

    /// Announces the blocks that the batches after `batch`, the last one pushed, need; batches are numbered in order.
    /// `look` puts some indices of a batch into a vector, evenly spread over the batch, or none if there is no such
    /// batch. Never waits, and does nothing for a dataset without blocks.
    pub fn look_ahead(&mut self, batch: usize, mut look: impl FnMut(usize, &mut Vec<usize>)) {
        let under_way = ((batch + 1).saturating_sub(self.window.len()), batch);
        // Announcing reads no samples, so a panic here belongs to no batch; a later read of the same blocks or indices
        // reports it.
        ignore_panic(|| {
            if let Some(blocks) = self.fetch.blocks() {
                self.blocks_ahead.advance(blocks, under_way, &mut look);
            }
        });
    }

    /// Removes the next batch from the window and returns its request and its result. Returns None if the window is
    /// empty, or if `patience` runs out first (the batch then stays in the window).
    ///
    /// An error affects only this batch: the next `pop` continues with the next one.
    pub fn pop(&mut self, patience: Duration) -> Option<(IndexBatch, Result<B>)> {
        self.enter_process();
        let wanted = match self.turn()? {
            Turn::Here => return Some(self.fetch_here(0)),
            Turn::Of(wanted) => wanted,
        };
        self.fetch_unclaimed(wanted);
        self.help(wanted);
        let now = Instant::now();
        let deadline = match self.delivery {
            // While a thread fetches a slow batch, a batch that has not started must not wait for it.
            Delivery::AsCompleted if self.window.iter().any(|entry| !entry.is_started()) => now,
            _ => now.checked_add(patience).unwrap_or_else(|| now + FOR_EVER),
        };
        let Some((ticket, batch)) = self.work.reorder.take(wanted, deadline) else {
            let waiting = self.window.iter().position(|entry| !entry.is_started());
            return waiting.filter(|_| wanted.is_none()).map(|place| self.fetch_here(place));
        };
        Some(self.arrived(ticket, batch))
    }

    /// Removes and returns the next batch if the caller must fetch it and that may take long. The caller fetches it
    /// separately from the window, which may be used meanwhile.
    pub fn take_long(&mut self) -> Option<Unfetched<'scope, B>> {
        self.enter_process();
        if self.work.pace.worth() != Worth::Thread || !matches!(self.turn()?, Turn::Here) {
            return None;
        }
        let indices = self.window.pop_front()?.into_indices();
        Some(Unfetched { fetch: Arc::clone(&self.fetch), work: Arc::clone(&self.work), indices })
    }

    /// Like [`pop`](Self::pop) without waiting: wakes `context` when the next batch has arrived. A batch that no thread
    /// has started is fetched immediately by the caller. Feature `futures`.
    #[cfg(feature = "futures")]
    pub fn poll_pop(&mut self, context: &mut Context<'_>) -> Poll<Option<(IndexBatch, Result<B>)>> {
        self.enter_process();
        let wanted = match self.turn() {
            None => return Poll::Ready(None),
            Some(Turn::Here) => return Poll::Ready(Some(self.fetch_here(0))),
            Some(Turn::Of(wanted)) => wanted,
        };
        self.fetch_unclaimed(wanted);
        self.help(wanted);
        if let Some((ticket, batch)) = self.work.reorder.poll(wanted, context.waker()) {
            return Poll::Ready(Some(self.arrived(ticket, batch)));
        }
        match self.window.iter().position(|entry| !entry.is_started()).filter(|_| wanted.is_none()) {
            Some(place) => Poll::Ready(Some(self.fetch_here(place))),
            None => Poll::Pending,
        }
    }

    /// While the batch of `wanted` has not arrived, fetches batches that no thread has started: that one, or the next,
    /// which the consumer would soon wait for. Wakes threads if more work remains.
    fn fetch_unclaimed(&self, wanted: Option<u64>) {
        let Some(wanted) = wanted else { return };
        while !self.work.reorder.has(Some(wanted)) {
            let Some((ticket, indices)) = self.work.unclaimed.claim(wanted) else { return };
            self.call_thread();
            self.work.run(ticket, indices);
        }
    }

    /// Wakes one more thread to take unstarted batches, if there are any and a processor is free.
    fn call_thread(&self) {
        let Some(threads) = &self.threads else { return };
        if !self.work.unclaimed.wants_thread(threads.threads().min(spare_processors())) {
            return;
        }
        let (work, tasks) = (Arc::clone(&self.work), Arc::clone(&self.tasks));
        let called = threads.spawn(Box::new(move || {
            for _ in 0..MOST_OF_A_CALL {
                let Some(_running) = tasks.begin() else { return };
                let Some((ticket, indices)) = work.unclaimed.claim_on_thread() else { return };
                work.run(ticket, indices);
            }
            work.unclaimed.uncount_thread();
        }));
        if called.is_err() {
            // The consumer then does all the work.
            self.work.unclaimed.uncount_thread();
        }
    }

    /// On a thread of the pool: runs the tasks that this thread would wait for, because possibly no other thread can
    /// run them.
    fn help(&self, wanted: Option<u64>) {
        if let Some(threads) = self.threads.as_ref().filter(|threads| threads.can_help()) {
            while !self.work.reorder.has(wanted) && threads.help() {}
        }
    }

    /// Returns who fetches the next batch, or None if there is none.
    fn turn(&self) -> Option<Turn> {
        Some(match (self.delivery, self.window.front()?) {
            (Delivery::InOrder, Entry::Waiting(_)) => Turn::Here,
            (Delivery::InOrder, Entry::Started(ticket, _)) => Turn::Of(Some(*ticket)),
            (Delivery::AsCompleted, _) if !self.window.iter().any(Entry::is_started) => Turn::Here,
            (Delivery::AsCompleted, _) => Turn::Of(None),
        })
    }

    /// Removes the entry of `ticket`, whose batch has arrived, from the window.
    fn arrived(&mut self, ticket: u64, batch: Result<B>) -> (IndexBatch, Result<B>) {
        let place = self.window.iter().position(|entry| matches!(entry, Entry::Started(of, _) if *of == ticket));
        let entry = place.and_then(|place| self.window.remove(place));
        let indices = entry.expect("every ticket that is put belongs to an entry of the window").into_indices();
        (Arc::unwrap_or_clone(indices), batch)
    }

    /// Fetches the waiting entry at `place` on the calling thread.
    fn fetch_here(&mut self, place: usize) -> (IndexBatch, Result<B>) {
        let indices = self.window.remove(place).expect("the caller has seen an entry").into_indices();
        let batch = self.work.fetch_here(&*self.fetch, &indices);
        (Arc::unwrap_or_clone(indices), batch)
    }

    /// Hands waiting batches to the pool, if there is one and the batches are worth it.
    fn start_waiting(&mut self) -> Result<()> {
        let Some(threads) = &self.threads else { return Ok(()) };
        let worth = self.work.pace.worth();
        // With this delivery the consumer itself picks up batches that have not started.
        let finds = self.delivery == Delivery::AsCompleted;
        if worth == Worth::Nothing || (worth == Worth::ThreadAwake && finds) {
            return Ok(());
        }
        for entry in &mut self.window {
            let Entry::Waiting(indices) = entry else { continue };
            let (ticket, indices) = (self.next_ticket, Arc::clone(indices));
            let task_indices = Arc::clone(&indices);
            if worth == Worth::ThreadAwake {
                self.work.unclaimed.offer(ticket, task_indices);
            } else {
                let (work, tasks) = (Arc::clone(&self.work), Arc::clone(&self.tasks));
                threads.spawn(Box::new(move || {
                    let Some(_running) = tasks.begin() else { return };
                    work.run(ticket, task_indices);
                }))?;
            }
            *entry = Entry::Started(ticket, indices);
            self.next_ticket += 1;
        }
        Ok(())
    }
}

/// A batch that was removed from its window before it was fetched.
pub struct Unfetched<'scope, B> {
    fetch: Arc<dyn Fetch<B> + 'scope>,
    work: Arc<Work<'scope, B>>,
    indices: Arc<IndexBatch>,
}

impl<B> Unfetched<'_, B> {
    /// Fetches the batch; returns its request and its result.
    pub fn fetch(self) -> (IndexBatch, Result<B>) {
        let batch = self.work.fetch_here(&*self.fetch, &self.indices);
        (Arc::unwrap_or_clone(self.indices), batch)
    }
}

/// Returns the number of processors that the consumer leaves free. The system call takes longer than a batch, so its
/// result is cached.
fn spare_processors() -> usize {
    // An atomic, because a lock might be held at a fork. 0 until the first query.
    static PROCESSORS: AtomicUsize = AtomicUsize::new(0);
    let mut processors = PROCESSORS.load(Ordering::Relaxed);
    if processors == 0 {
        processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        PROCESSORS.store(processors, Ordering::Relaxed);
    }
    processors - 1
}

impl<B> Prefetch<'_, B> {
    /// Discards the pushed batches: no further fetch starts, and running fetches have finished when this returns. When
    /// called on a thread of the pool, it does not wait, because the fetch to wait for may be the one that was
    /// interrupted to run the caller.
    pub fn join(&mut self) {
        self.enter_process();
        self.tasks.cancel();
        self.window.clear();
        if !self.threads.as_ref().is_some_and(|threads| threads.has_current_thread()) {
            self.tasks.join();
        }
        self.work.reorder.close();
        (self.tasks, self.work) = (Arc::default(), Arc::new(self.work.cleared()));
    }

    /// Starts over in a forked child, where the running threads do not exist, and a lock's holder may be missing too.
    fn enter_process(&mut self) {
        let generation = generation();
        if self.generation == generation {
            return;
        }
        self.generation = generation;
        // Leaked instead of dropped: a lock inside may have been held at the fork.
        let cleared = Arc::new(self.work.cleared());
        std::mem::forget(std::mem::replace(&mut self.work, cleared));
        std::mem::forget(std::mem::take(&mut self.tasks));
        for entry in &mut self.window {
            if let Entry::Started(_, indices) = entry {
                *entry = Entry::Waiting(Arc::clone(indices));
            }
        }
    }
}

impl<B> Drop for Prefetch<'_, B> {
    fn drop(&mut self) {
        // In a forked child no task could start, and the lock inside may have been held at the fork.
        if self.generation == generation() {
            self.tasks.cancel();
            self.work.reorder.close();
        }
    }
}
