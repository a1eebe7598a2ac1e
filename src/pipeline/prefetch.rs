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

/// The patience of a consumer whose own is more than a clock can count.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// So many batches does a thread fetch that was called: then others have their turn who share the threads.
const MOST_OF_A_CALL: usize = 64;

/// In which order batches reach the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// In the order in which they were pushed.
    #[default]
    InOrder,
    /// As they are completed, so that a slow one holds up no other.
    AsCompleted,
}

/// A batch of the window.
enum Entry {
    /// Nobody has begun to fetch it; the consumer does when its turn comes.
    Waiting(Arc<IndexBatch>),
    /// A thread has it, under this ticket, or takes it if the consumer does not come first.
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

/// Who fetches the next batch.
enum Turn {
    /// The consumer, who takes the first of the window.
    Here,
    /// A thread, under this ticket, or whichever is first.
    Of(Option<u64>),
}

/// What a consumer pushed and has not popped yet. Owned by one consumer thread at a time.
///
/// With a pool, batches are fetched on its threads as soon as they are pushed, unless they cost little, which is measured all
/// along: what takes about as long as to wake a thread is fetched by whoever is awake, a thread or the consumer, and what takes
/// less, or all without a pool, by the consumer when it is popped. How many are ahead is the consumer's choice:
/// it pushes as many as it wants. Dropping the window leaves running fetches to end by themselves, and waits for none: who
/// drops it may hold what they need to end (Python's lock, say). [`join`](Self::join) waits for them.
///
/// What fetches and runs may borrow what lives as long as `'scope`.
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
    /// An empty window over `fetch`.
    #[must_use]
    pub fn new(fetch: Arc<dyn Fetch>, pool: Option<Arc<Pool>>, delivery: Delivery) -> Self {
        Self::over(fetch, pool.map(|pool| pool as Arc<dyn Spawn<'static>>), delivery)
    }

    /// Has the sizes of batches told to `bytes_ahead`, and those counted there that are ready. How many may be under way the
    /// consumer asks it.
    #[must_use]
    pub fn with_bytes_ahead(mut self, bytes_ahead: Arc<BytesAhead>) -> Self {
        self.work = Arc::new(self.work.anew().counted(bytes_ahead, Batch::slot_bytes));
        self
    }
}

impl<'scope, B: Send + 'scope> Prefetch<'scope, B> {
    /// An empty window over `fetch`, on these threads.
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

    /// The number of batches pushed and not popped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether there is nothing to pop.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// Adds a batch at the end of the window. Never waits.
    ///
    /// # Errors
    /// [`Error::Threads`](crate::Error::Threads) when the pool can't be started; the batch is then not in the window.
    pub fn push(&mut self, batch: IndexBatch) -> Result<()> {
        self.enter_process();
        self.window.push_back(Entry::Waiting(Arc::new(batch)));
        self.start_waiting().inspect_err(|_| drop(self.window.pop_back()))
    }

    /// Has the blocks announced that the batches behind `batch` need, which was pushed last; they are numbered as they come.
    /// `look` puts some indices of a batch into a vector, evenly spread over it; none where there is no such batch. Never
    /// waits, and does nothing for a dataset without blocks.
    pub fn look_ahead(&mut self, batch: usize, mut look: impl FnMut(usize, &mut Vec<usize>)) {
        let under_way = ((batch + 1).saturating_sub(self.window.len()), batch);
        // Nothing is read by it, so a panic in it is nobody's error; who reads these blocks or indices will meet it.
        ignore_panic(|| {
            if let Some(blocks) = self.fetch.blocks() {
                self.blocks_ahead.advance(blocks, under_way, &mut look);
            }
        });
    }

    /// Takes the next batch out of the window: what was asked for, and what came of it. Nothing when `patience` ran out
    /// first (the batch then stays in the window), or the window is empty.
    ///
    /// An error is this batch's alone: the next `pop` goes on with the next one.
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
            // While a slow batch is on a thread, one that nobody has begun must not wait for it.
            Delivery::AsCompleted if self.window.iter().any(|entry| !entry.is_started()) => now,
            _ => now.checked_add(patience).unwrap_or_else(|| now + FOR_EVER),
        };
        let Some((ticket, batch)) = self.work.reorder.take(wanted, deadline) else {
            let waiting = self.window.iter().position(|entry| !entry.is_started());
            return waiting.filter(|_| wanted.is_none()).map(|place| self.fetch_here(place));
        };
        Some(self.arrived(ticket, batch))
    }

    /// The next batch, taken out of the window, if the caller has to fetch it and that may take long: apart from the window,
    /// which may be used meanwhile.
    #[cfg(feature = "python")]
    pub(crate) fn take_long(&mut self) -> Option<Unfetched<'scope, B>> {
        self.enter_process();
        if self.work.pace.worth() != Worth::Thread || !matches!(self.turn()?, Turn::Here) {
            return None;
        }
        let indices = self.window.pop_front()?.into_indices();
        Some(Unfetched { fetch: Arc::clone(&self.fetch), work: Arc::clone(&self.work), indices })
    }

    /// As [`pop`](Self::pop) without waiting: `context` is woken when the next batch has come. A batch that no thread has
    /// begun is fetched here and now. Feature `futures`.
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

    /// While the batch of `wanted` has not come, fetches what no thread has begun: that batch, or the next, which the consumer
    /// would soon wait for. Threads are called where there is more of it.
    fn fetch_unclaimed(&self, wanted: Option<u64>) {
        let Some(wanted) = wanted else { return };
        while !self.work.reorder.has(Some(wanted)) {
            let Some((ticket, indices)) = self.work.unclaimed.claim(wanted) else { return };
            self.call_thread();
            self.work.run(ticket, indices);
        }
    }

    /// Has one more thread take what nobody has begun, if there is such, and a processor for the thread.
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
            work.unclaimed.gone();
        }));
        if called.is_err() {
            // The consumer does it all, then.
            self.work.unclaimed.gone();
        }
    }

    /// On a thread of the pool: does what it would wait for, which nobody else may be there to do.
    fn help(&self, wanted: Option<u64>) {
        if let Some(threads) = self.threads.as_ref().filter(|threads| threads.can_help()) {
            while !self.work.reorder.has(wanted) && threads.help() {}
        }
    }

    /// Who fetches the batch that is next; nothing where there is none.
    fn turn(&self) -> Option<Turn> {
        Some(match (self.delivery, self.window.front()?) {
            (Delivery::InOrder, Entry::Waiting(_)) => Turn::Here,
            (Delivery::InOrder, Entry::Started(ticket, _)) => Turn::Of(Some(*ticket)),
            (Delivery::AsCompleted, _) if !self.window.iter().any(Entry::is_started) => Turn::Here,
            (Delivery::AsCompleted, _) => Turn::Of(None),
        })
    }

    /// Takes the entry of `ticket`, whose batch has come, out of the window.
    fn arrived(&mut self, ticket: u64, batch: Result<B>) -> (IndexBatch, Result<B>) {
        let place = self.window.iter().position(|entry| matches!(entry, Entry::Started(of, _) if *of == ticket));
        let entry = place.and_then(|place| self.window.remove(place));
        let indices = entry.expect("every ticket that is put belongs to an entry of the window").into_indices();
        (Arc::unwrap_or_clone(indices), batch)
    }

    /// Fetches the entry at `place`, which waits, on the calling thread.
    fn fetch_here(&mut self, place: usize) -> (IndexBatch, Result<B>) {
        let indices = self.window.remove(place).expect("the caller has seen an entry").into_indices();
        let batch = self.work.fetch_here(&*self.fetch, &indices);
        (Arc::unwrap_or_clone(indices), batch)
    }

    /// Hands what waits to the pool, if there is one and the batches are worth it.
    fn start_waiting(&mut self) -> Result<()> {
        let Some(threads) = &self.threads else { return Ok(()) };
        let worth = self.work.pace.worth();
        // As they are completed, the consumer finds one that nobody has begun by itself.
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

/// A batch that was taken out of its window before it was fetched.
#[cfg(feature = "python")]
pub(crate) struct Unfetched<'scope, B> {
    fetch: Arc<dyn Fetch<B> + 'scope>,
    work: Arc<Work<'scope, B>>,
    indices: Arc<IndexBatch>,
}

