//! [`Drawing`]: the random draws of samples, made without reading them.

use crate::{Result, TorchGenerator};

/// Follows the draws of random samples that are read one after the other with a single generator, as a worker of
/// torch's loader reads them: the draws of a sample begin where those of the previous one end.
///
/// The draws of a batch are followed in batch order before it is read. The generator positions recorded on the way
/// ([`TorchGenerator::place`]) let any thread read any of its samples at any time, through
/// [`SampleWriter::place`](crate::SampleWriter::place).
///
/// # Contract
/// - It is cheap: it reads only what the draws depend on, such as the size of an image.
/// - Reading the sample from the same position makes the same draws.
pub trait Drawing {
    /// True if samples may draw from Python's generator, too: generators must then have one.
    fn draws_from_python(&self) -> bool {
        false
    }

    /// Moves `generator` to where reading sample `index` would leave it.
    ///
    /// # Errors
    /// As [`Dataset::read`](crate::Dataset::read); the position of the generator is then unspecified.
    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()>;
}
