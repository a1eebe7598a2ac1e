//! [`Boxes`]: bounding boxes, which move with the pixels.

use super::box_format::BoxFormat;
use super::geometry::from_middle;
use super::perspective::{Perspective, inverse};
use super::pixels::affine_matrix::frame;
use super::{Coordinates, Frame, Operation, PaddingMode, Reason, pillow};

/// How to treat boxes that extend past the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clamping {
    /// Cut them off at its edges, after each step that moves edges into or out of view. For upright boxes,
    /// torchvision's "soft" and "hard" are both equivalent to this.
    #[default]
    Canvas,
    /// Leave them unchanged.
    Off,
}

/// Upright boxes in an image, as `torchvision.tv_tensors.BoundingBoxes`.
///
/// # Example
/// ```
/// use sluicegate::internal::{Boxes, Clamping, Coordinates, Operation};
/// let numbers = vec![[2.0, 3.0, 6.0, 9.0]];
/// let mut boxes = Boxes { numbers, height: 10, width: 20, ..Boxes::default() };
/// Operation::HorizontalFlip.apply_to_boxes(&mut boxes)?;
/// Operation::Crop { top: 4, left: 0, height: 6, width: 20 }.apply_to_boxes(&mut boxes)?;
/// assert_eq!((boxes.numbers, boxes.height), (vec![[14.0, 0.0, 18.0, 5.0]], 6));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Boxes {
    /// The four numbers of each box, in pixels.
    pub numbers: Vec<[f64; 4]>,
    /// The meaning of the four numbers.
    pub format: BoxFormat,
    /// The height of the image, in pixels.
    pub height: usize,
    /// The width of the image, in pixels.
    pub width: usize,
    /// The type of the numbers.
    pub coordinates: Coordinates,
    /// How to treat boxes that extend past the image.
    pub clamping: Clamping,
    /// The indices of the remaining boxes, once some may have been dropped.
    pub rows: Option<Vec<usize>>,
}

impl Operation {
    /// Moves the boxes as this step moves pixels, like torchvision's functions for boxes in their format; color
    /// operations do not change them.
    ///
    /// # Errors
    /// The reason, in cases where torchvision raises, such as padding with a mode other than constant; also if the step
    /// was drawn for a different number of boxes.
    pub fn apply_to_boxes(&self, boxes: &mut Boxes) -> Result<(), Reason> {
        let (height, width) = (boxes.height, boxes.width);
        match self {
            Self::OfPillow { operation, .. } if operation.moves_pixels() => return Err(pillow::refuse_places()),
            Self::Crop { top, left, .. } => {
                boxes.shift([-(*left as f64), -(*top as f64)]);
                (boxes.height, boxes.width) = self.size_after(height, width);
                boxes.clamp();
            }
            Self::Pad { left, top, mode, .. } => {
                if *mode != PaddingMode::Constant {
                    return Err(format!("boxes can't be padded by {mode:?}, which repeats what they contain"));
                }
                boxes.shift([*left as f64, *top as f64]);
                (boxes.height, boxes.width) = self.size_after(height, width);
                boxes.clamp();
            }
            Self::Resize { .. } => {
                (boxes.height, boxes.width) = self.size_after(height, width);
                let ratio = |new: usize, old: usize| f64::from((new as f64 / old as f64) as f32);
                let (down, across) = (ratio(boxes.height, height), ratio(boxes.width, width));
                boxes.each(|[a, b, c, d], _| [a * across, b * down, c * across, d * down]);
            }
            Self::HorizontalFlip => boxes.flip(width as f64, 0),
            Self::VerticalFlip => boxes.flip(height as f64, 1),
            Self::Rotate { .. } | Self::Affine { .. } => self.turn(boxes)?,
            Self::Perspective { coefficients, .. } => boxes.project(inverse(*coefficients)?),
            Self::ClampBoxes => boxes.clamp(),
            Self::SanitizeBoxes { min_size, min_area } => boxes.sanitize(*min_size, *min_area),
            Self::ConvertBoxes { format } => boxes.convert(*format),
            Self::BlankBoxes { kept } => boxes.blank(kept)?,
            _ => {}
        }
        Ok(())
    }

    /// Replaces each box with the upright box around its transformed corners.
    fn turn(&self, boxes: &mut Boxes) -> Result<(), Reason> {
        let Some((motion, center)) = self.motion() else { return Ok(()) };
        motion.check()?;
        let (height, width) = (boxes.height, boxes.width);
        let [x, y] = from_middle(center, height, width);
        let center = [x + width as f64 * 0.5, y + height as f64 * 0.5];
        let [a, b, c, d, e, f] = motion.forward(center);
        let (format, coordinates) = (boxes.format, boxes.coordinates);
        let floats = coordinates.as_floats();
        let around = |corners| around(corners, |place| [[a, b, c], [d, e, f]].map(|of| coordinates.line(of, place)));
        let mut shift = [0.0; 2];
        if matches!(self, Self::Rotate { frame: Frame::Expanded, .. }) {
            let [left, top, ..] = around([0.0, 0.0, width as f64, height as f64]);
            shift = [left, top];
            // Computed about the corner: for some angles this is one pixel larger or smaller than the image, as in
            // torchvision.
            [boxes.height, boxes.width] = frame(&motion.backward(center), height, width);
        }
        let [across, down] = shift;
        let (size, clamping) = ([boxes.width as f64, boxes.height as f64], boxes.clamping);
        boxes.each(|numbers, _| {
            let [left, top, right, bottom] = around(format.convert(BoxFormat::Corners, numbers, floats));
            let moved = [left - across, top - down, right - across, bottom - down].map(|number| floats.round(number));
            BoxFormat::Corners.convert(format, clamping.clamp(moved, size), floats)
        });
        Ok(())
    }
}

