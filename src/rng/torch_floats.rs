//! The floats that torch draws: `uniform_` and `normal_` of float32 tensors on the CPU.

use std::f64::consts::PI;

use super::TorchGenerator;
use super::normal_block::{BLOCK, are_made_by_vectors, fill_by_library, fill_by_vectors};

impl TorchGenerator {
    /// Returns `torch.rand(1)`: one of the 2^24 multiples of 2^-24 below 1.
    ///
    /// # Example
    /// ```
    /// use sluicegate::TorchGenerator;
    /// // torch.rand(1, generator=torch.Generator().manual_seed(0))
    /// assert_eq!(TorchGenerator::new(0).rand_f32(), 0.496_256_6);
    /// ```
    #[inline]
    pub fn rand_f32(&mut self) -> f32 {
        (self.random_u32() & 0x00ff_ffff) as f32 * (1.0 / (1_u32 << 24) as f32)
    }

    /// Returns `torch.empty(1).uniform_(low, high)`. Multiplication and addition are rounded once, as in torch on
    /// processors with a fused instruction (x86-64 with AVX2, AArch64).
    ///
    /// # Example
    /// ```
    /// use sluicegate::TorchGenerator;
    /// // torch.empty(1).uniform_(0.1, 2.0, generator=torch.Generator().manual_seed(0))
    /// assert_eq!(TorchGenerator::new(0).uniform_f32(0.1, 2.0), 1.042_887_6);
    /// ```
    #[inline]
    pub fn uniform_f32(&mut self, low: f32, high: f32) -> f32 {
        self.rand_f32().mul_add(high - low, low)
    }

    /// Returns `torch.empty(len).normal_()`, bit for bit, and leaves the generator where torch leaves its own. Fewer
    /// than 16 values are drawn in pairs of float64, the second of which is kept for the next draw; more are drawn in
    /// blocks of 16 values, and the last block is redrawn if `len` is not a multiple of 16. (This matches torch 2.15 on
    /// Linux; elsewhere the last bit may differ, because the C library's logarithm, sine, and cosine do.)
    ///
    /// # Example
    /// ```
    /// use sluicegate::TorchGenerator;
    /// // torch.empty(2).normal_(generator=torch.Generator().manual_seed(0))
    /// assert_eq!(TorchGenerator::new(0).normal_f32(2), [1.540_996_1, -0.293_428_9]);
    /// ```
    #[must_use]
    pub fn normal_f32(&mut self, len: usize) -> Vec<f32> {
        self.normal_f32_by(len, |blocks| {
            let are_made_by_vectors = are_made_by_vectors();
            for block in blocks {
                if are_made_by_vectors {
                    fill_by_vectors(block, f32::mul_add);
                } else {
                    fill_by_library(block);
                }
            }
        })
    }

    /// Like `normal_f32`, with a custom function that turns blocks of uniform deviates into normal ones.
    pub(crate) fn normal_f32_by(&mut self, len: usize, fill: impl Fn(&mut [[f32; BLOCK]])) -> Vec<f32> {
        if len < BLOCK {
            return (0..len).map(|_| self.normal_f64() as f32).collect();
        }
        let mut values: Vec<f32> = (0..len).map(|_| self.rand_f32()).collect();
        let (blocks, rest) = values.as_chunks_mut::<BLOCK>();
        fill(blocks);
        if !rest.is_empty() {
            let mut last = [[0.0; BLOCK]];
            last[0].fill_with(|| self.rand_f32());
            fill(&mut last);
            values[len - BLOCK..].copy_from_slice(&last[0]);
        }
        values
    }

    pub(super) fn normal_f64(&mut self) -> f64 {
        if let Some(kept) = self.kept_normal.take() {
            return kept;
        }
        let [around, out] = [self.rand_f64(), self.rand_f64()];
        let radius = (-2.0 * (-out).ln_1p()).sqrt();
        let (sine, cosine) = (2.0 * PI * around).sin_cos();
        self.kept_normal = Some(radius * sine);
        radius * cosine
    }

    /// Returns `torch.multinomial(weights, 1)` for builds of torch that make exponential deviates one by one: each
    /// weight is divided by one deviate, and the index of the first maximum is returned. (Some builds of torch use a
    /// library for the deviates: compare a few values first.)
    ///
    /// # Example
    /// ```
    /// use sluicegate::TorchGenerator;
    /// // torch.multinomial(torch.tensor([0.2, 0.3, 0.5]), 1, generator=torch.Generator().manual_seed(0))
    /// assert_eq!(TorchGenerator::new(0).multinomial_f32(&[0.2, 0.3, 0.5]), 2);
    /// ```
    pub fn multinomial_f32(&mut self, weights: &[f32]) -> usize {
        let mut largest = (0, f32::NEG_INFINITY);
        for (index, weight) in weights.iter().enumerate() {
            let share = weight / -(-self.rand_f64()).ln_1p() as f32;
            if share > largest.1 {
                largest = (index, share);
            }
        }
        largest.0
    }

    pub(super) fn rand_f64(&mut self) -> f64 {
        (self.random_u64() & ((1 << 53) - 1)) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}
