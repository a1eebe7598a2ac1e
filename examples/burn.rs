//! Trains a small network with burn on the demo's photographs of clothes, from a loader that is burn's own kind: `BurnLoader`
//! has its trait `DataLoader`, so whatever trains from one takes it. In the middle of an epoch the state is saved, and another
//! loader resumes from it, as another process would; burn's own loaders can't.
//!
//! `cargo run --release --features burn-flex --example burn [folder]`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use burn_core::data::dataloader::DataLoader;
use burn_core::tensor::activation::{log_softmax, relu};
use burn_core::tensor::{Device, Int, Tensor, TensorData};
use sluicegate::{Batch, BurnLoader, Dataset, DatasetExt, LoaderState, Npy, sample_key};

const TRAINING_ROWS: usize = 6_000;
const CLASSES: usize = 10;
const EPOCHS: u64 = 4;
const INTERRUPTED: (u64, usize) = (1, 40);
const LEARNING_RATE: f32 = 0.1;
/// Such a network gets there in four epochs; guessing gives a tenth.
const EXPECTED_ACCURACY: f32 = 0.8;

/// Pixels and labels.
type Photographs = (Tensor<2>, Tensor<1, Int>);

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(demo_folder, PathBuf::from);
    let images = Npy::open("image", folder.join("images.npy"))?;
    let dataset = Arc::new(images.zip(Npy::open("label", folder.join("labels.npy"))?)?);
    let training: Arc<dyn Dataset> = Arc::new(Arc::clone(&dataset).take(TRAINING_ROWS));
    let test = dataset.skip(TRAINING_ROWS);
    let test = BurnLoader::of_fields(test, photographs, Device::flex(), |loader| loader.batch_size(500))?;

    let begin = Instant::now();
    let mut network = Network::new(&Device::flex().autodiff());
    let mut loader = training_loader(&training, 2)?;
    for epoch in 0..EPOCHS {
        let mut losses = Vec::new();
        if epoch == INTERRUPTED.0 {
            for batch in loader.iter().take(INTERRUPTED.1) {
                losses.push(network.train(batch?));
            }
            let saved = loader.state().ok_or("an epoch was begun")?.to_json();
            println!("interrupted after {} batches: {saved}", losses.len());
            // The threads may be others: which samples come, and in which order, does not depend on them.
            loader = training_loader(&training, 1)?;
            loader.resume(&LoaderState::from_json(&saved)?)?;
        }
        // Another order with each `iter`.
        for batch in loader.iter() {
            losses.push(network.train(batch?));
        }
        let loss = losses.iter().sum::<f32>() / losses.len() as f32;
        println!("epoch {epoch}: {} batches, loss {loss:.3}", losses.len());
    }

    let (mut right, seen) = (0.0, test.num_items());
    for batch in test.iter() {
        let (pixels, labels) = batch?;
        let classes = network.clone().without_autodiff().scores(pixels).argmax(1).flatten::<1>(0, 1);
        right += classes.equal(labels).float().sum().into_scalar::<f32>();
    }
    let accuracy = right / seen as f32;
    println!("{:.1} % of {seen} unseen images are right, after {:.1?}", accuracy * 100.0, begin.elapsed());
    if accuracy < EXPECTED_ACCURACY {
        return Err(format!("an accuracy of at least {EXPECTED_ACCURACY} was expected").into());
    }
    Ok(())
}

fn training_loader(dataset: &Arc<dyn Dataset>, threads: usize) -> sluicegate::Result<BurnLoader<Photographs>> {
    let settings = move |loader: sluicegate::DataLoaderBuilder| loader.batch_size(64).shuffle(7).threads(threads);
    BurnLoader::of_fields(Arc::clone(dataset), photographs, Device::flex().autodiff(), settings)
}

/// What the network takes of a batch, on `device`.
fn photographs(batch: Batch, device: &Device) -> sluicegate::Result<Photographs> {
    let pixels: Vec<f32> =
        batch.field("image")?.view::<u8>()?.iter().map(|&pixel| f32::from(pixel) / 90.0 - 0.8).collect();
    let pixels = Tensor::from_data(TensorData::new(pixels, [batch.samples(), 28 * 28]), device);
    Ok((pixels, Tensor::from_data(batch.field("label")?.to_burn()?, device)))
}

/// Two layers, and plain gradient descent.
#[derive(Clone)]
struct Network {
    into_hidden: Tensor<2>,
    hidden_bias: Tensor<2>,
    into_classes: Tensor<2>,
    class_bias: Tensor<2>,
}

impl Network {
    fn new(device: &Device) -> Self {
        let (pixels, hidden) = (28 * 28, 64);
        Self {
            into_hidden: weights(1, pixels, hidden, device),
            hidden_bias: Tensor::zeros([1, hidden], device).require_grad(),
            into_classes: weights(2, hidden, CLASSES, device),
            class_bias: Tensor::zeros([1, CLASSES], device).require_grad(),
        }
    }

    fn without_autodiff(self) -> Self {
        Self {
            into_hidden: self.into_hidden.without_autodiff(),
            hidden_bias: self.hidden_bias.without_autodiff(),
            into_classes: self.into_classes.without_autodiff(),
            class_bias: self.class_bias.without_autodiff(),
        }
    }

    fn scores(&self, pixels: Tensor<2>) -> Tensor<2> {
        let hidden = relu(pixels.matmul(self.into_hidden.clone()) + self.hidden_bias.clone());
        hidden.matmul(self.into_classes.clone()) + self.class_bias.clone()
    }

    /// One step; returns the loss before it.
    fn train(&mut self, (pixels, labels): Photographs) -> f32 {
        let labels = labels.unsqueeze_dim::<2>(1);
        let loss = log_softmax(self.scores(pixels), 1).gather(1, labels).mean().neg();
        let gradients = loss.backward();
        for weights in [&mut self.into_hidden, &mut self.hidden_bias, &mut self.into_classes, &mut self.class_bias] {
            let Some(gradient) = weights.grad(&gradients) else { continue };
            let moved = weights.clone().without_autodiff() - gradient * LEARNING_RATE;
            *weights = moved.autodiff().require_grad();
        }
        loss.into_scalar::<f32>()
    }
}

/// Small numbers around 0 that are the same in every run.
fn weights(seed: u64, rows: usize, columns: usize, device: &Device) -> Tensor<2> {
    let limit = (6.0 / (rows + columns) as f32).sqrt();
    let number = |index: usize| (sample_key(seed, 0, index as u64) >> 40) as f32 / (1 << 24) as f32;
    let numbers: Vec<f32> = (0..rows * columns).map(|index| (number(index) * 2.0 - 1.0) * limit).collect();
    Tensor::from_data(TensorData::new(numbers, [rows, columns]), device).require_grad()
}

fn demo_folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "python", "sluicegate", "cli", "data", "fashion_mnist"].iter().collect()
}
