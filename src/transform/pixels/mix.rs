//! Mixes the picture with the results of chains of operations.

use super::Reason;
use super::level::Level;
use super::picture::Picture;

/// Returns the sum of the picture and the pictures `made` from it, weighted by `shares`, the first of which belongs to
/// the picture.
pub(in super::super) fn mix<T: Level, C>(
    picture: &Picture<T>,
    shares: &[f32],
    chains: &[C],
    made: impl Fn(Picture<T>, &C) -> Result<Picture<T>, Reason>,
) -> Result<Picture<T>, Reason> {
    let [own, others @ ..] = shares else { return Err("mixing needs at least the weight of the image itself".into()) };
    if others.len() != chains.len() {
        return Err(format!("there are {} weights for {} chains of operations", others.len(), chains.len()));
    }
    let mut sums: Vec<f32> = picture.pixels.iter().map(|value| own * value.to_float()).collect();
    for (share, chain) in others.iter().zip(chains) {
        let other = made(picture.clone(), chain)?;
        if other.pixels.len() != sums.len() {
            return Err("images that are mixed must have the same size".into());
        }
        for (sum, value) in sums.iter_mut().zip(&other.pixels) {
            *sum += share * value.to_float();
        }
    }
    let pixels = sums.into_iter().map(T::from_float).collect();
    Ok(Picture::new(picture.width, picture.height, picture.channels, pixels))
}
