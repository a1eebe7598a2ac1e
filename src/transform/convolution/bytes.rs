//! [`ByteResize`]: resizes an image of bytes, exactly like Pillow or torch, or within one gray level of both.

use super::part::Part;
use super::weights::{Axis, Run, Weights};
use crate::memory::{Kernel, MultiplyAdd, PairSums, Region, run_on_vectors};
use crate::transform::Reason;
use crate::transform::operation::{Antialias, Interpolation};
use crate::transform::picture::Picture;
use crate::transform::scratch;

/// Number of values of a row to sum at a time.
const LANES: usize = 32;

/// The values of two neighboring pixels, one after the other, for each channel of as many rows as eight sums have room
/// for.
type Pair = [u8; 16];

/// A resize like `PIL.Image.Image.resize`, or like `torch.nn.functional.interpolate(..., antialias=True)` of bytes: the
/// rows are resized to the new width, then the columns to the new height, as integer sums that are rounded to bytes.
///
/// Source: Pillow's `Resample.c` and, for the nearest pixel, `ImagingScaleAffine` in its `Geometry.c`; torch's
/// `UpSampleKernel.cpp` and `UpSampleKernelAVXAntialias.h`.
pub(crate) struct ByteResize {
    across: Axis,
    down: Axis,
    /// True if columns are resized before rows.
    is_down_first: bool,
}

impl ByteResize {
    /// Returns a resize from an image of size `from` to size `to` (width, height), of which only `window` is computed,
    /// bit for bit like Pillow or torch.
    ///
    /// # Errors
    /// The reason, if one of the sizes has no pixels.
    pub(crate) fn exact(
        from: [usize; 2],
        to: [usize; 2],
        (interpolation, antialias): (Interpolation, Antialias),
        window: Region,
    ) -> Result<Self, Reason> {
        if from.contains(&0) || to.contains(&0) {
            return Err(format!("an image of {from:?} pixels can't be resized to {to:?}"));
        }
        let axis = |axis: usize, first: usize, count: usize| {
            Axis::exact(from[axis], to[axis], (interpolation, antialias), first..first + count)
        };
        let (across, down) = (axis(0, window.left, window.width), axis(1, window.top, window.height));
        let [columns, rows] = [0, 1].map(|axis| from[axis] as i64 - to[axis] as i64);
        let is_down_first = antialias == Antialias::Pillow && rows > 0 && rows > 2 * columns;
        Ok(Self { across, down, is_down_first })
    }

    /// Returns `part` of `picture` in size `to` (width, height), within one gray level of Pillow and torch.
    pub(crate) fn smooth(
        picture: &Picture<u8>,
        part: Part,
        to: [usize; 2],
        filter: (Interpolation, Antialias),
    ) -> Picture<u8> {
        let [(left, columns), (top, rows)] = part.places([picture.width, picture.height]);
        let (across, down) = (Axis::smooth(columns, to[0], filter), Axis::smooth(rows, to[1], filter));
        let filters = Self { across, down, is_down_first: false };
        let source = filters.source();
        filters.of(picture, Region { left: left + source.left, top: top + source.top, ..source })
    }

    /// Returns the part of the image that is needed.
    pub(crate) fn source(&self) -> Region {
        let ((left, width), (top, height)) = (self.across.source(), self.down.source());
        Region { left, top, width, height }
    }

    /// Returns the window of the result. `part` of `picture` is the [source](Self::source).
    pub(crate) fn of(&self, picture: &Picture<u8>, part: Region) -> Picture<u8> {
        match picture.channels {
            1 => run_on_vectors(Resize::<1, 8, 2> { filters: self, picture, part }),
            2 => run_on_vectors(Resize::<2, 4, 4> { filters: self, picture, part }),
            3 => run_on_vectors(Resize::<3, 2, 8> { filters: self, picture, part }),
            _ => run_on_vectors(Resize::<4, 2, 8> { filters: self, picture, part }),
        }
    }
}

/// `ROWS` are resized at a time, because vectors have room for the pixels of that many, each for `WIDTH` values of a
/// pair.
struct Resize<'a, const CHANNELS: usize, const ROWS: usize, const WIDTH: usize> {
    filters: &'a ByteResize,
    picture: &'a Picture<u8>,
    part: Region,
}