#[cfg(feature = "python")]
impl<B> Unfetched<'_, B> {
    /// Fetches it: what was asked for, and what came of it.
    pub(crate) fn fetch(self) -> (IndexBatch, Result<B>) {
        let batch = self.work.fetch_here(&*self.fetch, &self.indices);
        (Arc::unwrap_or_clone(self.indices), batch)
    }
}

/// The processors that the consumer leaves. To ask for them takes longer than a batch.
fn spare_processors() -> usize {
    // Not a lock, which might be held at a fork. 0 while nobody has asked.
    static PROCESSORS: AtomicUsize = AtomicUsize::new(0);
    let mut processors = PROCESSORS.load(Ordering::Relaxed);
    if processors == 0 {
        processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        PROCESSORS.store(processors, Ordering::Relaxed);
    }
    processors - 1
}

impl<B> Prefetch<'_, B> {
    /// Forgets what was pushed: of that nothing begins any more, and what runs has ended when this returns. Called on a thread
    /// of the pool itself it waits for nothing: what it would wait for may be what was interrupted to run the caller.
    pub fn join(&mut self) {
        self.enter_process();
        self.tasks.cancel();
        self.window.clear();
        if !self.threads.as_ref().is_some_and(|threads| threads.has_current_thread()) {
            self.tasks.join();
        }
        self.work.reorder.close();
        (self.tasks, self.work) = (Arc::default(), Arc::new(self.work.anew()));
    }

    /// In a forked child the threads that had begun are gone, and so may be the holder of a lock: begin again.
    fn enter_process(&mut self) {
        let generation = generation();
        if self.generation == generation {
            return;
        }
        self.generation = generation;
        // Leaked, not dropped: a lock inside may have been held at the fork.
        let anew = Arc::new(self.work.anew());
        std::mem::forget(std::mem::replace(&mut self.work, anew));
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
        // In a forked child there is none that could begin, and the lock inside may have been held at the fork.
        if self.generation == generation() {
            self.tasks.cancel();
            self.work.reorder.close();
        }
    }
}
