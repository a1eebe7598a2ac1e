//! Arrow's record batches in and out: rows as a query might give them are shuffled, and come out as record batches again, in
//! another order and of another size.
//!
//! `cargo run --release --features arrow --example arrow`

use std::error::Error;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, Int64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use sluicegate::{ColumnarOptions, DataLoader, RecordBatches};

const ROWS: i64 = 10_000;
const ROWS_PER_BATCH: i64 = 1_500;

fn main() -> Result<(), Box<dyn Error>> {
    let table: Vec<RecordBatch> = (0..ROWS)
        .step_by(ROWS_PER_BATCH as usize)
        .map(|start| rows(start, ROWS_PER_BATCH.min(ROWS - start)))
        .collect::<Result<_, _>>()?;
    println!("{} record batches of {}", table.len(), table[0].schema());

    let dataset = RecordBatches::new(table, &ColumnarOptions::default())?;
    let loader = DataLoader::builder(dataset).batch_size(256).shuffle(7).threads(2).build()?;
    let (mut ids, mut first) = (Vec::new(), None);
    for batch in loader.epoch(0)? {
        // The columns lie in the slot that the threads wrote to; it is used again when they are dropped.
        let batch = batch?.into_record_batch()?;
        let column = |name| batch.column_by_name(name).ok_or("a field became no column");
        let (id, point, visits) = (column("id")?, column("point")?, column("visits")?);
        for (row, &id) in id.as_primitive::<Int64Type>().values().iter().enumerate() {
            let point = point.as_fixed_size_list().value(row);
            let visits = visits.as_list::<i64>().value(row);
            let is_whole = point.as_primitive::<Float32Type>().values()[..] == [id as f32, -id as f32]
                && visits.as_primitive::<Int64Type>().values().iter().eq(&visits_of(id));
            if !is_whole {
                return Err(format!("row {id} came out with {point:?} and {visits:?}").into());
            }
            ids.push(id);
        }
        first.get_or_insert(batch);
    }

    let first = first.ok_or("there was no batch")?;
    println!("the first of those that come out: {} rows of {}", first.num_rows(), first.schema());
    println!("it begins with the rows {:?}", &ids[..8]);
    ids.sort_unstable();
    if !ids.iter().copied().eq(0..ROWS) {
        return Err("some rows came twice, or not at all".into());
    }
    Ok(())
}

/// The rows from `start` on.
fn rows(start: i64, rows: i64) -> Result<RecordBatch, Box<dyn Error>> {
    let mut points = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    let mut visits = ListBuilder::new(Int64Builder::new());
    for id in start..start + rows {
        points.values().append_slice(&[id as f32, -id as f32]);
        points.append(true);
        visits.append_value(visits_of(id).into_iter().map(Some));
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(start..start + rows))),
        ("point", Arc::new(points.finish())),
        ("visits", Arc::new(visits.finish())),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// None to three numbers.
fn visits_of(id: i64) -> Vec<i64> {
    (0..id % 4).map(|visit| id * 10 + visit).collect()
}
