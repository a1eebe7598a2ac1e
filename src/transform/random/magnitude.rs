//! [`Augmentation`]: the operations that policies choose from, and their strengths.

use super::super::image_shape::ImageShape;
use super::super::operation::{Frame, Interpolation, Operation};
use super::super::torchvision::Torchvision;
use crate::{DType, TorchGenerator};

/// One operation of an augmentation policy, with its name in the papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Augmentation {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
    Invert,
}

/// The range of the magnitudes.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// As in AutoAugment and RandAugment.
    Usual,
    /// As in TrivialAugment's wide space.
    Wide,
    /// As in AugMix.
    Mixed,
}

/// Returns magnitude `index` of `bins` equal steps, or None if the augmentation has no magnitudes.
pub(super) fn magnitude(
    augmentation: Augmentation,
    (reach, version, shape): (Reach, Torchvision, &ImageShape),
    bins: usize,
    index: usize,
) -> Option<f64> {
    let either = |usual: f64, wide: f64| match reach {
        Reach::Usual | Reach::Mixed => usual,
        Reach::Wide => wide,
    };
    let shift = |length: usize| match reach {
        Reach::Mixed => length as f64 / 3.0,
        _ => 150.0 / 331.0 * length as f64,
    };
    let (first, last) = match augmentation {
        Augmentation::ShearX | Augmentation::ShearY => (0.0, either(0.3, 0.99)),
        Augmentation::TranslateX => (0.0, either(shift(shape.width), 32.0)),
        Augmentation::TranslateY => (0.0, either(shift(shape.height), 32.0)),
        Augmentation::Rotate => (0.0, either(30.0, 135.0)),
        Augmentation::Brightness | Augmentation::Color | Augmentation::Contrast | Augmentation::Sharpness => {
            (0.0, either(0.9, 0.99))
        }
        Augmentation::Solarize => match version {
            Torchvision::V1 => (255.0, 0.0),
            Torchvision::V2 => (1.0, 0.0),
        },
        Augmentation::Posterize => {
            let bits_a_step = (bins.saturating_sub(1) as f64 / either(4.0, 6.0)) as f32;
            let most = if matches!(reach, Reach::Mixed) { 4.0 } else { 8.0 };
            let fewer = index as f32 / bits_a_step;
            return Some(match version {
                Torchvision::V1 => (most - fewer.round_ties_even()).into(),
                Torchvision::V2 => (most - fewer).round_ties_even().into(),
            });
        }
        Augmentation::Identity | Augmentation::AutoContrast | Augmentation::Equalize | Augmentation::Invert => {
            return None;
        }
    };
    Some(linspace(first as f32, last as f32, bins, index).into())
}

/// Returns element `index` of `torch.linspace(first, last, steps)`, which torch computes from both ends.
fn linspace(first: f32, last: f32, steps: usize, index: usize) -> f32 {
    if steps < 2 {
        return first;
    }
    let step = (last - first) / (steps - 1) as f32;
    if index < steps / 2 {
        step.mul_add(index as f32, first)
    } else {
        (-step).mul_add((steps - 1 - index) as f32, last)
    }
}

/// True if its magnitudes can be negated; only meaningful for augmentations with magnitudes.
pub(super) fn has_two_directions(augmentation: Augmentation) -> bool {
    !matches!(augmentation, Augmentation::Posterize | Augmentation::Solarize)
}

/// Returns the magnitude; if the augmentation has two directions, draws whether to negate it.
pub(super) fn signed(
    augmentation: Augmentation,
    magnitude: f64,
    version: Torchvision,
    generator: &mut TorchGenerator,
) -> f64 {
    let is_opposite = has_two_directions(augmentation)
        && match version {
            Torchvision::V1 => generator.random_below(2) == 1,
            Torchvision::V2 => generator.rand_f32() <= 0.5,
        };
    if is_opposite { -magnitude } else { magnitude }
}

/// Returns the operation; None for the identity.
pub(super) fn operation(
    augmentation: Augmentation,
    magnitude: f64,
    (version, dtype): (Torchvision, DType),
    (interpolation, fill): (Interpolation, &[f32]),
) -> Option<Operation> {
    let fill = || fill.to_vec();
    let affine = |translate, shear, center| Operation::Affine {
        angle: 0.0,
        translate,
        scale: 1.0,
        shear,
        interpolation,
        center,
        fill: fill(),
    };
    let factor = 1.0 + magnitude;
    // The papers shear by a length, the operation by an angle.
    let shear = magnitude.atan().to_degrees();
    Some(match augmentation {
        Augmentation::Identity => return None,
        Augmentation::ShearX => affine([0.0; 2], [shear, 0.0], Some([0.0; 2])),
        Augmentation::ShearY => affine([0.0; 2], [0.0, shear], Some([0.0; 2])),
        Augmentation::TranslateX => affine([magnitude.trunc(), 0.0], [0.0; 2], None),
        Augmentation::TranslateY => affine([0.0, magnitude.trunc()], [0.0; 2], None),
        Augmentation::Rotate => {
            Operation::Rotate { angle: magnitude, interpolation, frame: Frame::Same, center: None, fill: fill() }
        }
        Augmentation::Brightness => Operation::Brightness { factor },
        Augmentation::Color => Operation::Saturation { factor },
        Augmentation::Contrast => Operation::Contrast { factor },
        Augmentation::Sharpness => Operation::Sharpness { factor },
        Augmentation::Posterize => Operation::Posterize { bits: magnitude as u32 },
        Augmentation::Solarize => {
            let most = if dtype == DType::UInt8 && version == Torchvision::V2 { 255.0 } else { 1.0 };
            Operation::Solarize { threshold: most * magnitude }
        }
        Augmentation::AutoContrast => Operation::Autocontrast,
        Augmentation::Equalize => Operation::Equalize,
        Augmentation::Invert => Operation::Invert,
    })
}
