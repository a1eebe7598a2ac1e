//! `filter`: the items that a closure accepts.

use super::SubsetItems;
use crate::dataset::{ItemDataset, check_item_count};
use crate::{Error, Result};

/// Number of items to read at a time while checking which are kept.
const AT_ONCE: usize = 256;

/// Returns the items of `dataset` that `is_kept` accepts.
pub(super) fn filter<D: ItemDataset>(
    dataset: D,
    mut is_kept: impl FnMut(&D::Item) -> Result<bool>,
) -> Result<SubsetItems<D>> {
    if dataset.is_random() {
        let reason = "its items are random, so a second read returns different ones; filter before the random \
                      transform, or select by index";
        return Err(Error::invalid("dataset", reason));
    }
    let (len, mut kept, mut indices) = (dataset.len(), Vec::new(), Vec::new());
    for start in (0..len).step_by(AT_ONCE) {
        indices.clear();
        indices.extend(start..len.min(start.saturating_add(AT_ONCE)));
        let items = dataset.items(&indices)?;
        check_item_count(items.len(), indices.len())?;
        for (&index, item) in indices.iter().zip(&items) {
            if is_kept(item)? {
                kept.push(index);
            }
        }
    }
    Ok(SubsetItems::selected(dataset, kept))
}
