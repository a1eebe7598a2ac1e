//! [`PixelPipeline`]: converts images in memory to arrays of numbers.

use super::Reason;
use super::drawing::draw_all;
use super::finished::ChannelOrder;
use super::grid_map::GridMap;
use super::image_pipeline::{ImageForm, ImagePipeline};
use super::image_shape::ImageShape;
use super::image_transform::ImageTransform;
use super::level_tables::LevelTables;
use super::levels::Levels;
use super::operation::PaddingMode;
use super::outcome::output_size;
use super::picture::Picture;
use super::pixels::by_channel;
use crate::rng::PythonGenerator;
use crate::{DType, TorchGenerator};

/// Converts byte images in memory, all of one shape, to arrays of numbers of one form. Threads may share it.
///
/// Crops, padding, and flips are combined into a map of source rows and columns, and operations on single values into a
/// look-up table, so that each value is written once. Other transforms are applied one after another.
///
/// # Example
/// ```
/// use sluicegate::internal::PixelPipeline;
/// use sluicegate::{ChannelOrder, ImageTransform, PaddingMode};
/// let pad = ImageTransform::Pad { padding: [1, 0, 0, 0], fill: vec![7.0], padding_mode: PaddingMode::Constant };
/// let pipeline = PixelPipeline::new(vec![pad], [1, 2], 1, ChannelOrder::Last).unwrap();
/// let mut row = [0; 3];
/// pipeline.run(&[1, 2], None, &mut row).unwrap();
/// assert_eq!((pipeline.form().shape, row), ([1, 1, 3], [7, 1, 2]));
/// ```
#[derive(Debug, Clone)]
pub struct PixelPipeline {
    /// Applies the transforms one after another.
    steps: ImagePipeline,
    shape: ImageShape,
    order: ChannelOrder,
    form: ImageForm,
    /// Number of transforms up to the last random one.
    drawing: usize,
    direct: Option<Direct>,
}

/// The parameters for writing a result in one pass.
#[derive(Debug, Clone)]
struct Direct {
    /// Number of transforms before those that change single values.
    moving: usize,
    tables: LevelTables,
    /// The source of the pixels, if nothing about it is random.
    fixed: Option<GridMap>,
}

impl PixelPipeline {
    /// Returns a pipeline that applies `transforms`, in order, to images of this height, width, and number of channels,
    /// laid out in `order`. The result has its channels first.
    ///
    /// # Errors
    /// The reason why such images cannot be transformed this way, or that the form of the result varies.
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

    /// Returns the form of the results.
    #[must_use]
    pub fn form(&self) -> ImageForm {
        self.form
    }

    /// Returns the size of an image in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shape.height * self.shape.width * self.shape.channels
    }

    /// True if any transform is random.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.drawing > 0
    }

    /// True if any transform may draw from Python's generator.
    pub(crate) fn draws_from_python(&self) -> bool {
        self.steps.draws_from_python()
    }

    /// Advances `generator` as [`run`](Self::run) does.
    ///
    /// # Errors
    /// The reason why such an image cannot be transformed this way.
    pub fn advance(&self, generator: &mut TorchGenerator) -> Result<(), Reason> {
        let mut operations = Vec::new();
        draw_all(&self.steps.transforms()[..self.drawing], &mut self.shape.clone(), generator, &mut operations)
    }

    /// Writes the result for the image `pixels`; random values are drawn from `generator`, which is not needed if
    /// [nothing](Self::is_random) is random.
    ///
    /// # Errors
    /// The reason, if the image or `into` has the wrong size, or a required generator is missing.
    pub fn run(&self, pixels: &[u8], generator: Option<&mut TorchGenerator>, into: &mut [u8]) -> Result<(), Reason> {
        if pixels.len() != self.bytes() {
            return Err(format!("an image has {} bytes, but {} are expected", pixels.len(), self.bytes()));
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
    /// Returns the one-pass parameters of these transforms, or None if they do not qualify.
    fn of(transforms: &[ImageTransform], shape: ImageShape) -> Result<Option<Self>, Reason> {
        let moving = transforms.iter().position(|each| !moves(each)).unwrap_or(transforms.len());
        let (moves, rest) = transforms.split_at(moving);
        let mut fill = None;
        let looks_at_values = |each: &ImageTransform| match each {
            ImageTransform::Normalize { mean, std } => [mean, std].iter().all(|values| values.len() <= shape.channels),
            ImageTransform::ToDtype { dtype, .. } => matches!(dtype, DType::UInt8 | DType::Float32),
            _ => false,
        };
        if !rest.iter().all(looks_at_values) || !fills_with_one_color(moves, shape.channels, &mut fill) {
            return Ok(None);
        }
        // Nothing is random here, so the generator does not advance.
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

/// Returns the transforms with every `Compose` expanded, and without those that do nothing.
fn flattened(transforms: Vec<ImageTransform>) -> Vec<ImageTransform> {
    let flat = |each| match each {
        ImageTransform::Compose { transforms } => flattened(transforms),
        ImageTransform::ToImage => Vec::new(),
        each => vec![each],
    };
    transforms.into_iter().flat_map(flat).collect()
}

/// True if a transform only selects where pixels come from, row by row and column by column.
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

/// True if all transforms that fill the area outside the image use one color, and none of them is followed by a
/// reflection, which would put filled pixels between pixels of the image. `fill` is the color before the transforms,
/// and is updated to the color after them.
fn fills_with_one_color(transforms: &[ImageTransform], channels: usize, fill: &mut Option<Vec<f32>>) -> bool {
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
            fills_with_one_color(transforms, channels, fill)
        }
        _ => true,
    })
}

/// Returns the form of the result for every such image, after checking with an image of zeros that nothing is rejected.
fn form(transforms: &[ImageTransform], shape: ImageShape) -> Result<ImageForm, Reason> {
    let always = ImagePipeline::new(always(transforms));
    let picture =
        Picture::new(shape.width, shape.height, shape.channels, vec![0; shape.height * shape.width * shape.channels]);
    let mut generator = TorchGenerator::new(0).with_python(PythonGenerator::of_global_key(0));
    let image = always.run_picture(picture, Some(&mut generator))?;
    let form = ImageForm { shape: image.shape(), dtype: image.dtype() };
    image.to_bytes()?;
    let before = (shape.channels, DType::UInt8);
    let after = transforms.iter().try_fold(before, |(channels, dtype), each| each.output(channels, dtype))?;
    let size = output_size(transforms, [shape.height, shape.width]);
    if size.is_none_or(|[height, width]| form.shape != [after.0, height, width]) || form.dtype != after.1 {
        return Err("the resulting images differ in shape; end with a transform that gives all of them one".into());
    }
    Ok(form)
}

/// Returns the transforms with those that are applied only sometimes always applied.
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

/// Returns the picture of these pixels.
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
