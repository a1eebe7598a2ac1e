//! [`ForeignWords`]: numbers inside of an object that belongs to somebody else.

use std::ptr::{self, NonNull};

use crate::{Error, Result};

/// Words of 32 bits that another library has its generator's state in, read and written where they are.
///
/// Whoever makes one vouches for the address, and holds the object that has the words as long as this lives. That can't
/// be checked here; the one who does it, the Python package, finds the place in a generator of its own by searching the
/// object for known words, writes to it, and asks the library whether it sees them, before it hands in an address.
pub(crate) struct ForeignWords {
    address: NonNull<u32>,
    len: usize,
}

// SAFETY: reading and writing is up to the callers of `read` and `write`, who promise that nobody interferes.
unsafe impl Send for ForeignWords {}
// SAFETY: as for `Send`.
unsafe impl Sync for ForeignWords {}

impl ForeignWords {
    /// The `len` words at `address`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when no words can be at that address.
    pub(crate) fn at(address: usize, len: usize) -> Result<Self> {
        match NonNull::new(ptr::with_exposed_provenance_mut::<u32>(address)) {
            Some(address) if address.is_aligned() => Ok(Self { address, len }),
            _ => Err(Error::InvalidArgument {
                argument: "address",
                reason: format!("{address:#x} is not the address of {len} words of 32 bits"),
            }),
        }
    }

    /// Copies all words to `into`. The caller holds what the owner of the words holds while it draws: the GIL, or its lock.
    ///
    /// # Panics
    /// When `into` has another length.
    pub(crate) fn read(&self, into: &mut [u32]) {
        assert_eq!(into.len(), self.len, "room for all words");
        // SAFETY: the maker of `self` vouches for the words, and the caller keeps their owner from writing meanwhile; `into`
        // is exclusively borrowed, so the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(self.address.as_ptr(), into.as_mut_ptr(), self.len) };
    }

    /// Replaces all words. The caller holds what the owner of the words holds while it draws: the GIL, or its lock.
    ///
    /// # Panics
    /// When `from` has another length.
    pub(crate) fn write(&self, from: &[u32]) {
        assert_eq!(from.len(), self.len, "all words");
        // SAFETY: as in `read`, and the owner reads nothing of them meanwhile.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.address.as_ptr(), self.len) };
    }
}
