//! States: what is rejected, and with which message.

use std::sync::Arc;

use sluicegate::{DataLoader, Error, LastBatch, LoaderState};

use crate::datasets::Numbers;

const STATE: &str = r#"{"version":1,"epoch":3,"batches_received":2,"received_ahead":[4],"position":20,
    "dataset_len":100,"sampler":"SequentialSampler(len=100)","batch_size":10,"rank":0,"world_size":1}"#;

fn loader(len: usize, batch_size: usize, last_batch: LastBatch) -> DataLoader {
    DataLoader::builder(Arc::new(Numbers::new(len))).batch_size(batch_size).last_batch(last_batch).build().unwrap()
}

/// Returns why `json` is not a valid state.
fn refused(json: &str) -> String {
    let error = LoaderState::from_json(json).expect_err(json);
    assert!(matches!(error, Error::State { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn a_state_says_where_the_consumer_is() {
    let state = LoaderState::from_json(STATE).unwrap();
    assert_eq!((state.epoch(), state.batches_received(), state.position()), (3, 3, 20));
    let received: Vec<u64> = (0..10).filter(|&batch| state.has_received(batch)).collect();
    assert_eq!(received, [0, 1, 4]);
    assert_eq!(LoaderState::from_json(&state.to_json()).unwrap(), state);
    let rest = loader(100, 10, LastBatch::Keep).resume(&state).unwrap();
    let first: Vec<u64> = rest.map(|batch| batch.unwrap().to_vec::<u64>(0).unwrap()[0]).collect();
    assert_eq!(first, [20, 30, 50, 60, 70, 80, 90]);
}

#[test]
fn a_state_stays_small_however_large_the_dataset() {
    let loader = loader(1 << 40, 1 << 10, LastBatch::Keep);
    let mut batches = loader.epoch(u64::MAX).unwrap();
    batches.by_ref().take(50).for_each(|batch| drop(batch.unwrap()));
    assert!(batches.state().to_json().len() < 300);
}

#[test]
fn a_state_of_another_loader_is_refused_with_both_sides() {
    let state = LoaderState::from_json(STATE).unwrap();
    let error = loader(99, 10, LastBatch::Keep).resume(&state).err().unwrap();
    assert!(matches!(error, Error::State { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("a dataset of 100 samples, here of 99"), "{message}");
    assert!(message.contains("the sampler SequentialSampler(len=100), here SequentialSampler(len=99)"), "{message}");
}

#[test]
fn a_newer_version_is_refused_by_number() {
    let newer = [STATE.replace("\"version\":1", "\"version\":2"), r#"{"version":2,"position":17}"#.into()];
    for json in newer {
        let message = refused(&json);
        assert!(message.contains("version 2") && message.contains("supports only 1"), "{message}");
    }
}

#[test]
fn invalid_states_are_refused() {
    for garbage in ["", "null", "[]", "{}", "{\"version\":1}", "{\"version\":-1}", "not json", &STATE[..40]] {
        refused(garbage);
    }
    let changed = [
        (":2,", ":-2,", "batches_received"),
        (":20,", ":1,", "batches_received=2 is more than position=1"),
        ("[4]", "[1]", "received_ahead"),
        ("[4]", "[2]", "received_ahead"),
        ("\"epoch\":3,", "", "epoch"),
        ("\"batch_size\":10,", "", "batch_size"),
        ("\"position\":20,", "", "position"),
        ("\"sampler\":", "\"else\":", "sampler"),
    ];
    for (from, to, word) in changed {
        let json = STATE.replace(from, to);
        assert_ne!(json, STATE);
        let message = refused(&json);
        assert!(message.contains(word) || message.contains("-2"), "{message}");
    }
}

#[test]
fn a_state_past_the_end_has_nothing_left() {
    let past = STATE.replace(
        "\"batches_received\":2,\"received_ahead\":[4],\"position\":20",
        "\"batches_received\":18446744073709551615,\"received_ahead\":[],\"position\":18446744073709551615",
    );
    let state = LoaderState::from_json(&past).unwrap();
    assert_eq!(state.batches_received(), u64::MAX);
    let mut rest = loader(100, 10, LastBatch::Keep).resume(&state).unwrap();
    assert_eq!((rest.len(), rest.next().is_none()), (0, true));
}
