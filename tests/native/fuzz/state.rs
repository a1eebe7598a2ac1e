//! The states of a loader and of a pass over a stream.

use std::sync::Arc;

use sluicegate::{
    BufferBound, DataLoader, InMemory, LoaderState, StreamBatches, StreamDataset, StreamFormat, StreamSource,
    StreamState,
};

use super::reading::check_error;
use super::scratch::file;

/// Input: JSON. If it is a state, a loader resumes from it, or says why it cannot.
pub(super) fn state(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(state) = LoaderState::from_json(text) else { return };
    assert_eq!(LoaderState::from_json(&state.to_json()).unwrap(), state);
    let _ = (state.batches_received(), state.has_received(u64::MAX), state.position());
    for seed in [None, Some(7)] {
        let dataset = Arc::new(InMemory::from_vec("x", (0..10_i64).collect(), []).unwrap());
        let builder = DataLoader::builder(dataset).batch_size(3);
        let builder = if let Some(seed) = seed { builder.shuffle(seed) } else { builder };
        let Ok(batches) = builder.build().unwrap().resume(&state) else { continue };
        let mut rest = 0;
        for batch in batches {
            rest += batch.unwrap().samples();
            assert!(rest <= 10);
        }
    }
}

/// Input: JSON. If it is a state, a pass resumes from it, or says why it cannot.
pub(super) fn stream_state(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(state) = StreamState::from_json(text) else { return };
    assert_eq!(StreamState::from_json(&state.to_json()).unwrap(), state);
    let lines: String = (0..40).map(|number| format!("{number}\n")).collect();
    let source = StreamSource::Path(file("numbers.jsonl", lines.as_bytes()));
    let dataset = StreamDataset::new(vec![source], StreamFormat::json_lines(None));
    for bound in [None, Some(BufferBound::of_samples(10).unwrap()), Some(BufferBound::new(50, 20).unwrap())] {
        let batches = StreamBatches::new(dataset.clone(), 8).unwrap();
        let batches = if let Some(bound) = bound { batches.shuffle(bound, 7, 0) } else { batches };
        let Ok(batches) = batches.resume(&state) else { continue };
        assert_eq!(batches.state().as_ref(), Some(&state));
        let mut rest = 0;
        for batch in batches {
            match batch {
                Ok(batch) => rest += batch.samples(),
                Err(error) => check_error(&error),
            }
            assert!(rest <= 40);
        }
    }
}
