//! [`Boxes`]: rectangles around what is seen, which move with the pixels.

use super::geometry::from_middle;
use super::perspective::{Perspective, inverse};
use super::pixels::affine_matrix::frame;
use super::{Frame, Operation, PaddingMode, ProductRounding, Reason};

/// What the numbers of boxes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coordinates {
    /// Floats of 32 bits.
    #[default]
    Single,
    /// Floats of 64 bits.
    Double,
    /// Integers: what comes after the point is left out after each step.
    Whole,
}

/// What becomes of boxes that reach past the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clamping {
    /// They end where it ends, after each step that moves edges into view or out of it. Torchvision's "soft" and "hard" are
    /// both this for upright boxes.
    #[default]
    Canvas,
    /// Nothing.
    Off,
}

/// Upright boxes in an image, as `torchvision.tv_tensors.BoundingBoxes` of the format `XYXY`.
///
/// # Example
/// ```
/// use sluicegate::{Boxes, Clamping, Coordinates, Operation};
/// let corners = vec![[2.0, 3.0, 6.0, 9.0]];
/// let mut boxes = Boxes { corners, height: 10, width: 20, coordinates: Coordinates::Single, clamping: Clamping::Canvas };
/// Operation::HorizontalFlip.apply_to_boxes(&mut boxes)?;
/// Operation::Crop { top: 4, left: 0, height: 6, width: 20 }.apply_to_boxes(&mut boxes)?;
/// assert_eq!((boxes.corners, boxes.height), (vec![[14.0, 0.0, 18.0, 5.0]], 6));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Boxes {
    /// Of each box left, top, right and bottom, in pixels.
    pub corners: Vec<[f64; 4]>,
    /// The height of the image, in pixels.
    pub height: usize,
    /// The width of the image, in pixels.
    pub width: usize,
    /// What the numbers are.
    pub coordinates: Coordinates,
    /// What becomes of boxes that reach past the image.
    pub clamping: Clamping,
}

impl Operation {
    /// Moves the boxes as this step moves pixels, as torchvision's functions do; colours leave them.
    ///
    /// # Errors
    /// In words, where torchvision raises: padding by a mirror.
    pub fn apply_to_boxes(&self, boxes: &mut Boxes) -> Result<(), Reason> {
        let (height, width) = (boxes.height, boxes.width);
        match self {
            Self::Crop { top, left, .. } => {
                boxes.shift([-(*left as f64), -(*top as f64)]);
                (boxes.height, boxes.width) = self.size_after(height, width);
                boxes.clamp();
            }
            Self::Pad { left, top, mode, .. } => {
                if *mode != PaddingMode::Constant {
                    return Err(format!("boxes can't be padded by {mode:?}: what is in them is seen twice then"));
                }
                boxes.shift([*left as f64, *top as f64]);
                (boxes.height, boxes.width) = self.size_after(height, width);
                boxes.clamp();
            }
            Self::Resize { .. } => {
                (boxes.height, boxes.width) = self.size_after(height, width);
                let ratio = |new: usize, old: usize| f64::from((new as f64 / old as f64) as f32);
                let (down, across) = (ratio(boxes.height, height), ratio(boxes.width, width));
                boxes.each(|[left, top, right, bottom]| [left * across, top * down, right * across, bottom * down]);
            }
            Self::HorizontalFlip => {
                let width = width as f64;
                boxes.each(|[left, top, right, bottom]| [width - right, top, width - left, bottom]);
            }
            Self::VerticalFlip => {
                let height = height as f64;
                boxes.each(|[left, top, right, bottom]| [left, height - bottom, right, height - top]);
            }
            Self::Rotate { .. } | Self::Affine { .. } => self.turn(boxes)?,
            Self::Perspective { coefficients, .. } => boxes.project(inverse(*coefficients)?),
            _ => {}
        }
        Ok(())
    }

