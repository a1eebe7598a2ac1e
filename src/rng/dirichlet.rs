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
