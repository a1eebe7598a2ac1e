//! Trains a small network with candle on the demo's photographs of clothes: read in Rust, shuffled, on two threads. In the
//! middle of an epoch the state is saved, and another loader resumes from it, as another process would.
//!
//! `cargo run --release --features candle --example candle [folder]`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use candle_core::{D, DType, Device, Tensor, Var};
use sluicegate::{Batch, DataLoader, Dataset, DatasetExt, LoaderState, Npy, sample_key};

const TRAINING_ROWS: usize = 6_000;
const CLASSES: usize = 10;
const EPOCHS: u64 = 4;
const INTERRUPTED: (u64, usize) = (1, 40);
const LEARNING_RATE: f64 = 0.1;
/// Such a network gets there in four epochs; guessing gives a tenth.
const EXPECTED_ACCURACY: f32 = 0.8;

type AnyError = Box<dyn Error>;

fn main() -> Result<(), AnyError> {
    let folder = std::env::args_os().nth(1).map_or_else(demo_folder, PathBuf::from);
    let images = Npy::open("image", folder.join("images.npy"))?;
    let dataset = Arc::new(images.zip(Npy::open("label", folder.join("labels.npy"))?)?);
    let training: Arc<dyn Dataset> = Arc::new(Arc::clone(&dataset).take(TRAINING_ROWS));
    let test = DataLoader::builder(dataset.skip(TRAINING_ROWS)).batch_size(500).build()?;

    let begin = Instant::now();
    let (device, mut network) = (Device::Cpu, Network::new(&Device::Cpu)?);
    let mut loader = training_loader(&training, 2)?;
    for epoch in 0..EPOCHS {
        let mut losses = Vec::new();
        let mut batches = loader.epoch(epoch)?;
        if epoch == INTERRUPTED.0 {
            for batch in batches.by_ref().take(INTERRUPTED.1) {
                losses.push(network.train(&batch?, &device)?);
            }
            let saved = batches.state().to_json();
            drop(batches);
            // The threads may be others: which samples come, and in which order, does not depend on them.
            loader = training_loader(&training, 1)?;
            batches = loader.resume(&LoaderState::from_json(&saved)?)?;
            println!("interrupted after {} batches, {} to go: {saved}", losses.len(), batches.len());
        }
        for batch in batches {
            losses.push(network.train(&batch?, &device)?);
        }
        let loss = losses.iter().sum::<f32>() / losses.len() as f32;
        println!("epoch {epoch}: {} batches, loss {loss:.3}", losses.len());
    }

    let (mut right, mut seen) = (0.0, 0);
    for batch in test.epoch(0)? {
        let batch = batch?;
        right += network.right(&batch, &device)?;
        seen += batch.samples();
    }
    let accuracy = right / seen as f32;
    println!("{:.1} % of {seen} unseen images are right, after {:.1?}", accuracy * 100.0, begin.elapsed());
    if accuracy < EXPECTED_ACCURACY {
        return Err(format!("an accuracy of at least {EXPECTED_ACCURACY} was expected").into());
    }
    Ok(())
}

fn training_loader(dataset: &Arc<dyn Dataset>, threads: usize) -> sluicegate::Result<DataLoader> {
    DataLoader::builder(Arc::clone(dataset)).batch_size(64).shuffle(7).threads(threads).build()
}

/// Two layers, and plain gradient descent.
struct Network {
    variables: [Var; 4],
}

impl Network {
    fn new(device: &Device) -> Result<Self, AnyError> {
        let (pixels, hidden) = (28 * 28, 64);
        Ok(Self {
            variables: [
                weights(1, pixels, hidden, device)?,
                Var::zeros(hidden, DType::F32, device)?,
                weights(2, hidden, CLASSES, device)?,
                Var::zeros(CLASSES, DType::F32, device)?,
            ],
        })
    }

    fn scores(&self, batch: &Batch, device: &Device) -> Result<Tensor, AnyError> {
        let [into_hidden, hidden_bias, into_classes, class_bias] = &self.variables;
        let pixels = batch.field("image")?.to_candle(device)?.flatten_from(1)?.to_dtype(DType::F32)?;
        let pixels = pixels.affine(1.0 / 90.0, -0.8)?;
        let hidden = pixels.matmul(into_hidden)?.broadcast_add(hidden_bias)?.relu()?;
        Ok(hidden.matmul(into_classes)?.broadcast_add(class_bias)?)
    }

    /// One step; returns the loss before it.
    fn train(&mut self, batch: &Batch, device: &Device) -> Result<f32, AnyError> {
        let scores = self.scores(batch, device)?;
        let labels = batch.field("label")?.to_candle(device)?.unsqueeze(1)?;
        let scores = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?;
        let normaliser = scores.exp()?.sum_keepdim(D::Minus1)?.log()?;
        let loss = scores.broadcast_sub(&normaliser)?.gather(&labels, 1)?.mean_all()?.neg()?;
        let gradients = loss.backward()?;
        for variable in &self.variables {
            let gradient = gradients.get(variable).ok_or("a variable takes no part in the loss")?;
            variable.set(&variable.sub(&gradient.affine(LEARNING_RATE, 0.0)?)?)?;
        }
        Ok(loss.to_scalar()?)
    }

    /// How many samples of the batch it has right.
    fn right(&self, batch: &Batch, device: &Device) -> Result<f32, AnyError> {
        let labels = batch.field("label")?.to_candle(device)?.to_dtype(DType::U32)?;
        let is_right = self.scores(batch, device)?.argmax(D::Minus1)?.eq(&labels)?;
        Ok(is_right.to_dtype(DType::F32)?.sum_all()?.to_scalar()?)
    }
}

/// Small numbers around 0 that are the same in every run.
fn weights(seed: u64, rows: usize, columns: usize, device: &Device) -> Result<Var, AnyError> {
    let limit = (6.0 / (rows + columns) as f32).sqrt();
    let number = |index: usize| (sample_key(seed, 0, index as u64) >> 40) as f32 / (1 << 24) as f32;
    let numbers: Vec<f32> = (0..rows * columns).map(|index| (number(index) * 2.0 - 1.0) * limit).collect();
    Ok(Var::from_vec(numbers, (rows, columns), device)?)
}

fn demo_folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "python", "sluicegate", "cli", "data", "fashion_mnist"].iter().collect()
}
