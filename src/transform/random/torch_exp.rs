//! [`torch_exp`]: torch's exponential, by torch itself.

use std::sync::OnceLock;

use super::super::Reason;

/// What gives torch's exponential of a float32, or says why it can't.
type TorchExp = fn(f32) -> Result<f32, Reason>;

static TORCH: OnceLock<TorchExp> = OnceLock::new();

/// Has torch asked for an exponential where its rounding makes a difference that nothing else can foresee: which instructions
/// it has depends on the machine and on how it was built. Only the first call has an effect.
#[cfg(feature = "python")]
pub(crate) fn ask_torch(exp: TorchExp) {
    // Another one would give the same.
    let _ = TORCH.set(exp);
}

/// What `torch.exp` gives for one float32; where there is no torch, the float next to the exact value.
pub(super) fn torch_exp(power: f32) -> Result<f32, Reason> {
    match TORCH.get() {
        Some(exp) => exp(power),
        None => Ok(f64::from(power).exp() as f32),
    }
}
