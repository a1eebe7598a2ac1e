//! Fields as candle tensors, and datasets of such tensors.

use std::sync::Arc;

use candle_core::{DType as CandleDType, Device, Tensor};
use sluicegate::internal::{Array, Segment};
use sluicegate::{Batch, DType, DataLoader, Dataset, Error, Field, InMemory};

fn whole(dataset: InMemory) -> Batch {
    let samples = dataset.len();
    DataLoader::builder(dataset).batch_size(samples).build().unwrap().epoch(0).unwrap().next().unwrap().unwrap()
}

/// Returns three samples of two elements of `dtype`: small numbers in any data type.
fn of(dtype: DType) -> InMemory {
    let bytes: Vec<u8> = (0..6 * dtype.bytes()).map(|byte| (byte % 2) as u8).collect();
    let array = Array::contiguous(Arc::new(Segment::from_vec(bytes)), 0, dtype.bytes(), &[3, 2]).unwrap();
    InMemory::new(vec![(Field::new("x", dtype, [2]), array)]).unwrap()
}

#[test]
fn every_candle_data_type_round_trips() {
    for (dtype, theirs) in [
        (DType::UInt8, CandleDType::U8),
        (DType::UInt32, CandleDType::U32),
        (DType::Int16, CandleDType::I16),
        (DType::Int32, CandleDType::I32),
        (DType::Int64, CandleDType::I64),
        (DType::Float16, CandleDType::F16),
        (DType::BFloat16, CandleDType::BF16),
        (DType::Float32, CandleDType::F32),
        (DType::Float64, CandleDType::F64),
        (DType::Float8E4M3Fn, CandleDType::F8E4M3),
        (DType::Float8E8M0Fnu, CandleDType::F8E8M0),
    ] {
        let batch = whole(of(dtype));
        let tensor = batch.field("x").unwrap().to_candle(&Device::Cpu).unwrap();
        assert_eq!((tensor.dtype(), tensor.dims()), (theirs, [3, 2].as_slice()), "{dtype}");
        let dataset = InMemory::from_candle("x", &tensor).unwrap();
        assert_eq!(dataset.schema().to_string(), format!("(x: {dtype}[2])"));
        assert_eq!(whole(dataset).bytes(0), batch.bytes(0), "{dtype}");
    }
    let flags = whole(of(DType::Bool)).field("x").unwrap().to_candle(&Device::Cpu).unwrap();
    assert_eq!(flags.to_vec2::<u8>().unwrap(), [[0, 1], [0, 1], [0, 1]]);
}

#[test]
fn other_data_types_are_refused_by_name() {
    for dtype in [DType::Int8, DType::UInt16, DType::UInt64, DType::Complex64, DType::Float8E5M2] {
        let error = whole(of(dtype)).field("x").unwrap().to_candle(&Device::Cpu).unwrap_err().to_string();
        assert!(error.contains(&format!("`x` holds {dtype}, for which candle has no type")), "{error}");
    }
}

#[test]
fn a_part_of_a_tensor_is_a_dataset_of_that_part() {
    let tensor = Tensor::arange(0_i64, 24, &Device::Cpu).unwrap().reshape((4, 2, 3)).unwrap();
    for part in [tensor.narrow(0, 1, 2), tensor.narrow(2, 1, 2), tensor.transpose(0, 2), tensor.get(3)] {
        let part = part.unwrap();
        let dataset = InMemory::from_candle("x", &part).unwrap();
        assert_eq!(dataset.len(), part.dims()[0]);
        let values = part.flatten_all().unwrap().to_vec1::<i64>().unwrap();
        assert_eq!(whole(dataset).to_vec::<i64>(0).unwrap(), values);
    }
}

#[test]
fn a_scalar_has_no_samples() {
    let error = InMemory::from_candle("x", &Tensor::new(1.0_f32, &Device::Cpu).unwrap()).err().unwrap();
    assert!(
        matches!(&error, Error::InvalidArgument { reason, .. } if reason.contains("a scalar has no first axis")),
        "{error}"
    );
}
