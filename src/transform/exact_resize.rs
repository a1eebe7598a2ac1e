//! [`ExactResize`]: resizes an image exactly like Pillow or torch, bit for bit.

use super::Reason;
use super::operation::{Antialias, Interpolation};
use super::picture::Picture;
use super::resize_filters::{bicubic, bicubic_of_torch, bilinear, box_filter, hamming, lanczos};
use super::scratch;
use crate::memory::{Kernel, MultiplyAdd, Region, run_on_vectors};

/// Fractional bits of a weight: 32, minus 8 for the value and 2 for sums above 255 or below 0. Torch has fewer: as many
/// as the largest weight leaves in 16 bits.
const PRECISION: u32 = 32 - 8 - 2;

/// Number of values of a row to sum at a time.
const LANES: usize = 32;

/// The values of the pixels at one position of two rows, each with room for four.
type TwoPixels = [u8; 8];

/// A resize like `PIL.Image.Image.resize`, or like `torch.nn.functional.interpolate(..., antialias=True)` of bytes: the
/// rows are resized to the new width, then the columns to the new height, as integer sums that are rounded to bytes.
///
/// Source: Pillow's `Resample.c` and, for the nearest pixel, `ImagingScaleAffine` in its `Geometry.c`; torch's
/// `UpSampleKernel.cpp` and `UpSampleKernelAVXAntialias.h`.
pub(super) struct ExactResize {
    across: Axis,
    down: Axis,
    /// True if columns are resized before rows.
    is_down_first: bool,
}

/// How each position of the result's rows, or columns, is computed.
enum Axis {
    /// These positions, unchanged: nothing is resized in this direction.
    Kept { first: usize, count: usize },
    /// For each position of the result, a weighted run of positions of the image.
    Weighted(Weights),
}

struct Weights {
    /// The start and the length of each run.
    runs: Vec<(usize, usize)>,
    /// The first position in any run, and the number of positions from there to the last one.
    all: (usize, usize),
    /// Length of the longest run; weights have this stride.
    longest: usize,
    weights: Vec<i32>,
    /// Fractional bits of a weight.
    precision: u32,
}

impl ExactResize {
    /// Returns a resize from an image of size `from` to size `to` (width, height), of which only `window` is computed.
    ///
    /// # Errors
    /// The reason, if one of the sizes has no pixels.
    pub(super) fn new(
        from: [usize; 2],
        to: [usize; 2],
        (interpolation, antialias): (Interpolation, Antialias),
        window: Region,
    ) -> Result<Self, Reason> {
        if from.contains(&0) || to.contains(&0) {
            return Err(format!("an image of {from:?} pixels can't be resized to {to:?}"));
        }
        let axis = |axis: usize, first: usize, count: usize| match from[axis] == to[axis] {
            true => Axis::Kept { first, count },
            false => {
                let filter = (interpolation, antialias);
                Axis::Weighted(Weights::new(from[axis], to[axis], filter, first..first + count))
            }
        };
        let (across, down) = (axis(0, window.left, window.width), axis(1, window.top, window.height));
        let [columns, rows] = [0, 1].map(|axis| from[axis] as i64 - to[axis] as i64);
        let is_down_first = antialias == Antialias::Pillow && rows > 0 && rows > 2 * columns;
        Ok(Self { across, down, is_down_first })
    }

    /// Returns the part of the image that is needed.
    pub(super) fn source(&self) -> Region {
        let ((left, width), (top, height)) = (self.across.source(), self.down.source());
        Region { left, top, width, height }
    }

    /// Returns the window of the result. `part` of `picture` is the [source](Self::source).
    pub(super) fn of(&self, picture: &Picture<u8>, part: Region) -> Picture<u8> {
        match picture.channels {
            1 => run_on_vectors(Resize::<1> { filters: self, picture, part }),
            2 => run_on_vectors(Resize::<2> { filters: self, picture, part }),
            3 => run_on_vectors(Resize::<3> { filters: self, picture, part }),
            _ => run_on_vectors(Resize::<4> { filters: self, picture, part }),
        }
    }
}

