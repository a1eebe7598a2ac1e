//! [`Drawing`]: the draws of samples, apart from their reading.

use crate::{Result, TorchGenerator};

/// Follows the draws of random samples that are read one after the other with one generator, as a worker of torch's loader
/// reads them: where a sample's draws end, those of the next one begin.
///
/// The draws of a batch are followed in the batch's order before it is read; what is found there
/// ([`TorchGenerator::place`]) lets any thread read any of its samples at any time, by
/// [`SampleWriter::place`](crate::SampleWriter::place).
///
/// # Contract
/// - It is cheap: nothing is read but what the draws depend on, such as the size of an image.
/// - Reading the sample from the same place makes the same draws.
pub trait Drawing {
    /// Leaves `generator` where reading sample `index` leaves it.
    ///
    /// # Errors
    /// As [`Dataset::read`](crate::Dataset::read); the generator may then be anywhere.
    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()>;
}