impl<const CHANNELS: usize, const ROWS: usize, const WIDTH: usize> Kernel for Resize<'_, CHANNELS, ROWS, WIDTH> {
    type Output = Picture<u8>;

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) -> Picture<u8> {
        let Self { filters, picture, part } = self;
        let (width, height) = (filters.across.len(), filters.down.len());
        let columns = if filters.is_down_first { part.width } else { width };
        // Rows of a whole number of lanes, so that summing columns leaves no remainder, and one more for the last pair.
        let pitch = (columns * CHANNELS).next_multiple_of(LANES);
        let mut rows = scratch::take(pitch * part.height.next_multiple_of(2));
        let of_picture = |row: usize| {
            let row = &picture.pixels[((part.top + row) * picture.width + part.left) * CHANNELS..];
            &row[..part.width * CHANNELS]
        };
        let mut pixels = scratch::take(width * height * CHANNELS);
        let line = width * CHANNELS;
        let mut across = Across::<ROWS>::new::<CHANNELS>(&filters.across, part.width);
        if filters.is_down_first {
            rows.chunks_exact_mut(pitch).take(part.height).enumerate().for_each(|(row, into)| {
                let row = of_picture(row);
                into[..row.len()].copy_from_slice(row);
            });
            let mut shorter = [(); ROWS].map(|()| vec![0; columns * CHANNELS]);
            for (group, into) in pixels.chunks_mut((ROWS * line).max(1)).enumerate() {
                let last = ROWS * group + into.len() / line - 1;
                for (row, shorter) in (ROWS * group..).zip(&mut shorter) {
                    filters.down.of_rows::<M>(&rows, pitch, row.min(last), shorter);
                }
                let made = across.of_rows::<M, CHANNELS, WIDTH>(shorter.each_ref().map(Vec::as_slice));
                into.chunks_mut(line).zip(made).for_each(|(into, row)| into.copy_from_slice(&row[..line]));
            }
        } else {
            for (group, into) in rows[..pitch * part.height].chunks_mut(ROWS * pitch).enumerate() {
                let last = into.len() / pitch - 1;
                let group = std::array::from_fn(|row| of_picture(ROWS * group + row.min(last)));
                let made = across.of_rows::<M, CHANNELS, WIDTH>(group);
                into.chunks_mut(pitch).zip(made).for_each(|(into, row)| into[..line].copy_from_slice(&row[..line]));
            }
            for (row, into) in pixels.chunks_exact_mut(line.max(1)).enumerate() {
                filters.down.of_rows::<M>(&rows, pitch, row, into);
            }
        }
        scratch::give(rows);
        Picture::new(width, height, CHANNELS, pixels)
    }
}

impl Axis {
    /// Writes row `row` of the result for `rows` of `pitch` values, of which there is an even number.
    #[inline(always)]
    fn of_rows<M: MultiplyAdd>(&self, rows: &[u8], pitch: usize, row: usize, into: &mut [u8]) {
        let Self::Weighted(weights) = self else { return into.copy_from_slice(&rows[row * pitch..][..into.len()]) };
        let Run { first, low, high } = weights.run(row);
        let rows = &rows[2 * first * pitch..][..2 * low.len() * pitch];
        for (block, into) in into.chunks_mut(LANES).enumerate() {
            let sums = sums_of_rows::<M>([M::Sums::new(0); 4], rows, pitch, block, high);
            let start = sums_of_rows::<M>([M::Sums::new(weights.half()); 4], rows, pitch, block, low);
            let mut bytes = [[0; 8]; 4];
            for ((bytes, sums), start) in bytes.iter_mut().zip(sums).zip(start) {
                *bytes = weights.bytes(start, sums);
            }
            into.copy_from_slice(&bytes.as_flattened()[..into.len()]);
        }
    }
}

/// Adds products of the values in block `block` of each row to the sums.
#[inline(always)]
fn sums_of_rows<M: MultiplyAdd>(
    [mut one, mut other, mut third, mut fourth]: [M::Sums; 4],
    rows: &[u8],
    pitch: usize,
    block: usize,
    weights: &[[i16; 2]],
) -> [M::Sums; 4] {
    for (pair, &weights) in rows.chunks_exact(2 * pitch).zip(weights) {
        let (upper, lower) = pair.split_at(pitch);
        let halves = |row: &[u8]| [0, 1].map(|half| row.as_chunks::<16>().0[2 * block + half]);
        let (upper, lower) = (halves(upper), halves(lower));
        [one, other] = M::Sums::add_rows([one, other], [&upper[0], &lower[0]], weights);
        [third, fourth] = M::Sums::add_rows([third, fourth], [&upper[1], &lower[1]], weights);
    }
    [one, other, third, fourth]
}

/// Resizes rows, several at a time.
struct Across<'a, const ROWS: usize> {
    axis: &'a Axis,
    pairs: Vec<Pair>,
    /// The results of the rows, each with room for extra pixels.
    made: [Vec<u8>; ROWS],
}

