//! [`forward_dataset`]: implements a dataset through another one, such as the target of a pointer.

use std::sync::Arc;

use super::Dataset;

/// Implements `Dataset` for a type by forwarding every method, so that no capability of the inner dataset is lost.
macro_rules! forward_dataset {
    ([$($generics:tt)*] $type:ty, $self:ident => $inner:expr) => {
        impl<$($generics)*> $crate::Dataset for $type {
            fn len(&$self) -> usize {
                $crate::Dataset::len(&$inner)
            }

            fn schema(&$self) -> &$crate::Schema {
                $crate::Dataset::schema(&$inner)
            }

            fn read(&$self, index: usize, into: &mut $crate::SampleWriter<'_>) -> $crate::Result<()> {
                $crate::Dataset::read(&$inner, index, into)
            }

            fn is_empty(&$self) -> bool {
                $crate::Dataset::is_empty(&$inner)
            }

            fn as_read_many(&$self) -> Option<&dyn $crate::ReadMany> {
                $crate::Dataset::as_read_many(&$inner)
            }

            fn as_blocks(&$self) -> Option<&dyn $crate::Blocks> {
                $crate::Dataset::as_blocks(&$inner)
            }

            fn as_variable(&$self) -> Option<&dyn $crate::VariableSize> {
                $crate::Dataset::as_variable(&$inner)
            }

            fn is_random(&$self) -> bool {
                $crate::Dataset::is_random(&$inner)
            }

            fn as_drawing(&$self) -> Option<&dyn $crate::dataset::Drawing> {
                $crate::Dataset::as_drawing(&$inner)
            }

            fn counts_from_end(&$self) -> bool {
                $crate::Dataset::counts_from_end(&$inner)
            }

            fn origin(&$self, index: usize, field: usize) -> Option<String> {
                $crate::Dataset::origin(&$inner, index, field)
            }
        }
    };
}
pub(crate) use forward_dataset;

forward_dataset!([D: Dataset + ?Sized] Arc<D>, self => **self);
forward_dataset!([D: Dataset + ?Sized] Box<D>, self => **self);
forward_dataset!(['a, D: Dataset + ?Sized] &'a D, self => **self);
