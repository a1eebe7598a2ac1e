//! Selects the arrays that are read, and splits them into windows along their dimensions.

use super::found_array::FoundArray;
use super::options::ZarrOptions;
use super::windows::{WindowAxis, WindowEdges, WindowOrder, Windows};
use crate::{Error, Result};

/// Keeps the arrays that have all dimensions of the window; for rows, those with any dimension.
pub(super) fn with_dimensions(mut arrays: Vec<FoundArray>, options: &ZarrOptions) -> Vec<FoundArray> {
    let windows = options.window.as_deref().unwrap_or_default();
    let has_all = |dimensions: &[String]| windows.iter().all(|(name, _)| dimensions.contains(name));
    let is_some = |array: &FoundArray| has_all(&array.metadata.dimensions) && !array.metadata.dimensions.is_empty();
    // If no array qualifies, keep all, so that the error can list their dimensions.
    if arrays.iter().any(is_some) {
        arrays.retain(is_some);
    }
    arrays
}

/// Creates the windows along each dimension, whose size is taken from the first array that has it.
pub(super) fn windows_of(arrays: &[FoundArray], options: &ZarrOptions) -> Result<Windows> {
    let refuse = |argument, reason| Err(Error::invalid(argument, reason));
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
    if options.edges == WindowEdges::Pad && !options.region.is_empty() {
        return refuse(
            "edges",
            "expected 'drop' or 'shift' with a region, which has nothing past its end, got 'pad'".into(),
        );
    }
    let only_regions = options.region.iter().filter(|(name, ..)| !windows.iter().any(|(of, _)| of == name));
    let all = windows.iter().map(|(name, window)| (name, Some(*window)));
    let all: Vec<(&String, Option<usize>)> = all.chain(only_regions.map(|(name, ..)| (name, None))).collect();
    let mut axes = Vec::with_capacity(all.len());
    for (place, &(name, window)) in all.iter().enumerate() {
        let argument = if window.is_some() { "window" } else { "region" };
        if all[..place].iter().any(|(other, _)| *other == name) {
            return refuse(argument, format!("expected each dimension once, got {name:?} twice"));
        }
        let sized = arrays.iter().find_map(|FoundArray { metadata, .. }| {
            let axis = metadata.dimensions.iter().position(|dimension| dimension == name)?;
            Some((metadata.shape[axis], metadata.chunk[axis]))
        });
        let Some((size, chunk)) = sized else {
            let dimensions = &first.dimensions;
            let reason = format!("expected dimensions of the arrays, which are {dimensions:?}, got {name:?}");
            return refuse(argument, reason);
        };
        let (start, end) = region_of(name, size, options)?;
        let window = window.unwrap_or(end - start);
        let stride = options.stride.iter().find(|(of, _)| of == name).map_or(window, |(_, stride)| *stride);
        // An array of zero rows has zero samples; `WindowAxis::new` would reject its window as too large.
        let axis = if is_row && start == end && place == 0 {
            WindowAxis::empty(name, size)
        } else {
            WindowAxis::new(name, end - start, window, stride, options.edges)?.from(start, size)
        };
        let is_cut = options.order == WindowOrder::Chunks || place == 0;
        axes.push(if is_cut { axis.in_blocks_of(chunk) } else { axis });
    }
    Windows::new(axes)
}

/// Returns the region of a dimension of `size` that windows cover.
fn region_of(name: &str, size: usize, options: &ZarrOptions) -> Result<(usize, usize)> {
    let found = options.region.iter().find(|(of, ..)| of == name);
    let (start, end) = found.map_or((0, size), |&(_, start, end)| (start, end.unwrap_or(size)));
    if start > end || end > size {
        let reason = format!("expected elements of {name:?}, which has {size}, got {start} to {end}");
        return Err(Error::invalid("region", reason));
    }
    Ok((start, end))
}
