//! The state of a loader.

use std::sync::Arc;

use sluicegate::{DataLoader, InMemory, LoaderState};

/// JSON: where it is a state, a loader goes on from it, or says why not.
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
