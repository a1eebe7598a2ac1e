//! [`Lock`]: the right to make a file that many processes need.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::system::uname;

use crate::watch;
use crate::{Error, Result};

/// Whoever has a lock for longer is taken for stuck, unless `SLUICEGATE_LOCK_SECONDS` says otherwise: one that is dead has none.
const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// The longest sleep between two looks.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The right to make what is to be at some path. The operating system takes it from a process that dies, and no forked child
/// inherits it. Two threads of one process may both have it: then both make the file, and one of the two stays.
pub(super) struct Lock {
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Waits for the lock of `path`; nothing when there can't be a file there. On a file system without locks everybody has
    /// it at once.
    ///
    /// # Errors
    /// [`Error::Io`] when another process has it for too long.
    pub(super) fn at(path: &Path) -> Result<Option<Self>> {
        Self::before(path, deadline())
    }

    fn before(path: &Path, deadline: Duration) -> Result<Option<Self>> {
        if path.parent().is_none_or(|folder| fs::create_dir_all(folder).is_err()) {
            return Ok(None);
        }
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let path = PathBuf::from(lock);
        let Ok(mut file) = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path) else {
            return Ok(None);
        };
        let (begin, mut sleep) = (Instant::now(), Duration::from_millis(1));
        // Asked again and again: the system call that waits has no deadline.
        while let Err(Errno::ACCESS | Errno::AGAIN | Errno::INTR) =
            fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
        {
            if begin.elapsed() >= deadline {
                return Err(too_long(path, &mut file, deadline));
            }
            watch::advance(0)?;
            thread::sleep(sleep);
            sleep = (sleep * 2).min(LONGEST_SLEEP);
        }
        // For those who wait. Who can't write it has the lock all the same.
        let _ = file
            .set_len(0)
            .and_then(|()| write!(file, "process {} on {}", process::id(), uname().nodename().to_string_lossy()));
        Ok(Some(Self { _file: file, path }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Who waits for this very file still gets the lock of it, sees what was made, and is content.
        let _ = fs::remove_file(&self.path);
    }
}

fn deadline() -> Duration {
    let said = env::var("SLUICEGATE_LOCK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    said.map_or(DEADLINE, Duration::from_secs)
}

fn too_long(path: PathBuf, file: &mut File, deadline: Duration) -> Error {
    let mut holder = String::new();
    let _ = file.rewind().and_then(|()| file.take(200).read_to_string(&mut holder));
    let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
    let reason = format!(
        "{holder} has had this lock for {} s, and makes what this process needs: wait for it, end it, or set \
         SLUICEGATE_LOCK_SECONDS to wait longer",
        deadline.as_secs()
    );
    Error::Io { path, source: io::Error::new(io::ErrorKind::TimedOut, reason) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_lock_is_waited_for_until_the_deadline_and_its_holder_is_named() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a/index");
        drop(Lock::at(&path).unwrap().unwrap());
        assert!(!folder.path().join("a/index.lock").exists());
        // Another process: the operating system does not tell threads apart.
        let holder = "import fcntl, sys\nfile = open(sys.argv[1], 'w')\nfcntl.lockf(file, fcntl.LOCK_EX)\n\
                      file.write('process 7 on there')\nfile.flush()\nprint('ready', flush=True)\nsys.stdin.read()";
        let started = Command::new("python3")
            .args(["-c", holder])
            .arg(folder.path().join("a/index.lock"))
            .stdin(process::Stdio::piped())
            .stdout(process::Stdio::piped())
            .spawn();
        let Ok(mut started) = started else { return };
        let mut ready = [0; 5];
        started.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let refused = Lock::before(&path, Duration::from_millis(20)).err().unwrap().to_string();
        assert!(refused.contains("index.lock: process 7 on there has had this lock"), "{refused}");
        // One that dies has it no more.
        started.kill().unwrap();
        assert!(Lock::before(&path, Duration::from_secs(60)).unwrap().is_some());
        started.wait().unwrap();
    }
}
