//! [`PixelPipeline`]: from images in memory to arrays of numbers.

use super::Reason;
use super::drawing::draw_all;
use super::finished::ChannelOrder;
use super::grid_map::GridMap;
use super::image_pipeline::{ImageForm, ImagePipeline};
use super::image_transform::{ImageShape, ImageTransform};
use super::level_tables::LevelTables;
use super::levels::Levels;
use super::operation::PaddingMode;
use super::outcome::size_behind;
use super::picture::Picture;
use super::pixels::by_channel;
use crate::{DType, TorchGenerator};

/// From images of bytes that lie in memory, all of one shape, to arrays of numbers of one form. Threads may share it.
///
/// Crops, padding and flips say where each row and each column of the result comes from, and what is done to values alone is
/// looked up in a table, so that each value is written once; other transforms are done one after the other.
///
/// # Example
/// ```
/// use sluicegate::{ChannelOrder, ImageTransform, PaddingMode, PixelPipeline};
/// let pad = ImageTransform::Pad { padding: [1, 0, 0, 0], fill: vec![7.0], padding_mode: PaddingMode::Constant };
/// let pipeline = PixelPipeline::new(vec![pad], [1, 2], 1, ChannelOrder::Last).unwrap();
/// let mut row = [0; 3];
/// pipeline.run(&[1, 2], None, &mut row).unwrap();
/// assert_eq!((pipeline.form().shape, row), ([1, 1, 3], [7, 1, 2]));
/// ```
#[derive(Debug, Clone)]
pub struct PixelPipeline {
    /// What does the transforms one after the other.
    steps: ImagePipeline,
    shape: ImageShape,
    order: ChannelOrder,
    form: ImageForm,
    /// How many transforms there are up to the last one that draws.
    drawing: usize,
    direct: Option<Direct>,
}

/// How a result is written in one pass.
#[derive(Debug, Clone)]
struct Direct {
    /// How many of the transforms come before those that look at values alone.
    moving: usize,
    tables: LevelTables,
    /// Where pixels come from, if nothing of that is drawn.
    fixed: Option<GridMap>,
}

impl PixelPipeline {
    /// Does `transforms`, one after the other, to images of this height and width and this number of channels, which lie as
    /// `order` says. The result has its channels first.
    ///
    /// # Errors
    /// In words, why such images can't be transformed so, or that the form of the result is not always the same.
    pub fn new(
        transforms: Vec<ImageTransform>,
        [height, width]: [usize; 2],
        channels: usize,
        order: ChannelOrder,
    ) -> Result<Self, Reason> {
        let transforms = flattened(transforms);
        let shape = ImageShape { height, width, channels, dtype: DType::UInt8 };
        let form = form(&transforms, shape)?;
        let drawing = transforms.iter().rposition(ImageTransform::is_random).map_or(0, |last| last + 1);
        let direct = Direct::of(&transforms, shape)?;
        Ok(Self { steps: ImagePipeline::new(transforms), shape, order, form, drawing, direct })
    }

    /// The form of the results.
    #[must_use]
    pub fn form(&self) -> ImageForm {
        self.form
    }

    /// The size of an image, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shape.height * self.shape.width * self.shape.channels
    }

    /// Whether something is drawn.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.drawing > 0
    }

    /// Leaves `generator` where [`run`](Self::run) leaves it.
    ///
    /// # Errors
    /// In words, why such an image can't be transformed so.
    pub fn advance(&self, generator: &mut TorchGenerator) -> Result<(), Reason> {
        let mut operations = Vec::new();
        draw_all(&self.steps.transforms()[..self.drawing], &mut self.shape.clone(), generator, &mut operations)
    }

    /// Writes what becomes of the image that `pixels` are; what is random is drawn from `generator`, which is not needed
    /// where [nothing](Self::is_random) is.
    ///
    /// # Errors
    /// In words: the image or the room has another size, or there is no generator where one is needed.
    pub fn run(&self, pixels: &[u8], generator: Option<&mut TorchGenerator>, into: &mut [u8]) -> Result<(), Reason> {
        if pixels.len() != self.bytes() {
            return Err(format!("an image has {} bytes, where {} were expected", pixels.len(), self.bytes()));
        }
        let Some(direct) = &self.direct else {
            let picture = picture(pixels, self.shape, self.order);
            return self.steps.run_picture(picture, generator)?.write(into);
        };
        let source = (pixels, [self.shape.height, self.shape.width], self.order);
        if let Some(map) = &direct.fixed {
            return direct.tables.write(map, source, into);
        }
        self.steps.with_generator(generator, |generator| {
            let mut operations = Vec::new();
            draw_all(&self.steps.transforms()[..direct.moving], &mut self.shape.clone(), generator, &mut operations)?;
            direct.tables.write(&GridMap::of(&operations, self.shape)?, source, into)
        })
    }
}

