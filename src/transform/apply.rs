//! [`Operation::apply`]: applies a step to pixels.

use super::convolution::{ByteResize, refuse_floats};
use super::level::Level;
use super::picture::{AnyPicture, Picture};
use super::pillow;
use super::pixels::resample::OfImages;
use super::pixels::{
    autocontrast, brightness, contrast, convert, equalize, erase, gaussian_blur, gaussian_noise, grayscale, hue,
    invert, jpeg, mix, normalize, permute_channels, posterize, repeat_channels, saturation, sharpness, solarize,
};
use super::{Operation, Reason, Values};
use crate::DType;
use crate::memory::Region;

impl Operation {
    /// Returns the picture after this step, with the values of torchvision's function for the same tensor.
    ///
    /// # Errors
    /// The reason why it cannot be applied to this picture, in cases where torchvision raises.
    ///
    /// # Example
    /// ```
    /// use sluicegate::internal::{AnyPicture, Operation, Picture};
    /// let picture = AnyPicture::Bytes(Picture::new(2, 1, 3, vec![0, 100, 200, 255, 255, 255]));
    /// let AnyPicture::Bytes(flipped) = Operation::HorizontalFlip.apply(picture.clone())? else { unreachable!() };
    /// assert_eq!(flipped.pixels(), [255, 255, 255, 0, 100, 200]);
    /// let refused = Operation::Normalize { mean: vec![0.5], std: vec![0.5] }.apply(picture);
    /// assert!(refused.unwrap_err().contains("floats"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn apply(&self, picture: AnyPicture) -> Result<AnyPicture, Reason> {
        match (self, picture) {
            (Self::ToDtype { dtype, values }, picture) => to_dtype(picture, *dtype, *values),
            (_, AnyPicture::Bytes(picture)) => self.apply_to_bytes(picture).map(AnyPicture::Bytes),
            (_, AnyPicture::Floats(picture)) => self.apply_to_floats(picture).map(AnyPicture::Floats),
        }
    }

    pub(super) fn apply_to_bytes(&self, mut picture: Picture<u8>) -> Result<Picture<u8>, Reason> {
        match self {
            Self::Autocontrast => autocontrast::bytes(&mut picture)?,
            Self::Equalize => equalize::bytes(&mut picture),
            Self::GaussianNoise { mean, sigma, noise, deviates } => {
                gaussian_noise::bytes(&mut picture, [*mean, *sigma], *noise, deviates)?;
            }
            Self::Mix { shares, chains } => {
                let chain = |picture, chain: &Vec<Self>| {
                    chain.iter().try_fold(picture, |picture, operation| operation.apply_to_bytes(picture))
                };
                return mix::mix(&picture, shares, chains, chain);
            }
            Self::Jpeg { quality } => jpeg::bytes(&mut picture, *quality)?,
            Self::Normalize { .. } => return Err(normalize::refuse_bytes()),
            Self::OfPillow { version, operation } => return pillow::apply(operation, *version, picture),
            Self::Posterize { bits } => posterize::bytes(&mut picture, *bits)?,
            Self::Resize { height, width, interpolation, antialias } if antialias.is_exact() => {
                let whole = Region { left: 0, top: 0, width: *width, height: *height };
                let (from, filter) = (picture.region(), (*interpolation, *antialias));
                let filters = ByteResize::exact([from.width, from.height], [*width, *height], filter, whole)?;
                return Ok(filters.of(&picture, from));
            }
            _ => return self.apply_to_levels(picture),
        }
        Ok(picture)
    }

    fn apply_to_floats(&self, mut picture: Picture<f32>) -> Result<Picture<f32>, Reason> {
        match self {
            Self::Autocontrast => autocontrast::floats(&mut picture)?,
            Self::Equalize => {
                let mut bytes = convert::convert(&picture, Values::Scaled);
                equalize::bytes(&mut bytes);
                picture = convert::convert(&bytes, Values::Scaled);
            }
            Self::GaussianNoise { mean, sigma, noise, deviates } => {
                gaussian_noise::floats(&mut picture, [*mean, *sigma], *noise, deviates)?;
            }
            Self::Mix { shares, chains } => {
                let chain = |picture, chain: &Vec<Self>| {
                    chain.iter().try_fold(picture, |picture, operation| operation.apply_to_floats(picture))
                };
                return mix::mix(&picture, shares, chains, chain);
            }
            Self::Jpeg { .. } => return Err(jpeg::refuse_floats()),
            Self::Normalize { mean, std } => normalize::floats(&mut picture, mean, std)?,
            Self::OfPillow { .. } => {
                return Err("a transform of a Pillow image expects bytes, but the image has floats".into());
            }
            Self::Posterize { bits } => posterize::floats(&mut picture, *bits)?,
            Self::Resize { antialias, .. } if antialias.is_exact() => return Err(refuse_floats()),
            _ => return self.apply_to_levels(picture),
        }
        Ok(picture)
    }

    /// Applies operations that have one implementation for bytes and floats.
    fn apply_to_levels<T: Level>(&self, mut picture: Picture<T>) -> Result<Picture<T>, Reason> {
        match self {
            Self::Brightness { factor } => brightness::adjust(&mut picture, *factor)?,
            Self::Contrast { factor } => contrast::adjust(&mut picture, *factor)?,
            Self::Saturation { factor } => saturation::adjust(&mut picture, *factor)?,
            Self::Sharpness { factor } => sharpness::adjust(&mut picture, *factor)?,
            Self::Hue { factor } => hue::adjust(&mut picture, *factor)?,
            Self::Grayscale { channels } => return grayscale::grayscale(picture, *channels),
            Self::RepeatChannels { channels } => return repeat_channels::repeat(picture, *channels),
            Self::PermuteChannels { order } => permute_channels::permute(&mut picture, order)?,
            Self::GaussianBlur { kernel_size, sigma } => gaussian_blur::blur(&mut picture, *kernel_size, *sigma)?,
            Self::Invert => invert::invert(&mut picture),
            Self::Solarize { threshold } => solarize::solarize(&mut picture, *threshold)?,
            Self::Erase { top, left, height, width, with } => {
                erase::erase(&mut picture, [*top, *left, *height, *width], with)?;
            }
            _ => return self.rearrange(picture, &OfImages),
        }
        Ok(picture)
    }
}

fn to_dtype(picture: AnyPicture, dtype: DType, values: Values) -> Result<AnyPicture, Reason> {
    match (dtype, picture) {
        (DType::UInt8, AnyPicture::Floats(_)) if values == Values::Divided => {
            Err("only bytes can be divided by 255; convert floats to bytes by `kept` or `scaled`".into())
        }
        (DType::UInt8, AnyPicture::Floats(picture)) => Ok(AnyPicture::Bytes(convert::convert(&picture, values))),
        (DType::Float32, AnyPicture::Bytes(picture)) => Ok(AnyPicture::Floats(convert::convert(&picture, values))),
        (DType::UInt8 | DType::Float32, picture) => Ok(picture),
        (other, _) => Err(format!("images can be processed only as uint8 or float32, not as {other}")),
    }
}
