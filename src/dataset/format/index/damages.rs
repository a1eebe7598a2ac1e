//! [`Damages`]: what is done about samples that can't be read.

/// What is done about samples that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Damages {
    /// The first one is an error.
    #[default]
    Refuse,
    /// They are left out, and what is whole is read. Where it is unknown where the next sample begins, as after a
    /// damaged header of an archive, the rest of the file is left out, too. Those of a stream keep their ordinals.
    LeaveOut,
}