impl Axis {
    /// Returns the first position that is needed, and the number of positions.
    fn source(&self) -> (usize, usize) {
        match self {
            Self::Kept { first, count } => (*first, *count),
            Self::Weighted(weights) => weights.all,
        }
    }

    /// Returns the number of positions of the result.
    fn len(&self) -> usize {
        match self {
            Self::Kept { count, .. } => *count,
            Self::Weighted(weights) => weights.runs.len(),
        }
    }
}

impl Weights {
    fn new(
        from: usize,
        to: usize,
        (interpolation, antialias): (Interpolation, Antialias),
        places: std::ops::Range<usize>,
    ) -> Self {
        let is_torchs = antialias == Antialias::Torch;
        let (support, filter): (f64, fn(f64) -> f64) = match interpolation {
            Interpolation::Nearest | Interpolation::NearestExact => return Self::nearest(from, to, places),
            Interpolation::Box => (0.5, box_filter),
            Interpolation::Bilinear => (1.0, bilinear),
            Interpolation::Hamming => (1.0, hamming),
            Interpolation::Bicubic if is_torchs => (2.0, bicubic_of_torch),
            Interpolation::Bicubic => (2.0, bicubic),
            Interpolation::Lanczos => (3.0, lanczos),
        };
        let scale = from as f64 / to as f64;
        let stretch = scale.max(1.0);
        let (support, narrow) = (support * stretch, 1.0 / stretch);
        let longest = support.ceil() as usize * 2 + 1;
        // Fills `shares` for one position of the result, and returns the run that they belong to.
        let share = |place: usize, shares: &mut Vec<f64>| {
            let center = (place as f64 + 0.5) * scale;
            let first = ((center - support + 0.5) as i64).max(0) as usize;
            let end = ((center + support + 0.5) as usize).min(from);
            shares.clear();
            shares.extend((0..end - first).map(|offset| filter(((offset + first) as f64 - center + 0.5) * narrow)));
            let sum = shares.iter().fold(0.0, |sum, share| sum + share);
            if sum != 0.0 {
                shares.iter_mut().for_each(|share| *share /= sum);
            }
            (first, end - first)
        };
        let mut shares = Vec::with_capacity(longest);
        let precision = if is_torchs {
            let largest = (0..to).fold(0.0, |largest, place| {
                share(place, &mut shares);
                shares.iter().copied().fold(largest, f64::max)
            });
            precision_of_torch(largest)
        } else {
            PRECISION
        };
        let (mut runs, mut all) = (Vec::with_capacity(places.len()), vec![0; places.len() * longest]);
        for (place, weights) in places.zip(all.chunks_exact_mut(longest)) {
            runs.push(share(place, &mut shares));
            for (weight, &share) in weights.iter_mut().zip(&shares) {
                let exact = share * f64::from(1 << precision);
                *weight = if share < 0.0 { (exact - 0.5) as i32 } else { (exact + 0.5) as i32 };
            }
        }
        Self { all: span(&runs), runs, longest, weights: all, precision }
    }

    /// Positions are accumulated step by step, as in Pillow.
    fn nearest(from: usize, to: usize, places: std::ops::Range<usize>) -> Self {
        let step = from as f64 / to as f64;
        let mut at = step * 0.5;
        let mut runs = Vec::with_capacity(places.len());
        for place in 0..places.end {
            if place >= places.start {
                runs.push(((at as usize).min(from - 1), 1));
            }
            at += step;
        }
        let weights = vec![1 << PRECISION; runs.len()];
        Self { all: span(&runs), runs, longest: 1, weights, precision: PRECISION }
    }
}

/// Returns the first position in any run, and the number of positions from there to the last one.
fn span(runs: &[(usize, usize)]) -> (usize, usize) {
    let first = runs.iter().map(|run| run.0).min().unwrap_or(0);
    (first, runs.iter().map(|run| run.0 + run.1).max().unwrap_or(0) - first)
}

