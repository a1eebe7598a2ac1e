//! `normalize`.

use super::Reason;
use super::picture::Picture;

/// Computes (value - mean) / std in each channel.
pub(in super::super) fn floats(picture: &mut Picture<f32>, mean: &[f32], std: &[f32]) -> Result<(), Reason> {
    let channels = picture.channels;
    for (name, values) in [("mean", mean), ("std", std)] {
        if values.len() != 1 && values.len() != channels {
            return Err(format!("{name} has {} values, but the image has {channels} channels", values.len()));
        }
    }
    if std.contains(&0.0) {
        return Err("std contains 0, and division by 0 is not possible".into());
    }
    let of = |values: &[f32], channel: usize| values[if values.len() == 1 { 0 } else { channel }];
    let normal: Vec<[f32; 2]> = (0..channels).map(|channel| [of(mean, channel), of(std, channel)]).collect();
    if let &[red, green, blue] = &normal[..] {
        for [r, g, b] in picture.pixels.as_chunks_mut().0 {
            (*r, *g, *b) = ((*r - red[0]) / red[1], (*g - green[0]) / green[1], (*b - blue[0]) / blue[1]);
        }
        return Ok(());
    }
    for pixel in picture.pixels.chunks_exact_mut(channels.max(1)) {
        for (value, [mean, std]) in pixel.iter_mut().zip(&normal) {
            *value = (*value - mean) / std;
        }
    }
    Ok(())
}

/// Returns the error for bytes, which cannot hold the result.
pub(in super::super) fn refuse_bytes() -> Reason {
    "Normalize needs floats, but the image has bytes; put ToDtype(torch.float32, scale=True) before it".into()
}
