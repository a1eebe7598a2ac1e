//! [`ShuffledBlocks`]: the blocks of an epoch in their random order.

/// A window of an epoch: its number, the position where it starts, and its number of samples.
pub(super) struct Window {
    pub(super) number: u64,
    pub(super) start: u64,
    pub(super) len: u64,
}

/// The blocks of an epoch in their random order, window by window.
pub(super) trait ShuffledBlocks: Send + Sync {
    /// Returns the window that contains `position`, which must be in the epoch.
    fn window_of(&self, position: u64) -> Window;

    /// Replaces places in the window, whose samples are listed block after block, with the indices of the samples at
    /// those places.
    fn look_up(&self, window: &Window, places: &mut [usize]);
}
