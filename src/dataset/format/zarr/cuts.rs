//! How arrays are cut: which of them, and the windows along each dimension.

use super::found_array::FoundArray;
use super::options::ZarrOptions;
use super::windows::{WindowAxis, WindowOrder, Windows};
use crate::{Error, Result};

/// Those of `arrays` that have all dimensions with windows; for rows, those that have any.
pub(super) fn with_dimensions(mut arrays: Vec<FoundArray>, options: &ZarrOptions) -> Vec<FoundArray> {
    let windows = options.window.as_deref().unwrap_or_default();
    let has_all = |dimensions: &[String]| windows.iter().all(|(name, _)| dimensions.contains(name));
    let is_some = |array: &FoundArray| has_all(&array.metadata.dimensions) && !array.metadata.dimensions.is_empty();
    // Where none has them, the error will say which dimensions there are.
    if arrays.iter().any(is_some) {
        arrays.retain(is_some);
    }
    arrays
}

/// The windows along each dimension, of the size that it has in the first array with it.
pub(super) fn windows_of(arrays: &[FoundArray], options: &ZarrOptions) -> Result<Windows> {
    let refuse = |argument, reason| Err(Error::InvalidArgument { argument, reason });
    let Some(FoundArray { name, metadata: first, .. }) = arrays.first() else {
        return refuse("fields", "expected at least one name".into());
    };
    let is_row = options.window.is_none();
    let rows = match first.dimensions.first() {
        Some(dimension) => vec![(dimension.clone(), 1)],
        None => return refuse("fields", format!("expected arrays with axes, got the scalar {name:?}; leave it out")),
    };
    let windows = options.window.as_ref().unwrap_or(&rows);
    if windows.is_empty() {
        return refuse("window", "expected the size of a window along at least one dimension, got none".into());
    }
    if let Some((name, _)) = options.stride.iter().find(|(name, _)| is_row || !windows.iter().any(|(of, _)| of == name))
    {
        let names: Vec<&String> = windows.iter().filter(|_| !is_row).map(|(name, _)| name).collect();
        return refuse("stride", format!("expected dimensions of the window, which are {names:?}, got {name:?}"));
    }
    let mut axes = Vec::with_capacity(windows.len());
    for (place, (name, window)) in windows.iter().enumerate() {
        if windows[..place].iter().any(|(other, _)| other == name) {
            return refuse("window", format!("expected each dimension once, got {name:?} twice"));
        }
        let sized = arrays.iter().find_map(|FoundArray { metadata, .. }| {
            let axis = metadata.dimensions.iter().position(|dimension| dimension == name)?;
            Some((metadata.shape[axis], metadata.chunk[axis]))
        });
        let Some((size, chunk)) = sized else {
            let dimensions = &first.dimensions;
            return refuse(
                "window",
                format!("expected dimensions of the arrays, which are {dimensions:?}, got {name:?}"),
            );
        };
        let stride = options.stride.iter().find(|(of, _)| of == name).map_or(*window, |(_, stride)| *stride);
        // An array of no rows has none, but a window of it would be too large.
        let axis = if is_row && size == 0 {
            WindowAxis::empty(name)
        } else {
            WindowAxis::new(name, size, *window, stride, options.edges)?
        };
        let is_cut = options.order == WindowOrder::Chunks || place == 0;
        axes.push(if is_cut { axis.in_blocks_of(chunk) } else { axis });
    }
    Windows::new(axes)
}
