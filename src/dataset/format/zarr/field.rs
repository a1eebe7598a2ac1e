//! [`ZarrField`]: the part of an array that a sample contains, and how it is copied from chunks.

use std::ops::Range;
use std::sync::Arc;

use super::array::{Chunk, ZarrArray, ravel};
use super::element::to_native;
use super::found_array::Member;
use super::windows::Windows;
use crate::{Error, Field, Result};

/// The largest window of one array, in bytes.
const LARGEST_WINDOW: usize = 1 << 40;

/// An array, and the part of it that a window contains.
pub(super) struct ZarrField {
    pub(super) array: Arc<ZarrArray>,
    /// Set if only a part of each record is read. The bytes of a record are the last axis.
    member: Option<Member>,
    /// For each axis of the array, the window axis that cuts it, if any.
    cuts: Vec<Option<usize>>,
    /// The shape of a window in this array.
    pub(super) shape: Vec<usize>,
    /// The number of this array's first chunk among the chunks of all fields.
    pub(super) first_chunk: usize,
    grid: Vec<usize>,
}

impl ZarrField {
    /// Creates the field of `array`, or of `member` of its records, cut along the dimensions that have windows.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a dimension differs in size from the other arrays, or no dimension is cut.
    pub(super) fn new(
        array: Arc<ZarrArray>,
        member: Option<Member>,
        windows: &Windows,
        first_chunk: usize,
    ) -> Result<Self> {
        let refuse = |argument, reason| Err(Error::invalid(argument, reason));
        let metadata = &array.metadata;
        let mut cuts = Vec::with_capacity(metadata.shape.len());
        for (name, &size) in metadata.dimensions.iter().zip(&metadata.shape) {
            let axis = windows.axes.iter().position(|axis| axis.name == *name);
            if let Some(axis) = axis.map(|axis| &windows.axes[axis])
                && axis.size != size
            {
                let reason = format!(
                    "expected arrays on the same coordinates, got {:?} with {size} elements along dimension {name:?}, which \
                     has {} in another array; pass fields= with arrays of equal sizes",
                    array.name(),
                    axis.size
                );
                return refuse("fields", reason);
            }
            cuts.push(axis);
        }
        if cuts.iter().all(Option::is_none) {
            let reason = format!(
                "expected arrays with a dimension of the windows, got {:?} with the dimensions {:?}; leave it out",
                array.name(),
                metadata.dimensions
            );
            return refuse("fields", reason);
        }
        let shape =
            cuts.iter().zip(&metadata.shape).map(|(cut, &size)| cut.map_or(size, |axis| windows.axes[axis].window));
        let (mut shape, grid): (Vec<usize>, _) = (shape.collect(), metadata.grid());
        if let (Some(member), Some(bytes)) = (&member, shape.last_mut()) {
            *bytes = member.bytes();
        }
        if let Some(member) = member.as_ref().filter(|member| member.is_text)
            && shape[..shape.len() - 1].iter().any(|&axis| axis != 1)
        {
            let reason = format!(
                "expected one text for each sample, got windows of {:?} texts of {:?}; leave it out, or make samples the \
                 rows of an array with one axis",
                &shape[..shape.len() - 1],
                member.name
            );
            return refuse("fields", reason);
        }
        let bytes = shape.iter().try_fold(array.dtype().bytes(), |bytes, &axis| bytes.checked_mul(axis));
        if bytes.is_none_or(|bytes| bytes > LARGEST_WINDOW) {
            let reason = format!("expected windows that fit into memory, got {shape:?} of {:?}", array.name());
            return refuse("window", reason);
        }
        Ok(Self { cuts, shape, first_chunk, grid, array, member })
    }

    /// Returns the schema field. The first axis is omitted for rows.
    pub(super) fn field(&self, is_row: bool) -> Field {
        let shape = if is_row { &self.shape[1..] } else { &self.shape[..] };
        match &self.member {
            None => Field::new(self.array.name(), self.array.dtype(), shape),
            Some(member) if member.is_text => Field::variable(&member.name, member.dtype, []),
            Some(member) => {
                let shape = [&shape[..shape.len() - 1], &member.shape[..]].concat();
                Field::new(&member.name, member.dtype, shape)
            }
        }
    }

    /// Returns the maximum size of a sample in bytes if it is a string.
    pub(super) fn text_bytes(&self) -> Option<usize> {
        self.member.as_ref().filter(|member| member.is_text).map(Member::bytes)
    }

    /// Converts the copied bytes of a window to native byte order.
    pub(super) fn finish(&self, into: &mut [u8]) {
        if let Some(member) = &self.member {
            to_native(into, member.dtype, member.is_big);
        }
    }

    /// The number of chunks.
    pub(super) fn chunks(&self) -> usize {
        self.grid.iter().product()
    }

    /// Returns where in the array the window at `starts` begins.
    fn start(&self, starts: &[usize]) -> Vec<usize> {
        let mut start: Vec<usize> = self.cuts.iter().map(|cut| cut.map_or(0, |axis| starts[axis])).collect();
        if let (Some(member), Some(last)) = (&self.member, start.last_mut()) {
            *last = member.offset;
        }
        start
    }

