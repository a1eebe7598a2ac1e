//! Repeats the channel of a gray image.

use super::Reason;
use super::level::Level;
use super::picture::Picture;

/// Returns the picture with its one channel repeated `channels` times.
pub(in super::super) fn repeat<T: Level>(picture: Picture<T>, channels: usize) -> Result<Picture<T>, Reason> {
    if picture.channels != 1 {
        return Err(format!(
            "only the channel of a gray image can be repeated, but this one has {} channels",
            picture.channels
        ));
    }
    let pixels = picture.pixels.iter().flat_map(|&gray| std::iter::repeat_n(gray, channels)).collect();
    Ok(Picture::new(picture.width, picture.height, channels, pixels))
}
