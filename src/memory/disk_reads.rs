//! How often a thread had to wait for the disk.

/// How many blocks this thread has had read from disks, and how many of its accesses to mapped memory had to wait for one: a
/// number that stays as it is while all that is read lies in memory.
pub(crate) fn disk_reads() -> libc::c_long {
    // SAFETY: a zeroed `rusage` is a valid value of this C structure of numbers.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: it points to a structure that lives through the call.
    let refused = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    debug_assert_eq!(refused, 0, "a thread may ask about itself");
    usage.ru_majflt + usage.ru_inblock
}
