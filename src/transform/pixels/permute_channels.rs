//! `permute_channels`.

use super::Reason;
use super::level::Level;
use super::picture::Picture;

pub(in super::super) fn permute<T: Level>(picture: &mut Picture<T>, order: &[usize]) -> Result<(), Reason> {
    let channels = picture.channels;
    if order.len() != channels {
        return Err(format!("the order has {} channels, but the image has {channels}", order.len()));
    }
    if let Some(channel) = order.iter().find(|&&channel| channel >= channels) {
        return Err(format!("there is no channel {channel} in an image of {channels}"));
    }
    let mut before = [T::default(); 4];
    if let &[red, green, blue] = order {
        for pixel in picture.pixels.as_chunks_mut::<3>().0 {
            *pixel = [pixel[red], pixel[green], pixel[blue]];
        }
    } else if let Some(before) = before.get_mut(..channels) {
        for pixel in picture.pixels.chunks_exact_mut(channels.max(1)) {
            before.copy_from_slice(pixel);
            for (value, &channel) in pixel.iter_mut().zip(order) {
                *value = before[channel];
            }
        }
    } else {
        return Err(format!("images may have at most 4 channels, got {channels}"));
    }
    Ok(())
}
