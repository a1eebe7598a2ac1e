//! [`KeyPoints`]: positions in an image, which move with the pixels.

use super::{Coordinates, Operation, PaddingMode, Reason, pillow};

/// Positions in an image, like `torchvision.tv_tensors.KeyPoints`: a position is the middle of a pixel, so the last
/// pixel of a row is at the width minus 1. Positions that leave the image remain outside it.
///
/// # Example
/// ```
/// use sluicegate::internal::{KeyPoints, Operation};
/// let mut points = KeyPoints { places: vec![[2.0, 3.0]], height: 10, width: 20, ..KeyPoints::default() };
/// Operation::HorizontalFlip.apply_to_key_points(&mut points)?;
/// Operation::Crop { top: 4, left: 0, height: 6, width: 20 }.apply_to_key_points(&mut points)?;
/// assert_eq!((points.places, points.height), (vec![[17.0, -1.0]], 6));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyPoints {
    /// The x and y of each, in pixels.
    pub places: Vec<[f64; 2]>,
    /// The height of the image, in pixels.
    pub height: usize,
    /// The width of the image, in pixels.
    pub width: usize,
    /// The type of the numbers.
    pub coordinates: Coordinates,
}

impl Operation {
    /// Moves the key points as this step moves pixels, like torchvision's functions; color operations do not change
    /// them.
    ///
    /// # Errors
    /// The reason, for padding with a mode other than constant, which torchvision rejects, or for a step that rotates
    /// or warps pixels, which only boxes support here.
    pub fn apply_to_key_points(&self, points: &mut KeyPoints) -> Result<(), Reason> {
        let (height, width) = (points.height, points.width);
        match self {
            Self::OfPillow { operation, .. } if operation.moves_pixels() => return Err(pillow::refuse_places()),
            Self::Crop { top, left, .. } => points.each(|place, edge| place - [*left, *top][edge] as f64),
            Self::Pad { mode, .. } if *mode != PaddingMode::Constant => {
                return Err(format!("key points can't be padded by {mode:?}, which repeats what they mark"));
            }
            Self::Pad { left, top, .. } => points.each(|place, edge| place + [*left, *top][edge] as f64),
            Self::HorizontalFlip => points.flip(0, width),
            Self::VerticalFlip => points.flip(1, height),
            Self::Resize { .. } => {
                let after = self.size_after(height, width);
                let ratio = |new: usize, old: usize| f64::from((new as f64 / old as f64) as f32);
                let ratios = [ratio(after.1, width), ratio(after.0, height)];
                let coordinates = points.coordinates;
                // Torch multiplies integers as floats, too.
                let floats = coordinates.as_floats();
                points.each(|place, edge| coordinates.cast(floats.round(place) * ratios[edge]));
            }
            Self::Rotate { .. } | Self::Affine { .. } | Self::Perspective { .. } => {
                return Err("key points can't be rotated or warped with their image".into());
            }
            _ => {}
        }
        (points.height, points.width) = self.size_after(height, width);
        Ok(())
    }
}

impl KeyPoints {
    /// Replaces each number with the result of `of` for it and its axis (0 for x, 1 for y); sums and differences of
    /// integers are exact.
    fn each(&mut self, of: impl Fn(f64, usize) -> f64) {
        let coordinates = self.coordinates;
        for place in &mut self.places {
            *place = [0, 1].map(|edge| coordinates.round(of(place[edge], edge)));
        }
    }

    fn flip(&mut self, axis: usize, length: usize) {
        let last = length as f64 - 1.0;
        self.each(|place, edge| if edge == axis { -(place - last) } else { place });
    }
}
