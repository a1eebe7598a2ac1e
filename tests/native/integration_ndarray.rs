//! Fields as `ndarray` arrays, and datasets of such arrays.

use std::sync::Arc;

use ndarray::{Array, Array1, Array2, Array3, ArrayD, Axis, Ix0, array, s};
use sluicegate::internal::{self, Ragged, Segment};
use sluicegate::{DType, DataLoader, Dataset, Error, Field, InMemory, PadSamples};

fn numbers() -> Array3<i32> {
    Array::from_iter(0..4 * 2 * 3).into_shape_with_order((4, 2, 3)).unwrap()
}

/// Returns the whole dataset as one batch.
fn loaded(dataset: InMemory) -> ArrayD<i32> {
    let samples = dataset.len();
    let batch = DataLoader::builder(dataset).batch_size(samples).build().unwrap().epoch(0).unwrap().next();
    batch.unwrap().unwrap().field("x").unwrap().ndarray::<i32>().unwrap().to_owned()
}

#[test]
fn arrays_come_out_as_they_went_in_whatever_their_layout() {
    let mut backwards = numbers();
    backwards.invert_axis(Axis(1));
    let mut every_other = numbers();
    every_other.slice_collapse(s![1..;2, .., ..2]);
    let mut tail = numbers();
    tail.slice_collapse(s![2.., .., ..]);
    let turned = numbers().reversed_axes();
    for array in [numbers(), backwards, every_other, tail, turned] {
        let dataset = InMemory::from_ndarray("x", array.clone()).unwrap();
        assert_eq!(dataset.len(), array.len_of(Axis(0)));
        assert_eq!(loaded(dataset), array.into_dyn());
    }
}

#[test]
fn a_view_is_the_slot_itself() {
    let dataset = InMemory::from_ndarray("x", array![[1.5_f64, 2.5], [3.5, 4.5]]).unwrap();
    let batch = DataLoader::builder(dataset).batch_size(2).build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    let field = batch.field("x").unwrap();
    let view = field.ndarray::<f64>().unwrap();
    assert_eq!(view.as_ptr().cast(), field.bytes().as_ptr());
    assert_eq!(view, array![[1.5, 2.5], [3.5, 4.5]].into_dyn());
    assert_eq!(field.sample_ndarray::<f64>(1).unwrap(), array![3.5, 4.5].into_dyn());
    let error = field.ndarray::<f32>().unwrap_err().to_string();
    assert!(error.contains("`x` holds float64, not float32"), "{error}");
    assert!(field.sample_ndarray::<f64>(2).unwrap_err().to_string().contains("no row 2"));
}

#[test]
fn ragged_and_padded_samples_have_their_own_shapes() {
    let values = Arc::new(Segment::from_vec((0..12_i16).collect()));
    let pairs = internal::Array::contiguous(values, 0, 2, &[6, 2]).unwrap();
    let ragged = Ragged::new(Field::variable("x", DType::Int16, [2]), pairs, vec![0, 4, 4, 6]).unwrap();
    let ragged: Arc<dyn Dataset> = Arc::new(ragged);
    let padded = DataLoader::builder(Arc::clone(&ragged)).collate(Arc::new(PadSamples::new().field(0, [0, 0])));
    for (loader, shape) in [(padded, [3, 4, 2].as_slice()), (DataLoader::builder(ragged), &[6, 2])] {
        let batch = loader.batch_size(3).build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
        let field = batch.field("x").unwrap();
        assert_eq!(field.ndarray::<i16>().unwrap().shape(), shape);
        assert_eq!(field.sample_ndarray::<i16>(1).unwrap(), Array2::<i16>::zeros((0, 2)).into_dyn());
        assert_eq!(field.sample_ndarray::<i16>(2).unwrap(), array![[8, 9], [10, 11]].into_dyn());
        assert_eq!(field.sample_shape(0).unwrap(), [4, 2]);
        assert!(matches!(field.sample_shape(3), Err(Error::InvalidArgument { argument: "row", .. })));
    }
}

#[test]
fn scalars_are_refused_and_empty_arrays_accepted() {
    let scalar = InMemory::from_ndarray("x", Array::<i32, Ix0>::zeros(())).err().unwrap().to_string();
    assert!(scalar.contains("a scalar has no first axis"), "{scalar}");
    assert_eq!(InMemory::from_ndarray("x", Array1::<u8>::zeros(0)).unwrap().len(), 0);
    assert_eq!(InMemory::from_ndarray("x", Array2::<u8>::zeros((3, 0))).unwrap().len(), 3);
}
