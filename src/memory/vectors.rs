//! [`run_on_vectors`]: arithmetic on arrays, by the widest vectors that the machine has.

/// Work that gains by wide vectors. Implementors write `#[inline(always)]` on [`run`](Self::run) and on all that it calls:
/// only what is inlined is compiled for them.
pub(crate) trait Kernel {
    type Output;

    fn run<M: MultiplyAdd>(self) -> Self::Output;
}

/// How a product is added: rounded once where the processor has an instruction for both, as torch has it there too.
pub(crate) trait MultiplyAdd {
    /// `a * b + c`.
    fn multiply_add(a: f32, b: f32, c: f32) -> f32;
}

struct Fused;

impl MultiplyAdd for Fused {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

#[cfg(target_arch = "x86_64")]
struct Separate;

#[cfg(target_arch = "x86_64")]
impl MultiplyAdd for Separate {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// Runs the kernel, by AVX2 where there is any.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run_on_vectors<K: Kernel>(kernel: K) -> K::Output {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { run_on_avx2(kernel) };
    }
    kernel.run::<Separate>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_on_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}

/// Runs the kernel: the vectors that every such processor has are the widest that are counted on.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn run_on_vectors<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}