    /// Calls `visit` with each chunk that the window at `starts` overlaps.
    pub(super) fn chunks_of(&self, starts: &[usize], visit: &mut dyn FnMut(usize)) {
        let metadata = &self.array.metadata;
        let axes = self.start(starts).into_iter().zip(&self.shape).zip(metadata.shape.iter().zip(&metadata.chunk));
        let ranges: Vec<Range<usize>> = axes
            .map(|((start, &length), (&size, &chunk))| {
                start / chunk..start.saturating_add(length).min(size).div_ceil(chunk)
            })
            .collect();
        if ranges.iter().any(Range::is_empty) {
            return;
        }
        let mut place: Vec<usize> = ranges.iter().map(|range| range.start).collect();
        loop {
            visit(ravel(&place, &self.grid));
            let Some(axis) = (0..place.len()).rev().find(|&axis| place[axis] + 1 < ranges[axis].end) else { return };
            place[axis] += 1;
            for inner in axis + 1..place.len() {
                place[inner] = ranges[inner].start;
            }
        }
    }

    /// Returns the number of windows that overlap chunk `number`.
    pub(super) fn windows_of(&self, number: usize, windows: &Windows) -> usize {
        let touching = self.touching(number, windows);
        touching.iter().fold(1, |product, along| product.saturating_mul(along.len()))
    }

    /// Returns the windows that overlap chunk `number`.
    pub(super) fn windows_with(&self, number: usize, windows: &Windows) -> Vec<usize> {
        let mut numbers = vec![Vec::new()];
        for along in self.touching(number, windows) {
            numbers = numbers.iter().flat_map(|one| along.clone().map(|next| [&one[..], &[next]].concat())).collect();
        }
        numbers.iter().map(|numbers| windows.index(numbers)).collect()
    }

    /// Returns the windows that overlap chunk `number`, as one range per window axis; their product is the result.
    fn touching(&self, number: usize, windows: &Windows) -> Vec<Range<usize>> {
        let (place, chunk) = (self.array.place_of(number), &self.array.metadata.chunk);
        let mut touching: Vec<Range<usize>> = windows.axes.iter().map(|axis| 0..axis.count).collect();
        for (axis, cut) in self.cuts.iter().enumerate() {
            if let Some(cut) = *cut {
                let start = place[axis] * chunk[axis];
                touching[cut] = windows.axes[cut].touching(start, start + chunk[axis]);
            }
        }
        touching
    }

    /// Fills a window that reaches past the end of the array with fill values.
    pub(super) fn pad(&self, starts: &[usize], into: &mut [u8]) {
        let mut reaches = self.start(starts).into_iter().zip(&self.shape).zip(&self.array.metadata.shape);
        if reaches.any(|((start, length), &size)| start + length > size) {
            fill(into, &self.array.fill);
        }
    }

    /// Copies the part of the window at `starts` that is in chunk `number`.
    pub(super) fn copy(&self, number: usize, chunk: &Chunk, starts: &[usize], into: &mut [u8]) {
        let metadata = &self.array.metadata;
        let (place, start) = (self.array.place_of(number), self.start(starts));
        let size = self.array.dtype().bytes();
        // For each axis: the start of the overlap in the chunk and in the window, and its length.
        let parts: Vec<[usize; 3]> = (0..place.len())
            .map(|axis| {
                let origin = place[axis] * metadata.chunk[axis];
                let end = (origin + metadata.chunk[axis]).min(metadata.shape[axis]).min(start[axis] + self.shape[axis]);
                let from = origin.max(start[axis]);
                [from - origin, from - start[axis], end.saturating_sub(from)]
            })
            .collect();
        // The overlap is contiguous in both along the axes from `whole` on; axis `whole` itself may be covered in part.
        let is_whole = |axis: usize| parts[axis][2] == metadata.chunk[axis] && parts[axis][2] == self.shape[axis];
        let mut whole = place.len() - 1;
        while whole > 0 && is_whole(whole) {
            whole -= 1;
        }
        let run = parts[whole..].iter().map(|part| part[2]).product::<usize>() * size;
        let mut step = vec![0; whole];
        loop {
            let at = |which: usize, shape: &[usize]| {
                let place = parts.iter().enumerate().map(|(axis, part)| part[which] + step.get(axis).unwrap_or(&0));
                place.zip(shape).fold(0, |number, (place, size)| number * size + place) * size
            };
            let (from, to) = (at(0, &metadata.chunk), at(1, &self.shape));
            match chunk {
                Chunk::Values(values) => into[to..to + run].copy_from_slice(&values[from..from + run]),
                Chunk::Missing => fill(&mut into[to..to + run], &self.array.fill),
            }
            let Some(axis) = (0..whole).rev().find(|&axis| step[axis] + 1 < parts[axis][2]) else { return };
            step[axis] += 1;
            step[axis + 1..].fill(0);
        }
    }
}

fn fill(into: &mut [u8], element: &[u8]) {
    into.chunks_exact_mut(element.len()).for_each(|place| place.copy_from_slice(element));
}
