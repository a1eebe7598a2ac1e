//! burn: converts datasets in both directions, burn's batchers to collates, our loaders to burn's, and fields to tensor
//! data.

mod dataset;
mod epochs;
mod field;
mod loader;

pub use dataset::{FromBurn, ToBurn};
pub use loader::BurnLoader;

use burn_core::data::dataloader::batcher::Batcher;
use burn_core::tensor::Device;

use crate::Result;

/// Returns burn's `batcher` as the collate of an [`ItemLoader`](crate::ItemLoader): its batches are made on `device`,
/// by the fetching threads. Feature `burn`.
///
/// # Example
/// ```
/// # #[cfg(feature = "burn-flex")] {
/// use burn_core::data::dataloader::batcher::Batcher;
/// use burn_core::tensor::{Device, Tensor};
/// use sluicegate::{ItemLoader, burn_collate};
///
/// struct Points;
///
/// impl Batcher<[f32; 2], Tensor<2>> for Points {
///     fn batch(&self, points: Vec<[f32; 2]>, device: &Device) -> Tensor<2> {
///         Tensor::stack(points.iter().map(|point| Tensor::<1>::from_floats(*point, device)).collect(), 0)
///     }
/// }
///
/// let points = vec![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
/// let loader = ItemLoader::builder(points, burn_collate(Points, Device::flex())).batch_size(2).threads(1).build()?;
/// let first = loader.epoch(0)?.next().expect("three points")?;
/// assert_eq!(first.dims(), [2, 2]);
/// # }
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub fn burn_collate<I, O>(batcher: impl Batcher<I, O>, device: Device) -> impl Fn(Vec<I>) -> Result<O> + Send + Sync {
    move |items| Ok(batcher.batch(items, &device))
}