impl Direct {
    /// That of these transforms; nothing where they are not of that kind.
    fn of(transforms: &[ImageTransform], shape: ImageShape) -> Result<Option<Self>, Reason> {
        let moving = transforms.iter().position(|each| !moves(each)).unwrap_or(transforms.len());
        let (moves, rest) = transforms.split_at(moving);
        let mut fill = None;
        let looks_at_values = |each: &ImageTransform| match each {
            ImageTransform::Normalize { mean, std } => [mean, std].iter().all(|values| values.len() <= shape.channels),
            ImageTransform::ToDtype { dtype, .. } => matches!(dtype, DType::UInt8 | DType::Float32),
            _ => false,
        };
        if !rest.iter().all(looks_at_values) || !fills_alike(moves, shape.channels, &mut fill) {
            return Ok(None);
        }
        // Neither draws anything: the generator stays where it is.
        let mut generator = TorchGenerator::new(0);
        let mut operations = Vec::new();
        draw_all(rest, &mut shape.clone(), &mut generator, &mut operations)?;
        let tables = LevelTables::of(&Levels::of(&operations, shape.channels)?, shape.channels);
        let fixed = match moves.iter().any(ImageTransform::is_random) {
            true => None,
            false => {
                operations.clear();
                draw_all(moves, &mut shape.clone(), &mut generator, &mut operations)?;
                Some(GridMap::of(&operations, shape)?)
            }
        };
        Ok(Some(Self { moving, tables, fixed }))
    }
}

/// The transforms without `Compose` around them, and without those that do nothing.
fn flattened(transforms: Vec<ImageTransform>) -> Vec<ImageTransform> {
    let flat = |each| match each {
        ImageTransform::Compose { transforms } => flattened(transforms),
        ImageTransform::ToImage => Vec::new(),
        each => vec![each],
    };
    transforms.into_iter().flat_map(flat).collect()
}

/// Whether a transform does nothing but choose where pixels come from, row by row and column by column.
fn moves(transform: &ImageTransform) -> bool {
    match transform {
        ImageTransform::CenterCrop { .. }
        | ImageTransform::Pad { .. }
        | ImageTransform::RandomCrop { .. }
        | ImageTransform::RandomHorizontalFlip { .. }
        | ImageTransform::RandomVerticalFlip { .. } => true,
        ImageTransform::Compose { transforms } | ImageTransform::RandomApply { transforms, .. } => {
            transforms.iter().all(moves)
        }
        _ => false,
    }
}

/// Whether all that fill what lies outside of the image do it with one color, and none of them is followed by a mirror, in
/// which that would lie between pixels of the image. `fill` is the color before them, and then behind them.
fn fills_alike(transforms: &[ImageTransform], channels: usize, fill: &mut Option<Vec<f32>>) -> bool {
    let is_one = |color: &[f32], fill: &mut Option<Vec<f32>>| {
        let color: Vec<f32> = by_channel(color, channels).collect();
        *fill.get_or_insert_with(|| color.clone()) == color
    };
    transforms.iter().all(|each| match each {
        ImageTransform::CenterCrop { .. } => is_one(&[], fill),
        ImageTransform::Pad { fill: color, padding_mode: PaddingMode::Constant, .. }
        | ImageTransform::RandomCrop { fill: color, padding_mode: PaddingMode::Constant, .. } => is_one(color, fill),
        ImageTransform::Pad { .. } | ImageTransform::RandomCrop { .. } => fill.is_none(),
        ImageTransform::Compose { transforms } | ImageTransform::RandomApply { transforms, .. } => {
            fills_alike(transforms, channels, fill)
        }
        _ => true,
    })
}

/// The form that every such image gets, once an image of zeros has shown that nothing is refused.
fn form(transforms: &[ImageTransform], shape: ImageShape) -> Result<ImageForm, Reason> {
    let always = ImagePipeline::new(always(transforms));
    let picture =
        Picture::new(shape.width, shape.height, shape.channels, vec![0; shape.height * shape.width * shape.channels]);
    let image = always.run_picture(picture, Some(&mut TorchGenerator::new(0)))?;
    let form = ImageForm { shape: image.shape(), dtype: image.dtype() };
    image.to_bytes()?;
    let before = (shape.channels, DType::UInt8);
    let after = transforms.iter().try_fold(before, |(channels, dtype), each| each.output(channels, dtype))?;
    let size = size_behind(transforms, [shape.height, shape.width]);
    if size.is_none_or(|[height, width]| form.shape != [after.0, height, width]) || form.dtype != after.1 {
        return Err(
            "images of one size become images of several forms: end with a transform that gives them one".into()
        );
    }
    Ok(form)
}

/// The transforms with what is done only sometimes done always.
fn always(transforms: &[ImageTransform]) -> Vec<ImageTransform> {
    let each = |each: &ImageTransform| match each {
        ImageTransform::RandomApply { transforms, .. } | ImageTransform::Compose { transforms } => {
            ImageTransform::Compose { transforms: always(transforms) }
        }
        ImageTransform::OfPillow { version, transforms } => {
            ImageTransform::OfPillow { version: *version, transforms: always(transforms) }
        }
        other => other.clone(),
    };
    transforms.iter().map(each).collect()
}

/// The picture of these pixels.
fn picture(pixels: &[u8], shape: ImageShape, order: ChannelOrder) -> Picture<u8> {
    let ImageShape { height, width, channels, .. } = shape;
    let pixels = match order {
        ChannelOrder::Last => pixels.to_vec(),
        ChannelOrder::First => {
            let plane = height * width;
            (0..plane).flat_map(|place| (0..channels).map(move |channel| pixels[channel * plane + place])).collect()
        }
    };
    Picture::new(width, height, channels, pixels)
}