    /// The upright boxes around the turned ones.
    fn turn(&self, boxes: &mut Boxes) -> Result<(), Reason> {
        let Some((motion, center)) = self.motion() else { return Ok(()) };
        motion.check()?;
        let (height, width) = (boxes.height, boxes.width);
        let [x, y] = from_middle(center, height, width);
        let center = [x + width as f64 * 0.5, y + height as f64 * 0.5];
        let [a, b, c, d, e, f] = motion.forward(center);
        let coordinates = boxes.coordinates;
        let around = |corners| around(corners, |place| [[a, b, c], [d, e, f]].map(|of| coordinates.line(of, place)));
        let mut shift = [0.0; 2];
        if matches!(self, Self::Rotate { frame: Frame::Expanded, .. }) {
            let [left, top, ..] = around([0.0, 0.0, width as f64, height as f64]);
            shift = [left, top];
            // About the corner: for some angles this is a pixel more or less than the image has, in torchvision as well.
            [boxes.height, boxes.width] = frame(&motion.backward(center), height, width);
        }
        let [across, down] = shift;
        for corners in &mut boxes.corners {
            let [left, top, right, bottom] = around(*corners);
            *corners = [left - across, top - down, right - across, bottom - down];
        }
        boxes.clamp();
        Ok(())
    }
}

/// The upright box around where the corners of one are seen.
fn around([left, top, right, bottom]: [f64; 4], seen: impl Fn([f64; 2]) -> [f64; 2]) -> [f64; 4] {
    let places = [[left, top], [right, top], [right, bottom], [left, bottom]].map(seen);
    let least = |axis: usize| places.iter().map(|place| place[axis]).fold(f64::INFINITY, f64::min);
    let most = |axis: usize| places.iter().map(|place| place[axis]).fold(f64::NEG_INFINITY, f64::max);
    [least(0), least(1), most(0), most(1)]
}

impl Coordinates {
    /// `a x + b y + c`, rounded as torch's product of matrices is.
    fn line(self, [a, b, c]: [f64; 3], [x, y]: [f64; 2]) -> f64 {
        let [of_a, of_b, of_c, of_x, of_y] = [a, b, c, x, y].map(|value| value as f32);
        match (self, ProductRounding::get()) {
            (Self::Double, ProductRounding::Fused) => y.mul_add(b, x * a) + c,
            (Self::Double, ProductRounding::Separate) => x * a + y * b + c,
            (_, ProductRounding::Fused) => f64::from(of_y.mul_add(of_b, of_x * of_a) + of_c),
            (_, ProductRounding::Separate) => f64::from(of_x * of_a + of_y * of_b + of_c),
        }
    }

    fn ratio(self, above: f64, below: f64) -> f64 {
        match self {
            Self::Double => above / below,
            _ => f64::from(above as f32 / below as f32),
        }
    }
}

impl Boxes {
    /// The upright boxes around those that are seen in a perspective.
    fn project(&mut self, [a, b, c, d, e, f, g, h]: Perspective) {
        let coordinates = self.coordinates;
        for corners in &mut self.corners {
            *corners = around(*corners, |place| {
                let below = coordinates.line([g, h, 1.0], place);
                [[a, b, c], [d, e, f]].map(|of| coordinates.ratio(coordinates.line(of, place), below))
            });
        }
        self.clamp();
    }

    fn each(&mut self, of: impl Fn([f64; 4]) -> [f64; 4]) {
        let coordinates = self.coordinates;
        for corners in &mut self.corners {
            *corners = of(*corners).map(|value| match coordinates {
                Coordinates::Single => f64::from(value as f32),
                Coordinates::Double => value,
                Coordinates::Whole => f64::from(value as f32).trunc(),
            });
        }
    }

    fn shift(&mut self, [across, down]: [f64; 2]) {
        self.each(|[left, top, right, bottom]| [left + across, top + down, right + across, bottom + down]);
    }

    fn clamp(&mut self) {
        let (height, width) = (self.height as f64, self.width as f64);
        let clamping = self.clamping;
        self.each(|corners @ [left, top, right, bottom]| match clamping {
            Clamping::Off => corners,
            Clamping::Canvas => {
                [left.clamp(0.0, width), top.clamp(0.0, height), right.clamp(0.0, width), bottom.clamp(0.0, height)]
            }
        });
    }
}