/// Returns the upright box around the transformed corners of a box.
fn around([left, top, right, bottom]: [f64; 4], seen: impl Fn([f64; 2]) -> [f64; 2]) -> [f64; 4] {
    let places = [[left, top], [right, top], [right, bottom], [left, bottom]].map(seen);
    let least = |axis: usize| places.iter().map(|place| place[axis]).fold(f64::INFINITY, f64::min);
    let most = |axis: usize| places.iter().map(|place| place[axis]).fold(f64::NEG_INFINITY, f64::max);
    [least(0), least(1), most(0), most(1)]
}

impl Clamping {
    /// Clamps corners to an image of this width and height.
    fn clamp(self, [left, top, right, bottom]: [f64; 4], [width, height]: [f64; 2]) -> [f64; 4] {
        match self {
            Self::Off => [left, top, right, bottom],
            Self::Canvas => {
                [left.clamp(0.0, width), top.clamp(0.0, height), right.clamp(0.0, width), bottom.clamp(0.0, height)]
            }
        }
    }
}

impl Boxes {
    /// Replaces the boxes with the upright boxes around their perspective images.
    fn project(&mut self, [a, b, c, d, e, f, g, h]: Perspective) {
        let (format, clamping, size) = (self.format, self.clamping, [self.width as f64, self.height as f64]);
        self.each(|numbers, coordinates| {
            let corners = around(format.convert(BoxFormat::Corners, numbers, coordinates), |place| {
                let below = coordinates.line([g, h, 1.0], place);
                [[a, b, c], [d, e, f]].map(|of| coordinates.ratio(coordinates.line(of, place), below))
            });
            BoxFormat::Corners.convert(format, clamping.clamp(corners, size), coordinates.as_floats())
        });
    }

    fn each(&mut self, of: impl Fn([f64; 4], Coordinates) -> [f64; 4]) {
        let coordinates = self.coordinates;
        for numbers in &mut self.numbers {
            *numbers = of(*numbers, coordinates).map(|value| coordinates.cast(value));
        }
    }

    fn shift(&mut self, [across, down]: [f64; 2]) {
        let moves_both = self.format == BoxFormat::Corners;
        self.each(
            |[a, b, c, d], _| {
                if moves_both { [a + across, b + down, c + across, d + down] } else { [a + across, b + down, c, d] }
            },
        );
    }

    /// Swaps left and right (`axis` 0) or top and bottom (1) in an image of that length.
    fn flip(&mut self, length: f64, axis: usize) {
        let format = self.format;
        self.each(|mut numbers, coordinates| {
            let (start, end) = (numbers[axis], numbers[axis + 2]);
            match format {
                BoxFormat::Corners => (numbers[axis], numbers[axis + 2]) = (length - end, length - start),
                BoxFormat::CornerAndSize => numbers[axis] = length - coordinates.round(start + end),
                BoxFormat::CenterAndSize => numbers[axis] = length - start,
            }
            numbers
        });
    }

    fn clamp(&mut self) {
        if self.clamping == Clamping::Off {
            return;
        }
        let (format, clamping, size) = (self.format, self.clamping, [self.width as f64, self.height as f64]);
        self.each(|numbers, coordinates| {
            let floats = coordinates.as_floats();
            let numbers = numbers.map(|number| floats.round(number));
            let corners = format.convert(BoxFormat::Corners, numbers, floats);
            BoxFormat::Corners.convert(format, clamping.clamp(corners, size), floats)
        });
    }

    fn convert(&mut self, format: BoxFormat) {
        let before = self.format;
        self.format = format;
        self.each(|numbers, coordinates| before.convert(format, numbers, coordinates));
    }

    fn blank(&mut self, kept: &[bool]) -> Result<(), Reason> {
        if kept.len() != self.numbers.len() {
            return Err(format!(
                "the transforms were drawn for {} boxes, but there are {}",
                kept.len(),
                self.numbers.len()
            ));
        }
        for (numbers, is_kept) in self.numbers.iter_mut().zip(kept) {
            if !is_kept {
                *numbers = [0.0; 4];
            }
        }
        Ok(())
    }

    /// Drops boxes that are too small, or extend past the image, with torch's arithmetic in the type of their numbers.
    fn sanitize(&mut self, min_size: f64, min_area: f64) {
        let (height, width) = (self.height as f64, self.width as f64);
        let (format, coordinates) = (self.format, self.coordinates);
        // Torch compares 32-bit numbers with a 32-bit limit.
        let [min_size, min_area] = [min_size, min_area].map(|limit| coordinates.as_floats().round(limit));
        let is_kept = |numbers: &[f64; 4]| {
            let [left, top, right, bottom] = format.convert(BoxFormat::Corners, *numbers, coordinates);
            let (across, down) = (coordinates.round(right - left), coordinates.round(bottom - top));
            across >= min_size
                && down >= min_size
                && coordinates.round(across * down) >= min_area
                && [left, right].iter().all(|&x| 0.0 <= x && x <= width)
                && [top, bottom].iter().all(|&y| 0.0 <= y && y <= height)
        };
        let before = self.rows.take().unwrap_or_else(|| (0..self.numbers.len()).collect());
        let kept = before.into_iter().zip(&self.numbers).filter(|(_, numbers)| is_kept(numbers));
        let (rows, numbers) = kept.map(|(row, &numbers)| (row, numbers)).unzip();
        (self.rows, self.numbers) = (Some(rows), numbers);
    }
}
