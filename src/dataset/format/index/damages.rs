//! [`Damages`]: how samples that can't be read are handled.

/// How samples that can't be read are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Damages {
    /// The first one raises an error.
    #[default]
    Refuse,
    /// They are left out, and intact samples are read. If the next sample boundary cannot be found, as after a damaged
    /// header in an archive, the rest of the file is left out, too. Samples of a stream keep their ordinals.
    LeaveOut,
}
