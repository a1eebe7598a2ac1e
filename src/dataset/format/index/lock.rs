//! [`Lock`]: the exclusive right to create a file that many processes need.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_lock};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::system::uname;

use crate::dataset::format::file::access::{folder_of, is_at, make_private_folder};
use crate::watch;
use crate::{Error, Result};

/// Default of `SLUICEGATE_LOCK_SECONDS`: a longer wait means that the holder is stuck. A dead process holds no lock.
const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// The longest sleep between two attempts.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The exclusive right to create the file at some path. The operating system releases it if the process dies; forked
/// children don't inherit it. Two threads of a process can both hold it: both make the file, one of which stays.
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Waits for the lock of `path`. `None` if no file can be created there, or there is something that this user did
    /// not make: a link, a FIFO, a file of another user. On a file system without locks, all get it at once.
    ///
    /// # Errors
    /// [`Error::Io`] if another process holds it for too long.
    pub(crate) fn at(path: &Path) -> Result<Option<Self>> {
        Self::before(path, deadline())
    }

    fn before(path: &Path, deadline: Duration) -> Result<Option<Self>> {
        if make_private_folder(folder_of(path)).is_err() {
            return Ok(None);
        }
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let path = PathBuf::from(lock);
        let (begin, mut sleep) = (Instant::now(), Duration::from_millis(1));
        let mut file = loop {
            let Some(mut file) = open_if_own(&path) else { return Ok(None) };
            // Polled, because the blocking system call has no timeout.
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::ACCESS | Errno::AGAIN | Errno::INTR) => {}
                // The previous holder may have removed the file since it was opened.
                _ if is_at(&file, &path) => break file,
                _ => continue,
            }
            if begin.elapsed() >= deadline {
                return Err(too_long(path, &mut file, deadline));
            }
            drop(file);
            watch::advance(0)?;
            thread::sleep(sleep);
            sleep = (sleep * 2).min(LONGEST_SLEEP);
        };
        // For the errors of waiting processes. If the write fails, the lock is held all the same.
        let _ = file
            .set_len(0)
            .and_then(|()| write!(file, "process {} on {}", process::id(), uname().nodename().to_string_lossy()));
        Ok(Some(Self { file, path }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens the lock file at `path`, creating it if needed; `None` if this user did not make what is there, which must not
/// be written to.
fn open_if_own(path: &Path) -> Option<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?);
    let found = file.metadata().ok()?;
    // A hard link could be any other file of this user.
    (found.is_file() && found.nlink() <= 1 && found.uid() == geteuid().as_raw()).then_some(file)
}

fn deadline() -> Duration {
    let seconds = env::var("SLUICEGATE_LOCK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    seconds.map_or(DEADLINE, Duration::from_secs)
}

fn too_long(path: PathBuf, file: &mut File, deadline: Duration) -> Error {
    let mut holder = String::new();
    let _ = file.rewind().and_then(|()| file.take(200).read_to_string(&mut holder));
    let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
    let reason = format!(
        "{holder} has held this lock for {} s, and is creating what this process needs; wait for it, end it, or set \
         SLUICEGATE_LOCK_SECONDS to wait longer",
        deadline.as_secs()
    );
    Error::Io { path, source: io::Error::new(io::ErrorKind::TimedOut, reason) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use rustix::fs::{CWD, FileType, mknodat};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn foreign_files_at_the_lock_path_are_not_touched() {
        let folder = TempDir::new().unwrap();
        let (path, lock, other) =
            (folder.path().join("index"), folder.path().join("index.lock"), folder.path().join("other"));
        fs::write(&other, "of others").unwrap();
        symlink(&other, &lock).unwrap();
        assert!(Lock::at(&path).unwrap().is_none(), "a link");
        fs::remove_file(&lock).unwrap();
        symlink(folder.path().join("missing"), &lock).unwrap();
        assert!(Lock::at(&path).unwrap().is_none() && !folder.path().join("missing").exists(), "a link to nothing");
        fs::remove_file(&lock).unwrap();
        fs::hard_link(&other, &lock).unwrap();
        assert!(Lock::at(&path).unwrap().is_none(), "another name of a file");
        fs::remove_file(&lock).unwrap();
        mknodat(CWD, &lock, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(Lock::at(&path).unwrap().is_none(), "a FIFO");
        assert!(fs::symlink_metadata(&lock).is_ok(), "it is not removed either");
        assert_eq!(fs::read(&other).unwrap(), b"of others");
    }

    #[test]
    fn waiting_for_a_lock_times_out_and_names_its_holder() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a/index");
        drop(Lock::at(&path).unwrap().unwrap());
        assert!(!folder.path().join("a/index.lock").exists());
        // In another process, because these locks do not exclude threads of the same process.
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
        assert!(refused.contains("index.lock: process 7 on there has held this lock"), "{refused}");
        // A dead process loses the lock.
        started.kill().unwrap();
        assert!(Lock::before(&path, Duration::from_secs(60)).unwrap().is_some());
        started.wait().unwrap();
    }
}
