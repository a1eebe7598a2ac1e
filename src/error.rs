//! [`Error`]: every way that loading can fail, with the index, file, or shape, and the remedy.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// An error while data is loaded.
///
/// Each message names the object (index, file, field, or argument), what was expected, and what to change. A user's own
/// error passes through the core as [`Error::User`], unchanged.
///
/// # Example
/// ```
/// use sluicegate::Error;
/// let error = Error::IndexOutOfRange { index: 12, len: 10 };
/// assert!(error.to_string().contains("index 12 is out of range"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A sampler requested a sample that the dataset does not have.
    #[error(
        "index {index} is out of range for a dataset of {len} samples; \
         give the sampler the length of this dataset, or remove the index from it"
    )]
    IndexOutOfRange {
        /// The requested index.
        index: usize,
        /// The number of samples in the dataset.
        len: usize,
    },

    /// Datasets or arrays that are read together have different lengths.
    #[error(
        "size mismatch: {first} has {first_len} samples but {other} has {other_len}; datasets that are read together \
         need the same length"
    )]
    LengthMismatch {
        /// The name of the part that set the length.
        first: String,
        /// Its number of samples.
        first_len: usize,
        /// The name of the part that differs.
        other: String,
        /// Its number of samples.
        other_len: usize,
    },

    /// Parts of a concatenation have samples of different schemas.
    #[error(
        "schema mismatch: part {part} holds samples of {found}, but part 0 holds samples of {expected}; \
         concatenate datasets with equal fields, data types and shapes"
    )]
    SchemaMismatch {
        /// The position of the part that differs.
        part: usize,
        /// The schema of the first part.
        expected: String,
        /// The schema of the part that differs.
        found: String,
    },

    /// An invalid argument.
    #[error("{argument}: {reason}")]
    InvalidArgument {
        /// The name of the argument.
        argument: &'static str,
        /// The given value, and what is expected.
        reason: String,
    },

    /// The operating system refused an operation on a file.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// A file does not conform to its format.
    #[error("{path}, byte {offset}: {reason}", path = .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The position in the file, in bytes from its start.
        offset: u64,
        /// What was found, what is expected, and what to do.
        reason: String,
    },

    /// A sample does not match its field.
    #[error("sample {index}, field `{field}`: {reason}")]
    Sample {
        /// The index of the sample.
        index: usize,
        /// The name of the field.
        field: String,
        /// What was found, what is expected, and what to do.
        reason: String,
    },

    /// A field is not an image that can be decoded, or its boxes or mask do not fit it.
    #[error("sample {index}, field `{field}`: {reason}")]
    Image {
        /// The index of the sample.
        index: usize,
        /// The name of the field.
        field: String,
        /// What was found, what is expected, and what to do.
        reason: String,
    },

    /// A file has changed since it was opened or indexed.
    #[error(
        "{path} changed while it was in use: {reason}; do not modify the file while a loader reads it, or open the \
         dataset again", path = .path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },

    /// A file became shorter after it was opened.
    #[error(
        "{path} shrank since it was opened: {expected} bytes then, {found} bytes now; \
         do not modify the file while a loader reads it, or open the dataset again", path = .path.display()
    )]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// The number of bytes when it was opened or indexed.
        expected: u64,
        /// The number of bytes that remain.
        found: u64,
    },

    /// The operating system could not allocate memory for batches.
    #[error(
        "no memory for a batch: could not allocate {bytes} bytes ({source}); \
         lower batch_size or prefetch_factor, keep fewer batches, or raise the limit (ulimit -v, cgroup)"
    )]
    OutOfMemory {
        /// The number of bytes requested.
        bytes: usize,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// The operating system could not provide memory to share with worker processes.
    #[error(
        "no memory to share with worker processes: {operation} failed for {bytes} bytes ({source}); \
         raise the limit ({limit}), or load with threads"
    )]
    SharedMemory {
        /// The operation that failed.
        operation: &'static str,
        /// The number of bytes to share.
        bytes: usize,
        /// The limit that may be the cause.
        limit: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// A worker process produced a batch that is larger than the memory it may write to.
    #[error(
        "a batch of {bytes} bytes does not fit into the {room} bytes of shared memory that a worker has: the address \
         space is limited (ulimit -v); raise the limit, or lower batch_size or num_workers"
    )]
    SlotTooSmall {
        /// The number of bytes that the batch needs, as far as known.
        bytes: usize,
        /// The number of bytes available.
        room: usize,
    },

    /// A worker process and its consumer sent invalid messages: other code has overwritten the memory of one of them.
    #[error("{reason}; a native extension may have overwritten memory of this package")]
    Worker {
        /// What is invalid.
        reason: String,
    },

    /// Other code in this process has closed a file descriptor of this crate.
    #[error(
        "other code in this process closed a file descriptor of this package; close only descriptors that you opened \
         (os.closerange closes all in its range)"
    )]
    Closed,

    /// The fetching threads could not be started.
    #[error(
        "{threads} fetching threads could not be started ({reason}); lower num_workers, or raise the limit (ulimit -u, \
         ulimit -v, or pids.max of the cgroup)"
    )]
    Threads {
        /// The number of threads requested.
        threads: usize,
        /// The operating system's error.
        reason: String,
    },

    /// A fetch panicked: a defect of the dataset that it read, of the collate, of the sampler whose order it queried,
    /// or of this crate.
    #[error(
        "{what} panicked: {message}; this is a bug in the dataset's `read`, the collate function, or the sampler; \
         report it to its author",
        what = .index.map_or_else(|| "a fetch".to_owned(), |index| format!("reading sample {index}"))
    )]
    Panic {
        /// The index of the sample that was read, if known.
        index: Option<usize>,
        /// The panic message.
        message: String,
    },

    /// A program whose output is read has failed.
    #[error(
        "`{command}` failed ({status}){said}", said = if .stderr.is_empty() { String::new() } else { format!(": {stderr}") }
    )]
    Process {
        /// The command.
        command: String,
        /// Its exit status.
        status: String,
        /// The last lines of its standard error.
        stderr: String,
    },

    /// A state that does not belong to this loader, or is not a state at all.
    #[error("this state can't be loaded: {reason}")]
    State {
        /// What differs, on both sides.
        reason: String,
    },

    /// An error of user code, passed through unchanged.
    #[error(transparent)]
    User(Box<dyn std::error::Error + Send + Sync>),
}

/// The result of every fallible operation in this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns [`Error::InvalidArgument`].
    pub(crate) fn invalid(argument: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidArgument { argument, reason: reason.into() }
    }
}

/// Runs `work`; a panic becomes an error.
pub(crate) fn catch<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // The data that the work was writing is dropped with its error, so no code sees it half written.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        discard_panic(panic);
        Err(Error::Panic { index: None, message })
    })
}

/// Runs `work` and discards any panic: there is no batch whose error it could be.
pub(crate) fn ignore_panic(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        discard_panic(panic);
    }
}

/// Drops a panic's payload. It may be a user's value, whose drop panics too.
pub(crate) fn discard_panic(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(again);
    }
}
