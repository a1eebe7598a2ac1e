//! `TrivialAugmentWide`, `RandAugment` and `AutoAugment`.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Interpolation, Operation};
use super::super::torchvision::Torchvision;
use super::super::transform_arguments::AugmentPolicy;
use super::augment_policy::policies;
use super::magnitude::{Augmentation, Reach, has_two_directions, magnitude, operation, signed};
use crate::TorchGenerator;

/// Number of magnitude steps in AutoAugment.
const AUTO_BINS: usize = 10;

/// The choices, in torchvision's order.
const CHOICES: [Augmentation; 14] = [
    Augmentation::Identity,
    Augmentation::ShearX,
    Augmentation::ShearY,
    Augmentation::TranslateX,
    Augmentation::TranslateY,
    Augmentation::Rotate,
    Augmentation::Brightness,
    Augmentation::Color,
    Augmentation::Contrast,
    Augmentation::Sharpness,
    Augmentation::Posterize,
    Augmentation::Solarize,
    Augmentation::AutoContrast,
    Augmentation::Equalize,
];

/// AugMix's choices, in torchvision's order.
pub(super) const MIXED: [Augmentation; 13] = [
    Augmentation::ShearX,
    Augmentation::ShearY,
    Augmentation::TranslateX,
    Augmentation::TranslateY,
    Augmentation::Rotate,
    Augmentation::Posterize,
    Augmentation::Solarize,
    Augmentation::AutoContrast,
    Augmentation::Equalize,
    Augmentation::Brightness,
    Augmentation::Color,
    Augmentation::Contrast,
    Augmentation::Sharpness,
];

/// The interpolation and fill of warps.
type Warp<'a> = (Interpolation, &'a [f32]);

/// Source: Müller and Hutter, "TrivialAugment: tuning-free yet state-of-the-art data augmentation", ICCV 2021.
pub(in super::super) fn trivial(
    (shape, version): (&ImageShape, Torchvision),
    bins: usize,
    warp: Warp<'_>,
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) -> Result<(), Reason> {
    if bins == 0 {
        return Err("num_magnitude_bins: expected at least 1, but got 0".into());
    }
    let chosen = choose(generator);
    let mut strength = 0.0;
    // The presence of a magnitude does not depend on its index.
    if magnitude(chosen, (Reach::Wide, version, shape), bins, 0).is_some() {
        let index = generator.random_below(bins as u64) as usize;
        strength = magnitude(chosen, (Reach::Wide, version, shape), bins, index).unwrap_or_default();
        strength = signed(chosen, strength, version, generator);
    }
    into.extend(operation(chosen, strength, (version, shape.dtype), warp));
    Ok(())
}

/// Source: Cubuk et al., "RandAugment: practical automated data augmentation with a reduced search space", NeurIPS 2020
pub(in super::super) fn rand(
    (shape, version): (&ImageShape, Torchvision),
    num_ops: usize,
    (index, bins): (usize, usize),
    warp: Warp<'_>,
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) -> Result<(), Reason> {
    if index >= bins {
        return Err(format!("magnitude: expected an integer below {bins} (num_magnitude_bins), got {index}"));
    }
    for _ in 0..num_ops {
        let chosen = choose(generator);
        let strength = magnitude(chosen, (Reach::Usual, version, shape), bins, index);
        let strength = strength.map_or(0.0, |strength| signed(chosen, strength, version, generator));
        into.extend(operation(chosen, strength, (version, shape.dtype), warp));
    }
    Ok(())
}

/// Source: Cubuk et al., "AutoAugment: learning augmentation strategies from data", CVPR 2019.
pub(in super::super) fn auto(
    (shape, version): (&ImageShape, Torchvision),
    policy: AugmentPolicy,
    warp: Warp<'_>,
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) {
    let policies = policies(policy);
    let steps = &policies[generator.random_below(policies.len() as u64) as usize];
    let drawn = match version {
        Torchvision::V1 => auto_draws_of_v1(generator),
        Torchvision::V2 => [None; 2],
    };
    for (&(chosen, probability, index), drawn) in steps.iter().zip(drawn) {
        // The comparison is written so that, as in torch, the operation is applied if the drawn number equals the
        // probability.
        if drawn.map_or_else(|| generator.rand_f32(), |(number, _)| number) <= probability {
            let strength = magnitude(chosen, (Reach::Usual, version, shape), AUTO_BINS, index);
            let strength = strength.map_or(0.0, |strength| match drawn {
                Some((_, is_opposite)) if is_opposite && has_two_directions(chosen) => -strength,
                Some(_) => strength,
                None => signed(chosen, strength, version, generator),
            });
            into.extend(operation(chosen, strength, (version, shape.dtype), warp));
        }
    }
}

/// Draws, for both steps, the number to compare with its probability and the sign of its magnitude: v1 draws all of
/// them before it applies a step.
fn auto_draws_of_v1(generator: &mut TorchGenerator) -> [Option<(f32, bool)>; 2] {
    let numbers = [generator.rand_f32(), generator.rand_f32()];
    numbers.map(|number| Some((number, generator.random_below(2) == 0)))
}

fn choose(generator: &mut TorchGenerator) -> Augmentation {
    CHOICES[generator.random_below(CHOICES.len() as u64) as usize]
}
