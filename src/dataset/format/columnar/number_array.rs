//! [`number_array`]: plain numbers as an Arrow array.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};

use crate::DType;

/// Returns elements of `dtype` as an array, or None if Arrow has no type for them. Only booleans are copied.
pub(crate) fn number_array(dtype: DType, values: &Buffer, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
    Some(match dtype {
        DType::Bool => {
            let bits = BooleanBuffer::collect_bool(values.len(), |place| values[place] != 0);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        DType::UInt8 => primitive::<UInt8Type>(values, nulls),
        DType::Int8 => primitive::<Int8Type>(values, nulls),
        DType::UInt16 => primitive::<UInt16Type>(values, nulls),
        DType::Int16 => primitive::<Int16Type>(values, nulls),
        DType::UInt32 => primitive::<UInt32Type>(values, nulls),
        DType::Int32 => primitive::<Int32Type>(values, nulls),
        DType::UInt64 => primitive::<UInt64Type>(values, nulls),
        DType::Int64 => primitive::<Int64Type>(values, nulls),
        DType::Float16 => primitive::<Float16Type>(values, nulls),
        DType::Float32 => primitive::<Float32Type>(values, nulls),
        DType::Float64 => primitive::<Float64Type>(values, nulls),
        _ => return None,
    })
}

fn primitive<T: ArrowPrimitiveType>(values: &Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values.clone()), nulls))
}
