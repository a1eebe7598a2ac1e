//! Checks that paths are local: a URL is rejected as a URL, instead of as a missing file.

use std::path::Path;

use crate::error::{Error, Result};

/// Fails if `path` is a URL, unless a file of that name exists.
///
/// # Errors
/// [`Error::InvalidArgument`] for `argument`, with the scheme of the URL and what to do instead.
pub(crate) fn check_readable(argument: &'static str, path: &Path) -> Result<()> {
    check(argument, path, "download it first, or read it as a stream (`StreamSource::Command` with a download command)")
}

/// Like [`check_readable`], for a file to be written, or a folder to write files to.
///
/// # Errors
/// As [`check_readable`].
pub(crate) fn check_writable(argument: &'static str, path: &Path) -> Result<()> {
    check(argument, path, "give a local path, and upload the files afterwards")
}

fn check(argument: &'static str, path: &Path, remedy: &str) -> Result<()> {
    let Some(scheme) = scheme_of(path).filter(|_| path.symlink_metadata().is_err()) else { return Ok(()) };
    let remedy = if scheme.eq_ignore_ascii_case("file") { "give the path without `file:`" } else { remedy };
    let reason = format!("expected a local path, got the URL {path:?} with the scheme `{scheme}`; {remedy}");
    Err(Error::invalid(argument, reason))
}

/// Returns the scheme of `path`, as in `s3://bucket/key`. A single slash is enough after `file:`.
fn scheme_of(path: &Path) -> Option<&str> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let colon = bytes.iter().position(|&byte| !(byte.is_ascii_alphanumeric() || b"+.-".contains(&byte)))?;
    let (scheme, rest) = bytes.split_at(colon);
    let scheme = std::str::from_utf8(scheme).ok().filter(|scheme| scheme.starts_with(|c: char| c.is_alphabetic()))?;
    let is_url = rest.starts_with(b"://") || (scheme.eq_ignore_ascii_case("file") && rest.starts_with(b":/"));
    is_url.then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_have_a_scheme() {
        let scheme = |path: &'static str| scheme_of(Path::new(path));
        for (path, expected) in [
            ("https://host/a.tar", "https"),
            ("s3://bucket/key", "s3"),
            ("git+ssh://host", "git+ssh"),
            ("file:///a", "file"),
            ("FILE:/a", "FILE"),
        ] {
            assert_eq!(scheme(path), Some(expected), "{path}");
        }
        for path in
            ["", "/a/https://b", "a/s3://b", "s3:/b", "s3:b", "://a", "1s://a", "a b://c", "file:a", "é://a", "a"]
        {
            assert_eq!(scheme(path), None, "{path}");
        }
    }
}