impl<'a, const ROWS: usize> Across<'a, ROWS> {
    /// Returns a resizer for rows of `from` pixels.
    fn new<const CHANNELS: usize>(axis: &'a Axis, from: usize) -> Self {
        let room = axis.len() * CHANNELS + 4;
        Self { axis, pairs: vec![[0; 16]; from.div_ceil(2)], made: [(); ROWS].map(|()| vec![0; room]) }
    }

    /// Returns the results of the rows, each followed by a few extra bytes.
    #[inline(always)]
    fn of_rows<M: MultiplyAdd, const CHANNELS: usize, const WIDTH: usize>(
        &mut self,
        rows: [&[u8]; ROWS],
    ) -> [&[u8]; ROWS] {
        match self.axis {
            Axis::Kept { .. } => {
                for (made, row) in self.made.iter_mut().zip(rows) {
                    made[..row.len()].copy_from_slice(row);
                }
            }
            Axis::Weighted(weights) => {
                pair_up::<CHANNELS, ROWS, WIDTH>(rows, &mut self.pairs);
                across::<M, CHANNELS, ROWS>(&self.pairs, (weights, self.axis.len()), &mut self.made);
            }
        }
        self.made.each_ref().map(Vec::as_slice)
    }
}

/// Interleaves the pixel values of rows, of which a pair has `WIDTH` each: as many per pixel as there are sums for a row.
/// Those after its channels belong to the next pixel and are not used for results.
#[inline(always)]
fn pair_up<const CHANNELS: usize, const ROWS: usize, const WIDTH: usize>(rows: [&[u8]; ROWS], pairs: &mut [Pair]) {
    let whole = (rows[0].len() + 2 * CHANNELS).saturating_sub(WIDTH) / (2 * CHANNELS);
    let (first, last) = pairs.split_at_mut(whole.min(pairs.len()));
    for (number, row) in rows.into_iter().enumerate() {
        for (into, values) in first.iter_mut().zip(row.windows(WIDTH).step_by(2 * CHANNELS)) {
            let into = &mut into.as_chunks_mut::<WIDTH>().0[number];
            match values.first_chunk() {
                // Byte by byte, this took longer than the sums.
                Some(&values) if WIDTH == 8 => {
                    let values = u64::from_le_bytes(values);
                    let pair = spread(values) | spread(values >> (8 * CHANNELS)) << 8;
                    into.copy_from_slice(&pair.to_le_bytes());
                }
                _ => {
                    for slot in 0..WIDTH / 2 {
                        (into[2 * slot], into[2 * slot + 1]) = (values[slot], values[slot + CHANNELS]);
                    }
                }
            }
        }
        for (pair, into) in (whole..).zip(&mut *last) {
            let into = &mut into.as_chunks_mut::<WIDTH>().0[number];
            for channel in 0..CHANNELS {
                let at = 2 * pair * CHANNELS + channel;
                (into[2 * channel], into[2 * channel + 1]) = (row[at], row.get(at + CHANNELS).copied().unwrap_or(0));
            }
        }
    }
}

/// Moves the four lowest bytes apart, with a zero after each.
#[inline(always)]
fn spread(bytes: u64) -> u64 {
    let words = (bytes & 0xFFFF) | ((bytes & 0xFFFF_0000) << 16);
    (words | (words << 8)) & 0x00FF_00FF_00FF_00FF
}

/// Resizes rows. As many values are stored per pixel as there are sums for a row; those after its channels are
/// overwritten by the next pixel.
#[inline(always)]
fn across<M: MultiplyAdd, const CHANNELS: usize, const ROWS: usize>(
    pairs: &[Pair],
    (weights, count): (&Weights, usize),
    made: &mut [Vec<u8>; ROWS],
) {
    let slots = 8 / ROWS;
    for place in 0..count {
        let Run { first, low, high } = weights.run(place);
        let pairs = &pairs[first..][..low.len()];
        let bytes = weights.bytes(sums::<M>(weights.half(), pairs, low), sums::<M>(0, pairs, high));
        for (made, bytes) in made.iter_mut().zip(bytes.chunks_exact(slots)) {
            made[place * CHANNELS..][..slots].copy_from_slice(bytes);
        }
    }
}

#[inline(always)]
fn sums<M: MultiplyAdd>(start: i32, pairs: &[Pair], weights: &[[i16; 2]]) -> M::Sums {
    pairs.iter().zip(weights).fold(M::Sums::new(start), |sums, (pair, &weights)| sums.add_pairs(pair, weights))
}

pub(crate) fn refuse_floats() -> Reason {
    "an exact resize needs bytes, but the image has floats; resize before converting it".into()
}
