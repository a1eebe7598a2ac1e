//! Shares that sum to one, as torch draws them: `torch._sample_dirichlet`.

use super::TorchGenerator;

impl TorchGenerator {
    /// Returns `torch._sample_dirichlet(torch.full((len,), alpha))`.
    ///
    /// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
    pub(crate) fn dirichlet_f32(&mut self, alpha: f32, len: usize) -> Vec<f32> {
        let gammas: Vec<f64> = (0..len).map(|_| self.gamma(alpha.into())).collect();
        let sum: f64 = gammas.iter().sum();
        // As in torch: no share is 0 or 1.
        let limited = |share: f64| (share as f32).clamp(f32::MIN_POSITIVE, 1.0 - f32::EPSILON / 2.0);
        gammas.into_iter().map(|gamma| limited(gamma / sum)).collect()
    }

    /// Draws a gamma deviate in double precision; torch's constants have single precision.
    fn gamma(&mut self, alpha: f64) -> f64 {
        let (mut scale, mut shape) = (1.0, alpha);
        if alpha < 1.0 {
            if alpha == 0.0 {
                return 0.0;
            }
            scale = (1.0 - self.rand_f64()).powf(1.0 / alpha);
            shape += 1.0;
        }
        let d = shape - f64::from(1.0_f32 / 3.0);
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal_f64();
            let y = 1.0 + c * x;
            if y <= 0.0 {
                continue;
            }
            let v = y * y * y;
            let u = 1.0 - self.rand_f64();
            let square = x * x;
            let is_taken =
                u < 1.0 - f64::from(0.0331_f32) * square * square || u.ln() < 0.5 * square + d * (1.0 - v + v.ln());
            if is_taken {
                return scale * d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_any_concentration_are_torchs() {
        // torch._sample_dirichlet(torch.full((3,), alpha)), the last of 40 calls, which include rejected draws, and the
        // next torch.empty((), dtype=torch.int64).random_().
        let golden = [
            (0.2, [0.356_213_42, 0.007_658_4, 0.636_128_2], 6761526708943467879),
            (0.5, [0.306_208_16, 0.050_027_248, 0.643_764_6], 766635192903173568),
            (1.0, [0.528_888_6, 0.409_790_64, 0.061_320_81], 1931671111240692333),
            (3.0, [0.332_295_4, 0.327_944_37, 0.339_760_24], 5311356895217202892),
        ];
        for (alpha, last, next) in golden {
            let mut generator = TorchGenerator::new(1);
            let found = (0..40).map(|_| generator.dirichlet_f32(alpha, 3)).last();
            assert_eq!(found.as_deref(), Some(&last[..]), "{alpha}");
            assert_eq!(generator.random_int64(), next, "{alpha}");
        }
    }
}
