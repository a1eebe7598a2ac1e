//! [`StreamSource`]: the source of the bytes of a stream.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::StreamProcess;
use crate::dataset::StopSignal;
use crate::local_path::check_readable;
use crate::{Error, Result};

/// A source whose bytes are read sequentially.
///
/// # Example
/// ```
/// use sluicegate::StreamSource;
///
/// let command = StreamSource::Command("zcat train.jsonl.gz".into());
/// assert_eq!(command.name().to_str(), Some("pipe:zcat train.jsonl.gz"));
/// assert!(command.is_repeatable());
/// ```
#[derive(Debug, Clone)]
pub enum StreamSource {
    /// A path to a file, a FIFO or a device.
    Path(PathBuf),
    /// What a shell command writes to its standard output. An error if the environment has
    /// `SLUICEGATE_ALLOW_PIPE=0`.
    Command(String),
    /// A descriptor that is already open, and its name. It is read once, from its current position.
    Open(Arc<OwnedFd>, String),
}

impl StreamSource {
    /// Its name in messages: a path, or `pipe:` and the command.
    #[must_use]
    pub fn name(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Command(command) => format!("pipe:{command}").into(),
            Self::Open(_, name) => name.into(),
        }
    }

    /// True if it can be read again from its beginning, and by several readers at once.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            // A path that does not exist yet is assumed to become a file.
            Self::Path(path) => fs::metadata(path).map_or(true, |found| found.is_file() || found.is_dir()),
            Self::Command(_) => true,
            Self::Open(..) => false,
        }
    }

    pub(super) fn open(&self, stop: &StopSignal) -> Result<SourceBytes> {
        let io = |source| Error::Io { path: self.name(), source };
        let (file, process) = match self {
            Self::Path(path) => {
                check_readable("path", path)?;
                let found = fs::metadata(path).map_err(io)?;
                if found.is_dir() {
                    return Err(io(io::Error::from_raw_os_error(libc::EISDIR)));
                }
                // Opening a FIFO would wait for a writer, and could not be interrupted.
                let flags = if found.is_file() { 0 } else { libc::O_NONBLOCK | libc::O_NOCTTY };
                (OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io)?, None)
            }
            Self::Command(command) => {
                let (process, stdout) = StreamProcess::start(command)?;
                (File::from(OwnedFd::from(stdout)), Some(process))
            }
            Self::Open(file, _) => (File::from(file.try_clone().map_err(io)?), None),
        };
        let is_regular = file.metadata().map_err(io)?.is_file();
        let failure = Failure::default();
        Ok(SourceBytes { name: self.name(), file, is_regular, process, stop: stop.clone(), failure })
    }
}

/// True if the environment allows commands to be run. Any value except `1` and an empty one forbids them.
pub(crate) fn commands_are_allowed() -> bool {
    env::var_os("SLUICEGATE_ALLOW_PIPE").is_none_or(|value| value.is_empty() || value == "1")
}

/// Why the bytes ended early: stored separately, because decompressors hide the error.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    pub(super) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, error: Error) -> io::Error {
        let text = error.to_string();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        io::Error::other(text)
    }
}

/// The bytes of an open source. Setting its signal interrupts waiting for them.
#[derive(Debug)]
pub(super) struct SourceBytes {
    name: PathBuf,
    process: Option<StreamProcess>,
    file: File,
    is_regular: bool,
    stop: StopSignal,
    failure: Failure,
}

impl SourceBytes {
    pub(super) fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// The size of a regular file.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.is_regular.then(|| self.file.metadata().ok()).flatten().map(|found| found.len())
    }

    /// Seeks to byte `offset` of a regular file.
    pub(super) fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset)).map(drop)
    }

    /// The current position in a regular file.
    pub(super) fn begin(&mut self) -> io::Result<Option<u64>> {
        if self.is_regular { self.file.stream_position().map(Some) } else { Ok(None) }
    }

    /// True if a read would block now.
    pub(super) fn would_wait(&self) -> bool {
        let mut files = [PollFd::new(&self.file, PollFlags::IN)];
        !self.is_regular && poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    /// Waits until there is something to read, or the end.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            if self.stop.is_set() {
                let source = ErrorKind::Interrupted.into();
                return Err(self.failure.set(Error::Io { path: self.name.clone(), source }));
            }
            if self.is_regular {
                return Ok(());
            }
            let stderr = self.process.as_ref().and_then(StreamProcess::stderr);
            let files = [Some(self.file.as_fd()), Some(self.stop.file()), stderr];
            let mut files: Vec<PollFd<'_>> =
                files.into_iter().flatten().map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
            let polled = poll(&mut files, None);
            let is_ready = !files[0].revents().is_empty();
            if files.get(2).is_some_and(|stderr| !stderr.revents().is_empty())
                && let Some(process) = &mut self.process
            {
                process.read_stderr();
            }
            match polled {
                Ok(_) if is_ready => return Ok(()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for SourceBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match self.file.read(into) {
                Ok(0) if !into.is_empty() => {
                    if let Some(process) = &mut self.process {
                        process.finish(&self.stop).map_err(|error| self.failure.set(error))?;
                    }
                    return Ok(0);
                }
                Ok(read) => return Ok(read),
                // Another reader has taken the bytes, or a signal came.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(source) => return Err(self.failure.set(Error::Io { path: self.name.clone(), source })),
            }
        }
    }
}
