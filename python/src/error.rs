//! The only mapping from the core's errors to Python's exceptions.

use std::io::ErrorKind;
use std::path::Path;

use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sluicegate::Error;

/// `sluicegate.DamagedImageError`, which is defined in Python: a class defined here could have only one base.
static DAMAGED_IMAGE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns the Python exception for `error`: of the type that torch raises, if torch has this error, too.
pub(super) fn to_python(py: Python<'_>, error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::User(user) => match user.downcast::<PyErr>() {
            Ok(exception) => exception.clone_ref(py),
            Err(other) => PyRuntimeError::new_err(other.to_string()),
        },
        Error::IndexOutOfRange { .. } => PyIndexError::new_err(message),
        Error::Io { path, source } => os_error(&path, &source),
        Error::Shrunk { .. } | Error::Changed { .. } | Error::Process { .. } => PyOSError::new_err(message),
        Error::LengthMismatch { .. }
        | Error::SchemaMismatch { .. }
        | Error::InvalidArgument { .. }
        | Error::Format { .. }
        | Error::Sample { .. }
        | Error::State { .. } => PyValueError::new_err(message),
        Error::Image { .. } => damaged_image(py, message),
        // Also `Error::OutOfMemory`: torch raises RuntimeError if its allocator has no memory, and code that recovers
        // from that catches it.
        _ => PyRuntimeError::new_err(message),
    }
}

/// Returns `sluicegate.DamagedImageError(message)`.
pub(super) fn damaged_image(py: Python<'_>, message: String) -> PyErr {
    let class = DAMAGED_IMAGE.import(py, "sluicegate.image.damaged", "DamagedImageError");
    match class.and_then(|class| class.call1((message,))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Returns `OSError(errno, text, path)`, which Python itself turns into `FileNotFoundError` and its siblings.
fn os_error(path: &Path, source: &std::io::Error) -> PyErr {
    match source.raw_os_error() {
        Some(errno) => {
            let text = source.to_string();
            // Python adds the number itself.
            let text = text.split(" (os error").next().unwrap_or_default();
            let text = format!("{text}{}", limit_hint(source));
            PyOSError::new_err((errno, text, path.as_os_str().to_owned()))
        }
        None => PyOSError::new_err(format!("{}: {source}", path.display())),
    }
}

/// Returns what to do about a limit that was reached.
fn limit_hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::OutOfMemory => {
            " (address space for a mapping of the whole file: raise the limit, ulimit -v, or for many files vm.max_map_count)"
        }
        _ if source.raw_os_error() == Some(libc::EMFILE) => " (close other files, or raise the limit, ulimit -n)",
        _ => "",
    }
}

/// Returns the error for a word that is not a valid value of `argument`.
pub(super) fn unknown(argument: &'static str, found: &str) -> Error {
    Error::InvalidArgument { argument, reason: format!("unknown value `{found}`") }
}
