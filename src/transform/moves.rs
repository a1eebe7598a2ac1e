//! [`Moves`]: how the pixels of an image moved, for data about positions in it.

use super::box_format::BoxFormat;
use super::{Boxes, Coordinates, MaskValue, Operation, Picture, Reason};
use crate::DType;

/// How the pixels of an image moved, for data about positions in it: its boxes and its masks.
///
/// # Example
/// ```
/// use sluicegate::{BoxFormat, DType, ImagePipeline, ImageTransform};
/// let left = ImagePipeline::new(vec![ImageTransform::CenterCrop { size: [1, 1] }]);
/// let image = left.run(b"P5 3 1 255 \x07\x08\x09", None)?;
/// let boxes = [1_i64, 0, 3, 1].map(i64::to_ne_bytes).concat();
/// let moved = image.moves().boxes(&boxes, DType::Int64, BoxFormat::Corners)?;
/// assert_eq!(moved, [0_i64, 0, 1, 1].map(i64::to_ne_bytes).concat());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moves {
    height: usize,
    width: usize,
    operations: Vec<Operation>,
}

impl Moves {
    /// Returns an empty list of moves, for an image of that size in pixels.
    #[must_use]
    pub fn new(height: usize, width: usize) -> Self {
        Self { height, width, operations: Vec::new() }
    }

    /// Returns the height and the width of the image before it was transformed, in pixels.
    #[must_use]
    pub fn size(&self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Returns the operations that moved pixels, in order.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Adds those of `operations` that move pixels, or affect only boxes.
    pub(super) fn extend(&mut self, operations: &[Operation]) {
        let moves = |operation: &&Operation| operation.moves_pixels() || operation.is_of_boxes();
        self.operations.extend(operations.iter().filter(moves).cloned());
    }

    /// Returns the boxes after all moves, where `bytes` contains four numbers of type `dtype` for each; parts outside
    /// the image are cut off.
    ///
    /// # Errors
    /// The reason, if they are not boxes, or cannot be moved this way.
    pub fn boxes(&self, bytes: &[u8], dtype: DType, format: BoxFormat) -> Result<Vec<u8>, Reason> {
        match dtype {
            DType::Float32 => self.boxes_of(bytes, format, Coordinates::Single, f32::from_ne_bytes, |number| {
                (number as f32).to_ne_bytes()
            }),
            DType::Float64 => self.boxes_of(bytes, format, Coordinates::Double, f64::from_ne_bytes, f64::to_ne_bytes),
            DType::Int32 => self.boxes_of(bytes, format, Coordinates::Whole, i32::from_ne_bytes, |number| {
                (number as i32).to_ne_bytes()
            }),
            DType::Int64 => self.boxes_of(
                bytes,
                format,
                Coordinates::Whole,
                |bytes| i64::from_ne_bytes(bytes) as f64,
                |number| (number as i64).to_ne_bytes(),
            ),
            _ => Err(format!("boxes must be float32, float64, int32 or int64, got {dtype}")),
        }
    }

    fn boxes_of<T: Into<f64>, const BYTES: usize>(
        &self,
        bytes: &[u8],
        format: BoxFormat,
        coordinates: Coordinates,
        read: impl Fn([u8; BYTES]) -> T,
        write: impl Fn(f64) -> [u8; BYTES],
    ) -> Result<Vec<u8>, Reason> {
        let numbers: Vec<f64> = bytes.as_chunks().0.iter().map(|&number| read(number).into()).collect();
        let (numbers, []) = numbers.as_chunks::<4>() else {
            return Err(format!("boxes must have four numbers each, got {} in total", bytes.len() / BYTES));
        };
        let boxes = self.moved(Boxes { numbers: numbers.to_vec(), format, coordinates, ..Boxes::default() })?;
        Ok(boxes.numbers.into_iter().flatten().flat_map(write).collect())
    }

    /// Returns the boxes of the image after all moves.
    pub(super) fn moved(&self, boxes: Boxes) -> Result<Boxes, Reason> {
        let mut boxes = Boxes { height: self.height, width: self.width, ..boxes };
        self.operations.iter().try_for_each(|operation| operation.apply_to_boxes(&mut boxes))?;
        Ok(boxes)
    }

    /// Returns the mask of the image after all moves.
    ///
    /// # Errors
    /// The reason, if its size differs from the image's, or it cannot be moved this way.
    pub fn mask<T: MaskValue>(&self, mask: Picture<T>) -> Result<Picture<T>, Reason> {
        if [mask.height, mask.width] != self.size() {
            return Err(format!(
                "the mask has {} x {} pixels, but its image has {} x {}",
                mask.width, mask.height, self.width, self.height
            ));
        }
        self.operations.iter().try_fold(mask, |mask, operation| operation.apply_to_mask(mask))
    }
}
