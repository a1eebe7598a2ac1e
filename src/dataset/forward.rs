//! A pointer to a dataset is itself a dataset.

use std::any::Any;
use std::sync::Arc;

use super::format::{SampleBlock, TypedField};
use super::{Advance, Dataset, ItemDataset, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::Result;

/// Forwards every method to the target of the pointer, so that no capability of the dataset is lost.
macro_rules! forward_iterable {
    ($([$($lifetime:lifetime)?] $pointer:ty),* $(,)?) => {$(
        impl<$($lifetime,)? D: IterableDataset + ?Sized> IterableDataset for $pointer {
            fn stream(
                &self,
                part: StreamPart,
                from: StreamPosition,
                stop: &StopSignal,
            ) -> Result<Box<dyn SampleStream>> {
                (**self).stream(part, from, stop)
            }

            fn is_repeatable(&self) -> bool {
                (**self).is_repeatable()
            }
        }
    )*};
}

forward_iterable!([] Arc<D>, [] Box<D>, ['a] &'a D);

/// The same, for datasets of items.
macro_rules! forward_items {
    ($([$($lifetime:lifetime)?] $pointer:ty),* $(,)?) => {$(
        impl<$($lifetime,)? D: ItemDataset + ?Sized> ItemDataset for $pointer {
            type Item = D::Item;

            fn len(&self) -> usize {
                (**self).len()
            }

            fn item(&self, index: usize) -> Result<D::Item> {
                (**self).item(index)
            }

            fn items(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
                (**self).items(indices)
            }

            fn is_empty(&self) -> bool {
                (**self).is_empty()
            }

            fn is_random(&self) -> bool {
                (**self).is_random()
            }

            fn items_with_keys(&self, indices: &[usize], keys: &[u64]) -> Result<Vec<D::Item>> {
                (**self).items_with_keys(indices, keys)
            }
        }
    )*};
}

forward_items!([] Arc<D>, [] Box<D>, ['a] &'a D);

impl<S: SampleStream + ?Sized> SampleStream for Box<S> {
    fn fields(&self) -> &[TypedField] {
        (**self).fields()
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        (**self).advance(into)
    }

    fn would_wait(&self) -> bool {
        (**self).would_wait()
    }
}

/// Wraps `dataset` in an `Arc`, unless it is one already.
pub(crate) fn shared(dataset: impl Dataset + 'static) -> Arc<dyn Dataset> {
    let mut dataset = Some(dataset);
    let any: &mut dyn Any = &mut dataset;
    if let Some(shared) = any.downcast_mut::<Option<Arc<dyn Dataset>>>().and_then(Option::take) {
        return shared;
    }
    Arc::new(dataset.expect("it was not taken"))
}
