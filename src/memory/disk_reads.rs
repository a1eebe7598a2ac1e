//! Counts how often a thread waited for the disk.

/// Returns the number of blocks that were read from disk for this thread, plus its number of major page faults. The
/// number does not change while everything that is read is in memory.
pub(crate) fn disk_reads() -> libc::c_long {
    // SAFETY: a zeroed `rusage` is a valid value of this C structure of numbers.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: the pointer is to a structure that outlives the call.
    let refused = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    debug_assert_eq!(refused, 0, "a thread may ask about itself");
    usage.ru_majflt + usage.ru_inblock
}
