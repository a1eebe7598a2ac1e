//! Images of random pixels, compared with those of torchvision 0.29.

use std::sync::Arc;

use sluicegate::internal::{FakeImages, PixelPipeline};
use sluicegate::{BatchWriter, ChannelOrder, Column, Dataset, Error, Stack, Subset};

/// Returns `FakeData(3, (1, height, width), 1000, PILToTensor(), random_offset=seed)`.
fn images([height, width]: [usize; 2], seed: u64) -> FakeImages {
    let pipeline = PixelPipeline::new(Vec::new(), [height, width], 1, ChannelOrder::First).unwrap();
    FakeImages::new(["image", "label"], 3, seed, 1000, pipeline)
}

fn read(dataset: &FakeImages, index: usize) -> Result<(Vec<u8>, i64), Error> {
    let pixels = dataset.schema().fields()[0].bytes();
    let fixed = |offset, bytes_per_sample| Column::Fixed { offset, bytes_per_sample };
    let columns = [fixed(0, pixels), fixed(64, 8)];
    let mut bytes = vec![0; 72];
    dataset.read(index, &mut BatchWriter::new(&mut bytes, &columns, 1).sample(0))?;
    Ok((bytes[..pixels].to_vec(), i64::from_ne_bytes(bytes[64..].try_into().unwrap())))
}

#[test]
fn samples_are_torchvisions() {
    let few = images([2, 3], 0);
    assert_eq!(read(&few, 0).unwrap(), (vec![136, 182, 213, 144, 236, 156], 756));
    assert_eq!(read(&few, 1).unwrap(), (vec![168, 68, 15, 158, 141, 214], 516));
    let many = [47, 100, 229, 158, 50, 199, 8, 72, 40, 202, 236, 91, 243, 171, 175, 166, 35, 113, 244, 166];
    assert_eq!(read(&images([4, 5], 7), 0).unwrap(), (many.to_vec(), 416));
    assert!(matches!(read(&few, 3), Err(Error::IndexOutOfRange { index: 3, len: 3 })));
}

#[test]
fn a_negative_index_is_no_sample_from_the_end() {
    let dataset: Arc<dyn Dataset> = Arc::new(images([2, 3], 0));
    assert!(!dataset.counts_from_end());
    assert!(Subset::new(Arc::clone(&dataset), vec![1]).unwrap().counts_from_end());
    let stack = Stack::new(vec![("0".to_owned(), dataset)]).unwrap();
    assert!(!stack.counts_from_end());
}
