//! The memory that this process may use: read when memory is laid out, and for error messages.

use std::fs;

/// Returns the machine's memory in bytes; 64 GiB if it cannot be determined.
pub(crate) fn physical_bytes() -> usize {
    let pages = usize::try_from(rustix::system::sysinfo().totalram).unwrap_or(usize::MAX);
    let unit = usize::try_from(rustix::system::sysinfo().mem_unit).unwrap_or(1);
    match pages.saturating_mul(unit.max(1)) {
        0 => 64 << 30,
        bytes => bytes,
    }
}

/// Returns the address space that a limit (`ulimit -v`) leaves to this process in bytes, or None if there is no limit.
pub(crate) fn address_space_left() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    // The first number is the size of the whole address space, in pages.
    let taken = fs::read_to_string("/proc/self/statm").ok();
    let taken = taken.and_then(|text| text.split(' ').next()?.parse::<usize>().ok()).unwrap_or(0);
    Some(usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(taken.saturating_mul(rustix::param::page_size())))
}
