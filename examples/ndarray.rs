//! The demo's photographs of clothes through ndarray: the mean image of each class, learned from shuffled batches, and how
//! many unseen images lie nearest to the mean of their own class.
//!
//! `cargo run --release --features ndarray --example ndarray [folder]`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use ndarray::{Array1, Array3, Axis, Ix3};
use sluicegate::{DataLoader, DatasetExt, Npy};

const CLASSES: usize = 10;
const TRAINING_ROWS: usize = 6_000;
/// What two tries in three are right by: far more than the tenth that guessing gives.
const EXPECTED_ACCURACY: f64 = 0.62;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(demo_folder, PathBuf::from);
    let images = Npy::open("image", folder.join("images.npy"))?;
    let dataset = Arc::new(images.zip(Npy::open("label", folder.join("labels.npy"))?)?);

    let training = DataLoader::builder(Arc::clone(&dataset).take(TRAINING_ROWS));
    let training = training.batch_size(256).shuffle(7).threads(2).build()?;
    let (mut sums, mut counts) = (Array3::<f32>::zeros((CLASSES, 28, 28)), Array1::<f32>::zeros(CLASSES));
    for batch in training.epoch(0)? {
        let batch = batch?;
        // Views of the slot that the batch lies in: nothing is copied.
        let (images, labels) = (batch.field("image")?.ndarray::<u8>()?, batch.field("label")?.ndarray::<i64>()?);
        for (image, &label) in images.into_dimensionality::<Ix3>()?.outer_iter().zip(&labels) {
            let mut sum = sums.index_axis_mut(Axis(0), label as usize);
            sum.zip_mut_with(&image, |sum, &pixel| *sum += f32::from(pixel));
            counts[label as usize] += 1.0;
        }
    }
    let means = sums / counts.insert_axis(Axis(1)).insert_axis(Axis(2));

    let unseen = DataLoader::builder(dataset.skip(TRAINING_ROWS)).batch_size(256).build()?;
    let (mut right, mut seen) = (0, 0);
    for batch in unseen.epoch(0)? {
        let batch = batch?;
        let (images, labels) = (batch.field("image")?.ndarray::<u8>()?, batch.field("label")?.ndarray::<i64>()?);
        for (image, &label) in images.into_dimensionality::<Ix3>()?.outer_iter().zip(&labels) {
            let image = image.mapv(f32::from);
            let distances = means.outer_iter().map(|mean| (&mean - &image).mapv(|difference| difference.powi(2)).sum());
            let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(class, _)| class);
            right += usize::from(nearest == Some(label as usize));
            seen += 1;
        }
    }
    let accuracy = right as f64 / seen as f64;
    println!("{right} of {seen} images lie nearest to the mean of their class: {:.1} %", accuracy * 100.0);
    if accuracy < EXPECTED_ACCURACY {
        return Err(format!("an accuracy of at least {EXPECTED_ACCURACY} was expected").into());
    }
    Ok(())
}

fn demo_folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "python", "sluicegate", "cli", "data", "fashion_mnist"].iter().collect()
}
