//! [`run_on_vectors`]: runs arithmetic on arrays with the widest vectors that the machine has.

use super::pair_sums::PairSums;

/// Work that benefits from wide vectors. Implementors put `#[inline(always)]` on [`run`](Self::run) and everything that
/// it calls: only inlined code is compiled for the wide vectors.
pub(crate) trait Kernel {
    type Output;

    fn run<M: MultiplyAdd>(self) -> Self::Output;
}

/// How to multiply and add.
pub(crate) trait MultiplyAdd {
    type Sums: PairSums;

    /// Returns `a * b + c`: rounded once if the processor has a fused instruction, as in torch.
    fn multiply_add(a: f32, b: f32, c: f32) -> f32;
}

struct Fused;

impl MultiplyAdd for Fused {
    #[cfg(target_arch = "x86_64")]
    type Sums = super::pair_sums::Avx2Sums;
    #[cfg(not(target_arch = "x86_64"))]
    type Sums = [i32; 8];

    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) struct Separate;

#[cfg(target_arch = "x86_64")]
impl MultiplyAdd for Separate {
    type Sums = [i32; 8];

    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// Runs the kernel, with AVX2 and FMA if the processor has both.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run_on_vectors<K: Kernel>(kernel: K) -> K::Output {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the features that the function was compiled for.
        return unsafe { run_on_avx2(kernel) };
    }
    kernel.run::<Separate>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_on_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}

/// Runs the kernel with the vectors that every processor of this architecture has.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn run_on_vectors<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    struct Polynomial;

    impl Kernel for Polynomial {
        type Output = f32;

        #[inline(always)]
        fn run<M: MultiplyAdd>(self) -> f32 {
            M::multiply_add(M::multiply_add(3.0, 2.0, 1.0), 2.0, 5.0)
        }
    }

    #[test]
    fn exact_results_are_the_same_on_every_processor() {
        assert_eq!((Polynomial.run::<Separate>(), run_on_vectors(Polynomial)), (19.0, 19.0));
    }
}
