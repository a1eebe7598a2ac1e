//! [`TorchGenerator::randperm`]: torch's shuffle.

use super::TorchGenerator;
use crate::error::{Error, Result};

/// From this length on torch uses another algorithm, because the remainder of a 32-bit draw would be biased by 5 %.
const WIDE_FROM: usize = (u32::MAX / 20) as usize;

impl TorchGenerator {
    /// Returns `torch.randperm(len, generator=generator)` on the CPU, index for index, and leaves the generator where
    /// torch leaves its own.
    ///
    /// Source: both of torch's algorithms, the ascending Fisher-Yates shuffle for short orders and the inside-out variant
    /// for orders of 2^32 / 20 or more indices.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no memory for `len` indices; the generator is then unchanged.
    ///
    /// # Example
    /// ```
    /// use sluicegate::TorchGenerator;
    ///
    /// let mut generator = TorchGenerator::new(0);
    /// assert_eq!(generator.randperm(5)?, [4, 0, 1, 3, 2]);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn randperm(&mut self, len: usize) -> Result<Vec<usize>> {
        let mut order = Vec::new();
        order.try_reserve_exact(len).map_err(|refusal| Error::invalid("len", format!(
                "no memory for an order of {len} indices ({refusal}); with a seed (`seed=`), the order is computed, not \
                 stored"
            )))?;
        if len < WIDE_FROM {
            order.extend(0..len);
            for position in 0..len.saturating_sub(1) {
                // `len` is below 2^32 here, so the draw and the division use 32 bits, which is fastest.
                let drawn = self.random_u32() % (len - position) as u32;
                order.swap(position, position + drawn as usize);
            }
        } else {
            for index in 0..len {
                let drawn = (self.random_u64() % (index as u64 + 1)) as usize;
                // If the draw is `index` itself, the push alone completes the exchange.
                order.push(index);
                order[index] = order[drawn];
                order[drawn] = index;
            }
        }
        Ok(order)
    }
}

/// Returns how many 32-bit draws [`randperm`](TorchGenerator::randperm) takes for `len` indices.
pub(crate) fn randperm_draws(len: usize) -> u64 {
    if len < WIDE_FROM { len.saturating_sub(1) as u64 } else { (len as u64).saturating_mul(2) }
}
