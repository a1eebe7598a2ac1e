//! Counts how often a thread had to wait for the disk.

/// Returns how many blocks were read from disks for this thread, plus how many of its accesses to mapped memory had to
/// wait for one. The number does not change while everything that is read is in memory.
pub(crate) fn disk_reads() -> libc::c_long {
    // SAFETY: a zeroed `rusage` is a valid value of this C structure of numbers.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: the pointer is to a structure that outlives the call.
    let refused = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    debug_assert_eq!(refused, 0, "a thread may ask about itself");
    usage.ru_majflt + usage.ru_inblock
}