struct Resize<'a, const CHANNELS: usize> {
    filters: &'a ExactResize,
    picture: &'a Picture<u8>,
    part: Region,
}

impl<const CHANNELS: usize> Kernel for Resize<'_, CHANNELS> {
    type Output = Picture<u8>;

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) -> Picture<u8> {
        let Self { filters, picture, part } = self;
        let (width, height) = (filters.across.len(), filters.down.len());
        let columns = if filters.is_down_first { part.width } else { width };
        // Rows of a whole number of lanes, so that summing columns leaves no remainder.
        let pitch = (columns * CHANNELS).next_multiple_of(LANES);
        let mut rows = scratch::take(pitch * part.height);
        let of_picture = |row: usize| {
            let row = &picture.pixels[((part.top + row) * picture.width + part.left) * CHANNELS..];
            &row[..part.width * CHANNELS]
        };
        let mut pixels = scratch::take(width * height * CHANNELS);
        let line = width * CHANNELS;
        let mut across = Across::new::<CHANNELS>(&filters.across, part.width);
        if filters.is_down_first {
            rows.chunks_exact_mut(pitch).enumerate().for_each(|(row, into)| {
                let row = of_picture(row);
                into[..row.len()].copy_from_slice(row);
            });
            let mut shorter = [(); 2].map(|()| vec![0; columns * CHANNELS]);
            for (pair, into) in pixels.chunks_mut((2 * line).max(1)).enumerate() {
                let last = 2 * pair + into.len() / line - 1;
                for (row, shorter) in [2 * pair, last].into_iter().zip(&mut shorter) {
                    filters.down.of_rows(&rows, pitch, row, shorter);
                }
                let made = across.of_rows::<CHANNELS>([&shorter[0], &shorter[1]]);
                into.chunks_mut(line).zip(made).for_each(|(into, row)| into.copy_from_slice(&row[..line]));
            }
        } else {
            for (pair, into) in rows.chunks_mut(2 * pitch).enumerate() {
                let last = 2 * pair + into.len() / pitch - 1;
                let made = across.of_rows::<CHANNELS>([2 * pair, last].map(of_picture));
                into.chunks_mut(pitch).zip(made).for_each(|(into, row)| into[..line].copy_from_slice(&row[..line]));
            }
            for (row, into) in pixels.chunks_exact_mut(line.max(1)).enumerate() {
                filters.down.of_rows(&rows, pitch, row, into);
            }
        }
        scratch::give(rows);
        Picture::new(width, height, CHANNELS, pixels)
    }
}

impl Axis {
    /// Writes row `row` of the result for `rows` of `pitch` values.
    #[inline(always)]
    fn of_rows(&self, rows: &[u8], pitch: usize, row: usize, into: &mut [u8]) {
        let Self::Weighted(weights) = self else { return into.copy_from_slice(&rows[row * pitch..][..into.len()]) };
        let (start, count) = weights.runs[row];
        let rows = &rows[(start - self.source().0) * pitch..][..count * pitch];
        let numbers = &weights.weights[row * weights.longest..][..count];
        down(rows, pitch, (numbers, weights.precision), into);
    }
}

/// Resizes rows two at a time, because vectors have room for the pixels of both.
struct Across<'a> {
    axis: &'a Axis,
    /// By position, the values of both rows.
    wide: Vec<TwoPixels>,
    /// The results of both rows, each with room for one extra pixel.
    made: [Vec<u8>; 2],
}

impl<'a> Across<'a> {
    /// Returns a resizer for rows of `from` pixels.
    fn new<const CHANNELS: usize>(axis: &'a Axis, from: usize) -> Self {
        let room = axis.len() * CHANNELS + 4;
        Self { axis, wide: vec![[0; 8]; from], made: [vec![0; room], vec![0; room]] }
    }

