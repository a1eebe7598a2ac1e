//! [`StreamProcess`]: a program whose output is read.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::dataset::StopSignal;
use crate::{Error, Result};

/// Bytes of its standard error that are kept: the last ones.
const TAIL: usize = 2048;

/// The time that a program has to exit after it has closed its output.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time that a killed program has to exit, unless it hangs in the kernel.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// The polling interval on kernels without pidfds.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A running shell command, in its own process group, so that everything it has started is killed with it.
///
/// When dropped in the process that started it, it is killed and waited for.
#[derive(Debug)]
pub(super) struct StreamProcess {
    command: String,
    child: Child,
    /// Becomes readable when it has exited.
    handle: Option<OwnedFd>,
    stderr: Option<ChildStderr>,
    tail: Vec<u8>,
    /// The process that started it: a forked child must not kill what its parent reads.
    parent: u32,
    has_ended: bool,
}

impl StreamProcess {
    /// Runs `command` with `/bin/sh`; its standard input is empty.
    pub(super) fn start(command: &str) -> Result<(Self, ChildStdout)> {
        let io = |source| Error::Io { path: PathBuf::from(format!("pipe:{command}")), source };
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).process_group(0);
        let mut child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(io)?;
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        if let Some(stderr) = &stderr
            && let Ok(flags) = fcntl_getfl(stderr)
        {
            // If this fails, `read_stderr` may block until the command writes more or exits.
            let _ = fcntl_setfl(stderr, flags | OFlags::NONBLOCK);
        }
        let handle = pid(&child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let (command, parent) = (command.to_owned(), process::id());
        let process = Self { command, child, handle, stderr, tail: Vec::new(), parent, has_ended: false };
        match stdout {
            Some(stdout) => Ok((process, stdout)),
            None => Err(io(ErrorKind::BrokenPipe.into())),
        }
    }

    /// When this is readable, [`read_stderr`](Self::read_stderr) should be called.
    pub(super) fn stderr(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(AsFd::as_fd)
    }

    /// Reads its standard error, because the program would block once the pipe is full.
    pub(super) fn read_stderr(&mut self) {
        let mut text = [0; 4096];
        while let Some(stderr) = &mut self.stderr {
            match stderr.read(&mut text) {
                Ok(0) => self.stderr = None,
                Ok(read) => {
                    self.tail.extend(&text[..read]);
                    self.tail.drain(..self.tail.len().saturating_sub(TAIL));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.stderr = None,
            }
        }
    }

    /// Waits for it to exit, after it has closed its output. Returns early if `stop` is set.
    ///
    /// # Errors
    /// [`Error::Process`] if it has failed, or does not exit.
    pub(super) fn finish(&mut self, stop: &StopSignal) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended {
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    self.has_ended = true;
                    self.read_stderr();
                    return if status.success() { Ok(()) } else { Err(self.failure(status.to_string())) };
                }
                // Other code has waited for it, or SIGCHLD is ignored. It may have failed, with samples missing.
                Err(_) => {
                    self.has_ended = true;
                    self.read_stderr();
                    let status = "unknown exit status, because this program ignores SIGCHLD or waits for any child \
                                  process; use the default action of SIGCHLD, and wait for child processes by their \
                                  process IDs";
                    return Err(self.failure(status.into()));
                }
            }
            if stop.is_set() {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let status = format!("it closed its output, but is still running {} s later", PATIENCE.as_secs());
                return Err(self.failure(status));
            }
            self.wait(left, Some(stop));
            self.read_stderr();
        }
        Ok(())
    }

    /// Waits until it has exited, writes to standard error, or `stop` is set.
    fn wait(&self, limit: Duration, stop: Option<&StopSignal>) {
        let limit = if self.handle.is_some() { limit } else { limit.min(ASK_AGAIN) };
        let stop = stop.map(StopSignal::file);
        let files = [self.handle.as_ref().map(AsFd::as_fd), stop, self.stderr()];
        let mut files: Vec<PollFd<'_>> =
            files.into_iter().flatten().map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
        // The caller checks everything again, whatever ended the wait.
        let _ = poll(&mut files, Timespec::try_from(limit).ok().as_ref());
    }

    fn failure(&self, status: String) -> Error {
        let stderr = String::from_utf8_lossy(&self.tail).trim().to_owned();
        Error::Process { command: self.command.clone(), status, stderr }
    }
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

impl Drop for StreamProcess {
    fn drop(&mut self) {
        if self.has_ended || process::id() != self.parent {
            return;
        }
        // It was not waited for yet, so its PID, which is also that of its group, was not reused.
        if let Some(pid) = pid(&self.child) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let deadline = Instant::now() + LAST_PATIENCE;
        self.stderr = None;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            self.wait(deadline.saturating_duration_since(Instant::now()), None);
        }
    }
}
