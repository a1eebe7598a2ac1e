//! One order, one state, two languages: states saved by the Python package resume here, and those saved here resume
//! there (`tests/python/loader_state/test_crate_state.py`).
//!
//! For every loader, `states.json` contains the state of each language in the middle of an epoch, and the indices of
//! the remaining batches. If the crate's states change intentionally, `print_states` (otherwise ignored) prints the new
//! contents.

use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate::{
    BatchLimit, DataLoader, Error, LastBatch, LengthBucketBatchSampler, LoaderState, Remainder, Shard, Shuffling,
};

use crate::datasets::Numbers;

const STATES: &str = include_str!("states.json");

fn number(case: &Value, name: &str) -> usize {
    usize::try_from(case[name].as_u64().unwrap()).unwrap()
}

fn loader_of(case: &Value) -> DataLoader {
    let (len, batch_size, seed) = (number(case, "len"), number(case, "batch_size"), case["seed"].as_u64().unwrap());
    let remainder = match case["remainder"].as_str().unwrap() {
        "pad" => Remainder::Pad,
        "drop" => Remainder::Drop,
        _ => Remainder::Exact,
    };
    let shard = Shard::new(number(case, "rank"), number(case, "world_size")).unwrap();
    let builder =
        DataLoader::builder(Arc::new(Numbers::new(len))).shard(shard, remainder).threads(number(case, "threads"));
    let last_batch = if case["drop_last"].as_bool().unwrap() { LastBatch::Drop } else { LastBatch::Keep };
    let builder = match case["order"].as_str().unwrap() {
        "buckets" => {
            let lengths: Vec<i64> = (0..len as i64).map(|sample| sample * sample % 61).collect();
            let limit = BatchLimit::Samples(batch_size);
            let shuffling = Shuffling::Seeded(seed);
            let batches = LengthBucketBatchSampler::new(&lengths, limit, 100, LastBatch::Keep, shuffling).unwrap();
            builder.batches(Arc::new(batches))
        }
        "shuffled" => builder.batch_size(batch_size).last_batch(last_batch).shuffle(seed),
        _ => builder.batch_size(batch_size).last_batch(last_batch),
    };
    builder.build().unwrap()
}

fn rest(loader: &DataLoader, state: &LoaderState) -> Vec<Vec<usize>> {
    loader.resume(state).unwrap().with_ids().map(|batch| batch.unwrap().1.indices).collect()
}

fn saved(case: &Value) -> LoaderState {
    let mut batches = loader_of(case).epoch(case["epoch"].as_u64().unwrap()).unwrap();
    for _ in 0..number(case, "received") {
        batches.next().unwrap().unwrap();
    }
    batches.state()
}

fn cases() -> Vec<Value> {
    serde_json::from_str(STATES).unwrap()
}

#[test]
fn rust_and_python_resume_each_others_states() {
    for case in cases() {
        let expected: Vec<Vec<usize>> = serde_json::from_value(case["rest"].clone()).unwrap();
        assert!(expected.len() > 1);
        for name in ["crate", "package"] {
            let state = LoaderState::from_json(&case[name].to_string()).unwrap();
            assert_eq!(rest(&loader_of(&case), &state), expected, "{name}: {case}");
            assert_eq!(LoaderState::from_json(&state.to_json()).unwrap(), state);
        }
        let state = saved(&case);
        assert_eq!(serde_json::from_str::<Value>(&state.to_json()).unwrap(), case["crate"]);
    }
}

#[test]
#[ignore = "prints the golden file"]
fn print_states() {
    let with_states = cases().into_iter().map(|mut case| {
        let state = saved(&case);
        case["rest"] = json!(rest(&loader_of(&case), &state));
        case["crate"] = serde_json::from_str(&state.to_json()).unwrap();
        case
    });
    println!("{}", serde_json::to_string_pretty(&with_states.collect::<Vec<_>>()).unwrap());
}

fn refused(state: &Value) -> String {
    match LoaderState::from_json(&state.to_string()) {
        Err(Error::State { reason }) => reason,
        other => panic!("{state} is {other:?}"),
    }
}

#[test]
fn batches_received_out_of_order_in_python_are_not_read_again() {
    let case = cases()[0].clone();
    let expected: Vec<Vec<usize>> = serde_json::from_value(case["rest"].clone()).unwrap();
    let mut state = case["package"].clone();
    state["layout"] = json!([case["batch_size"], 1]);
    // The batch after the next, two later ones, and one given by its number, as in older states.
    state["received_ahead"] = json!([[4, 6], 7]);
    let state = LoaderState::from_json(&state.to_string()).unwrap();
    let left = [&expected[..1], &expected[3..4], &expected[5..]].concat();
    assert_eq!(rest(&loader_of(&case), &state), left);
}

#[test]
fn unsupported_python_states_are_refused_with_a_reason() {
    let state = cases()[0]["package"].clone();
    let changed = |path: &str, value: Value| {
        let mut state = state.clone();
        *state.pointer_mut(path).unwrap() = value;
        refused(&state)
    };
    assert!(changed("/fingerprint/kind", json!("iterable-style")).contains("iterable-style"));
    assert!(changed("/fingerprint/order", json!(null)).contains("give that loader a seed"));
    assert!(changed("/left_out/samples", json!([[3, 4]])).contains("skips batches or samples"));
    assert!(changed("/version", json!(2)).contains("update sluicegate"));
    assert!(changed("/batches_received", json!(1_000)).contains("it was modified"));
    assert!(changed("/received_ahead", json!([[5, 1_u64 << 60]])).contains("it was modified"));
    let mut twice = state.clone();
    twice["received_ahead"] = json!([[0, 1_u64 << 63], [0, 1_u64 << 63]]);
    assert!(refused(&twice).contains("it was modified"));
    let mut of_ranks = state.clone();
    of_ranks["layout"] = json!([7, 2]);
    of_ranks["received_ahead"] = json!([[4, 5]]);
    assert!(refused(&of_ranks).contains("does not record which"));
    assert!(changed("/position", json!("3")).contains("invalid type"));
}
