//! [`torch_exp`]: torch's exponential, computed by torch itself.

use std::sync::OnceLock;

use super::super::Reason;

/// A function that returns torch's exponential of a float32, or says why it cannot.
type TorchExp = fn(f32) -> Result<f32, Reason>;

static TORCH: OnceLock<TorchExp> = OnceLock::new();

/// Sets the function that asks torch for an exponential when its rounding makes an unpredictable difference: the
/// instructions that torch uses depend on the machine and on how it was built. Only the first call has an effect.
pub fn ask_torch(exp: TorchExp) {
    // A second function would give the same results.
    let _ = TORCH.set(exp);
}

/// Returns `torch.exp` of one float32; without torch, the float closest to the exact value.
pub(super) fn torch_exp(power: f32) -> Result<f32, Reason> {
    match TORCH.get() {
        Some(exp) => exp(power),
        None => Ok(f64::from(power).exp() as f32),
    }
}
