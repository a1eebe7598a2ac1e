//! [`Shuffling`]: whether an order is random.

/// Selects a fixed or a random order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shuffling {
    /// The same order in every epoch: the one that the sampler describes.
    #[default]
    Off,
    /// A random order, different in every epoch: a pure function of this seed and the epoch.
    Seeded(u64),
}
