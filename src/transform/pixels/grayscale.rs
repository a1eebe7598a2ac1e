//! `rgb_to_grayscale`.

use super::Reason;
use super::level::Level;
use super::picture::Picture;
use super::planes::{BLOCK, OfColors, Planes, load, map};
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

/// Returns the gray value of a color (ITU-R BT.601, as in torchvision).
#[inline(always)]
pub(super) fn luma<M: MultiplyAdd>(red: f32, green: f32, blue: f32) -> f32 {
    M::multiply_add(blue, 0.114, M::multiply_add(green, 0.587, red * 0.2989))
}

struct Gray;

impl OfColors for Gray {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, [red, green, blue]: &mut Planes) {
        for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
            *r = luma::<M>(*r, *g, *b);
            (*g, *b) = (*r, *r);
        }
    }
}

struct OneChannel<'a, T>(&'a [T], &'a mut [T]);

impl<T: Level> Kernel for OneChannel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        let mut planes = [[0.0; BLOCK]; 3];
        for (pixels, grays) in self.0.chunks(3 * BLOCK).zip(self.1.chunks_mut(BLOCK)) {
            load(pixels, &mut planes);
            let [red, green, blue] = &planes;
            for (((gray, r), g), b) in grays.iter_mut().zip(red).zip(green).zip(blue) {
                *gray = T::from_float(luma::<M>(*r, *g, *b));
            }
        }
    }
}

pub(in super::super) fn grayscale<T: Level>(picture: Picture<T>, channels: usize) -> Result<Picture<T>, Reason> {
    let (width, height) = (picture.width, picture.height);
    let mut picture = picture;
    match (picture.channels, channels) {
        (1, 1) => Ok(picture),
        (1, 3) => {
            let pixels = picture.pixels.iter().flat_map(|&gray| [gray; 3]).collect();
            Ok(Picture::new(width, height, 3, pixels))
        }
        (3, 1) => {
            let mut pixels = vec![T::default(); width * height];
            run_on_vectors(OneChannel(&picture.pixels, &mut pixels));
            Ok(Picture::new(width, height, 1, pixels))
        }
        (3, 3) => {
            map(&mut picture.pixels, Gray);
            Ok(picture)
        }
        (1 | 3, _) => Err(format!("gray images must have 1 or 3 channels, got {channels}")),
        (found, _) => Err(format!("only images of 1 or 3 channels can be converted to gray, got {found}")),
    }
}
