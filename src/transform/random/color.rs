//! `ColorJitter` and the other color transforms.

use super::super::Reason;
use super::super::operation::Operation;
use super::{gate, uniform};
use crate::TorchGenerator;

/// Returns the operation that repeats the channel of a gray image to `wanted` channels, or None for other images.
pub(in super::super) fn broadcast(channels: usize, wanted: usize) -> Option<Operation> {
    (channels == 1 && wanted > 1).then_some(Operation::RepeatChannels { channels: wanted })
}

/// Draws brightness, contrast, saturation, and hue, in random order.
pub(in super::super) fn jitter(
    ranges: [Option<[f64; 2]>; 4],
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) -> Result<(), Reason> {
    let order = permuted(ranges.len(), generator)?;
    let mut factors = [None; 4];
    for (factor, range) in factors.iter_mut().zip(ranges) {
        *factor = range.map(|range| uniform(range, generator)).transpose()?;
    }
    into.extend(order.into_iter().filter_map(|which| factors[which].map(|factor| adjust(which, factor))));
    Ok(())
}

fn adjust(which: usize, factor: f64) -> Operation {
    match which {
        0 => Operation::Brightness { factor },
        1 => Operation::Contrast { factor },
        2 => Operation::Saturation { factor },
        _ => Operation::Hue { factor },
    }
}

/// Draws the same four, each with probability `p`, contrast second or last, and a permutation of the channels.
pub(in super::super) fn distort(
    channels: usize,
    ranges: [[f64; 2]; 4],
    p: f64,
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) -> Result<(), Reason> {
    let mut factors = [None; 4];
    for (factor, range) in factors.iter_mut().zip(ranges) {
        if gate(p, generator) {
            *factor = Some(uniform(range, generator)?);
        }
    }
    let order = if gate(0.5, generator) { [0, 1, 2, 3] } else { [0, 2, 3, 1] };
    into.extend(order.into_iter().filter_map(|which| factors[which].map(|factor| adjust(which, factor))));
    if gate(p, generator) {
        into.push(permutation(channels, generator)?);
    }
    Ok(())
}

pub(in super::super) fn permutation(channels: usize, generator: &mut TorchGenerator) -> Result<Operation, Reason> {
    Ok(Operation::PermuteChannels { order: permuted(channels, generator)? })
}

/// Draws an order like `torch.randperm`.
pub(in super::super) fn permuted(len: usize, generator: &mut TorchGenerator) -> Result<Vec<usize>, Reason> {
    generator.randperm(len).map_err(|error| error.to_string())
}

pub(in super::super) fn grayscale(channels: usize) -> Result<Operation, Reason> {
    match channels {
        1 | 3 => Ok(Operation::Grayscale { channels }),
        _ => Err(format!("a gray image must have 1 or 3 channels, got {channels}")),
    }
}
