//! Fields as `ndarray` arrays, and datasets of such arrays.

use std::sync::Arc;

use ndarray::{Array, ArrayViewD, Dimension, IxDyn};

use crate::memory::{self, Segment};
use crate::{Element, Error, Field, FieldView, InMemory, Result};

impl<'a> FieldView<'a> {
    /// Returns the elements of all samples as an array of [`shape`](Self::shape), without copying. Feature `ndarray`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field has a different data type.
    ///
    /// # Example
    /// ```
    /// use ndarray::{Array2, Axis, array};
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let points: Array2<f32> = array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    /// let loader = DataLoader::builder(InMemory::from_ndarray("point", points)?).batch_size(2).build()?;
    /// let first = loader.epoch(0)?.next().expect("three points")?;
    /// let point = first.field("point")?.ndarray::<f32>()?; // a view of the slot; `to_owned` copies it
    /// assert_eq!(point.sum_axis(Axis(0)), array![4.0, 6.0].into_dyn());
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn ndarray<T: Element>(&self) -> Result<ArrayViewD<'a, T>> {
        self.viewed(self.shape(), self.view()?)
    }

    /// Returns the elements of the sample in row `row` as an array of its shape, without padding or copying. Feature
    /// `ndarray`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field has a different data type, or the batch has no such row.
    pub fn sample_ndarray<T: Element>(&self, row: usize) -> Result<ArrayViewD<'a, T>> {
        self.viewed(&self.sample_shape(row)?, self.sample(row)?)
    }

    fn viewed<T>(&self, shape: &[usize], elements: &'a [T]) -> Result<ArrayViewD<'a, T>> {
        ArrayViewD::from_shape(IxDyn(shape), elements).map_err(|error| Error::InvalidArgument {
            argument: "field",
            reason: format!("ndarray has no array of the shape {shape:?} of field `{}`: {error}", self.name()),
        })
    }
}

impl InMemory {
    /// Returns a dataset of one field over `array`, whose first axis counts the samples. An array in C order is used
    /// without copying; any other is copied once. Feature `ndarray`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the array has no axis.
    ///
    /// # Example
    /// ```
    /// use ndarray::{Array1, Array3};
    /// use sluicegate::{Dataset, DatasetExt, InMemory};
    ///
    /// let image = InMemory::from_ndarray("image", Array3::<u8>::zeros((10, 28, 28)))?;
    /// let label = InMemory::from_ndarray("label", Array1::<i64>::zeros(10))?;
    /// assert_eq!(image.zip(label)?.schema().to_string(), "(image: uint8[28, 28], label: int64[])");
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn from_ndarray<T: Element, D: Dimension>(name: &str, array: Array<T, D>) -> Result<Self> {
        let array = if array.is_standard_layout() { array } else { array.as_standard_layout().into_owned() };
        let shape = array.shape().to_vec();
        let (values, first) = array.into_raw_vec_and_offset();
        let (offset, bytes) = (first.unwrap_or(0) * T::DTYPE.bytes(), T::DTYPE.bytes());
        let rows = memory::Array::contiguous(Arc::new(Segment::from_vec(values)), offset, bytes, &shape)?;
        Self::new(vec![(Field::new(name, T::DTYPE, &shape[1..]), rows)])
    }
}
