//! `filter`: the samples that a closure accepts.

use std::sync::Arc;

use super::Sample;
use super::samples::Samples;
use crate::dataset::{Dataset, Subset};
use crate::memory::Slab;
use crate::{Error, Field, Result};

/// Maximum number of samples to read at once; fewer if they exceed `BYTES_AT_ONCE`.
const AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 16 << 20;
/// The same for variable samples, whose sizes are not known in advance.
const VARIABLE_AT_ONCE: usize = 16;

/// Returns the samples of `dataset` that `is_kept` accepts.
pub(super) fn filter(
    dataset: Arc<dyn Dataset>,
    mut is_kept: impl FnMut(&Sample<'_>) -> Result<bool>,
) -> Result<Subset> {
    if dataset.is_random() {
        let reason = "its samples are random, so a second read returns different ones; filter before the random \
                      transform, or select by index";
        return Err(Error::invalid("dataset", reason));
    }
    let fields = dataset.schema().fields();
    let at_once = match dataset.schema().is_variable() {
        true => VARIABLE_AT_ONCE,
        false => {
            let bytes = fields.iter().map(Field::bytes).fold(1_usize, usize::saturating_add);
            (BYTES_AT_ONCE / bytes).clamp(1, AT_ONCE)
        }
    };
    let (slab, mut kept, mut indices) = (Slab::new(1), Vec::new(), Vec::new());
    for start in (0..dataset.len()).step_by(at_once) {
        indices.clear();
        indices.extend(start..dataset.len().min(start.saturating_add(at_once)));
        let samples = Samples::read(&*dataset, &indices, None, &slab)?;
        for (row, &index) in indices.iter().enumerate() {
            if is_kept(&samples.sample(row, index))? {
                kept.push(index);
            }
        }
    }
    Ok(Subset::selected(dataset, kept))
}
