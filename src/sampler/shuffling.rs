//! [`Shuffling`]: whether an order is random.

/// True if an order is random, and of which seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shuffling {
    /// The same in every epoch, as the sampler describes it.
    #[default]
    Off,
    /// Random, and another in every epoch: a pure function of this seed and the epoch.
    Seeded(u64),
}
