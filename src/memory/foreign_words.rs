//! [`ForeignWords`]: numbers inside an object that another library owns.

use std::ptr::{self, NonNull};

use crate::{Error, Result};

/// The 32-bit words in which another library keeps its generator's state, read and written in place.
///
/// Before it passes an address, the Python package locates the state in a generator of its own: it searches the object
/// for known words, writes to them, and checks that the library sees the change.
pub struct ForeignWords {
    address: NonNull<u32>,
    len: usize,
}

// SAFETY: the callers of `read` and `write` promise that no other code reads or writes the words meanwhile.
unsafe impl Send for ForeignWords {}
// SAFETY: as for `Send`.
unsafe impl Sync for ForeignWords {}

impl ForeignWords {
    /// Returns the `len` words at `address`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the address is null or not aligned to 4 bytes.
    ///
    /// # Safety
    /// `address` must point to `len` words that exist as long as the returned value.
    pub unsafe fn at(address: usize, len: usize) -> Result<Self> {
        match NonNull::new(ptr::with_exposed_provenance_mut::<u32>(address)) {
            Some(address) if address.is_aligned() => Ok(Self { address, len }),
            _ => Err(Error::invalid("address", format!("{address:#x} is not the address of {len} words of 32 bits"))),
        }
    }

    /// Copies all words to `into`. The caller must hold the lock that the words' owner holds while it draws: the GIL,
    /// or the owner's own lock.
    ///
    /// # Panics
    /// If the length of `into` differs.
    pub fn read(&self, into: &mut [u32]) {
        assert_eq!(into.len(), self.len, "room for all words");
        // SAFETY: the creator of `self` guarantees the words, and the caller prevents their owner from writing
        // meanwhile; `into` is exclusively borrowed, so the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(self.address.as_ptr(), into.as_mut_ptr(), self.len) };
    }

    /// Replaces all words. The caller must hold the lock that the words' owner holds while it draws: the GIL, or the
    /// owner's own lock.
    ///
    /// # Panics
    /// If the length of `from` differs.
    pub fn write(&self, from: &[u32]) {
        assert_eq!(from.len(), self.len, "all words");
        // SAFETY: as in `read`, and the owner does not read the words meanwhile.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.address.as_ptr(), self.len) };
    }
}