    /// Returns the results of two rows, each followed by a few extra bytes.
    #[inline(always)]
    fn of_rows<const CHANNELS: usize>(&mut self, rows: [&[u8]; 2]) -> [&[u8]; 2] {
        let Self { axis, wide, made: [one, other] } = self;
        match axis {
            Axis::Kept { .. } => {
                one[..rows[0].len()].copy_from_slice(rows[0]);
                other[..rows[1].len()].copy_from_slice(rows[1]);
            }
            Axis::Weighted(weights) => {
                widen::<CHANNELS>(rows, wide);
                across::<CHANNELS>(wide, weights, axis.source().0, [one, other]);
            }
        }
        [one, other]
    }
}

/// Interleaves the pixel values of two rows. Four values are loaded per pixel at once; those after its channels belong
/// to the next pixel and are not used for results.
#[inline(always)]
fn widen<const CHANNELS: usize>([one, other]: [&[u8]; 2], wide: &mut [TwoPixels]) {
    let whole = (one.len() + CHANNELS).saturating_sub(4) / CHANNELS;
    let (first, last) = wide.split_at_mut(whole);
    let fours = one.windows(4).step_by(CHANNELS).zip(other.windows(4).step_by(CHANNELS));
    for (into, (one, other)) in first.iter_mut().zip(fours) {
        into[..4].copy_from_slice(one);
        into[4..].copy_from_slice(other);
    }
    for (place, into) in last.iter_mut().enumerate() {
        for channel in 0..CHANNELS {
            let at = (whole + place) * CHANNELS + channel;
            (into[channel], into[channel + 4]) = (one[at], other[at]);
        }
    }
}

/// Resizes two rows; `first` is the position of their first pixels. Four values are stored per pixel at once; those
/// after its channels are overwritten by the next pixel.
#[inline(always)]
fn across<const CHANNELS: usize>(wide: &[TwoPixels], weights: &Weights, first: usize, [one, other]: [&mut [u8]; 2]) {
    let (precision, half) = (weights.precision, 1 << (weights.precision - 1));
    let runs = weights.runs.iter().zip(weights.weights.chunks_exact(weights.longest));
    for (place, (&(start, count), weights)) in runs.enumerate() {
        let mut sums = [half; 8];
        for (values, weight) in wide[start - first..][..count].iter().zip(weights) {
            for lane in 0..8 {
                sums[lane] += i32::from(values[lane]) * weight;
            }
        }
        let bytes = sums.map(|sum| rounded(sum, precision));
        let at = place * CHANNELS;
        one[at..at + 4].copy_from_slice(&bytes[..4]);
        other[at..at + 4].copy_from_slice(&bytes[4..]);
    }
}

/// Computes one row of the result from `rows` of `pitch` values, which have these weights.
#[inline(always)]
fn down(rows: &[u8], pitch: usize, (weights, precision): (&[i32], u32), into: &mut [u8]) {
    let half = 1 << (precision - 1);
    for (block, into) in into.chunks_mut(LANES).enumerate() {
        let mut sums = [half; LANES];
        for (row, weight) in rows.chunks_exact(pitch).zip(weights) {
            let values = &row.as_chunks::<LANES>().0[block];
            for lane in 0..LANES {
                sums[lane] += i32::from(values[lane]) * weight;
            }
        }
        let bytes = sums.map(|sum| rounded(sum, precision));
        into.copy_from_slice(&bytes[..into.len()]);
    }
}

#[inline(always)]
fn rounded(sum: i32, precision: u32) -> u8 {
    (sum >> precision).clamp(0, 255) as u8
}

/// Returns the number of fractional bits of torch's 16-bit weights, the largest of which is `largest`.
fn precision_of_torch(largest: f64) -> u32 {
    let fits = |precision: u32| (largest * f64::from(1 << precision) + 0.5) as i32 <= i32::from(i16::MAX);
    (1..=PRECISION).take_while(|&precision| fits(precision)).last().unwrap_or(1)
}

pub(super) fn refuse_floats() -> Reason {
    "an exact resize needs bytes, but the image has floats; resize before converting it".into()
}
