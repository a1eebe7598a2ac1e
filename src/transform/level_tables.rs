//! [`LevelTables`]: the output bytes for each byte value.

use super::Reason;
use super::finished::ChannelOrder;
use super::grid_map::{GridMap, Inner};
use super::levels::Levels;

/// Number of byte values.
const VALUES: usize = 256;

/// By channel, the output for each byte value.
#[derive(Debug, Clone)]
pub(super) enum LevelTables {
    Bytes(Vec<[[u8; 1]; VALUES]>),
    Floats(Vec<[[u8; 4]; VALUES]>),
}

/// The bytes of an image, its height and width, and its channel order.
pub(super) type Source<'a> = (&'a [u8], [usize; 2], ChannelOrder);

impl LevelTables {
    /// Returns the tables of `levels`, for an image of this number of channels.
    pub(super) fn of(levels: &Levels, channels: usize) -> Self {
        match levels {
            Levels::Kept => Self::Bytes(vec![std::array::from_fn(|value| [value as u8]); channels]),
            Levels::Bytes(tables) => Self::Bytes(tables.iter().map(|table| table.map(|value| [value])).collect()),
            Levels::Floats(tables) => Self::Floats(tables.iter().map(|table| table.map(f32::to_ne_bytes)).collect()),
        }
    }

    /// Writes the image whose rows and columns come from the sources in `map`, one channel after another.
    ///
    /// # Errors
    /// The reason, if `into` does not have the size of the image.
    pub(super) fn write(&self, map: &GridMap, source: Source<'_>, into: &mut [u8]) -> Result<(), Reason> {
        match self {
            Self::Bytes(tables) => write(tables, map, source, into),
            Self::Floats(tables) => write(tables, map, source, into),
        }
    }
}

fn write<const BYTES: usize>(
    tables: &[[[u8; BYTES]; VALUES]],
    map: &GridMap,
    source: Source<'_>,
    into: &mut [u8],
) -> Result<(), Reason> {
    let (pixels, [height, width], order) = source;
    let [rows, columns] = map.size();
    let found = tables.len() * rows * columns * BYTES;
    if found != into.len() {
        return Err(format!("the image has {found} bytes, but {} are expected", into.len()));
    }
    let planes = into.as_chunks_mut::<BYTES>().0.chunks_exact_mut((rows * columns).max(1));
    for (channel, (plane, table)) in planes.zip(tables).enumerate() {
        let fill = table[usize::from(map.fill[channel])];
        for (row, into) in map.rows.iter().zip(plane.chunks_exact_mut(columns.max(1))) {
            let Some(row) = *row else {
                into.fill(fill);
                continue;
            };
            let (outside, rest) = into.split_at_mut(map.columns.before);
            outside.fill(fill);
            let (inside, outside) = rest.split_at_mut(rest.len() - map.columns.after);
            outside.fill(fill);
            match (order, tables.len()) {
                (ChannelOrder::First, _) => {
                    let line = &pixels[(channel * height + row) * width..][..width];
                    write_line(line.as_chunks::<1>().0, 0, &map.columns.inner, table, inside);
                }
                (_, 1) => {
                    write_line(pixels[row * width..][..width].as_chunks::<1>().0, 0, &map.columns.inner, table, inside);
                }
                (_, 3) => {
                    let line = &pixels[row * width * 3..][..width * 3];
                    write_line(line.as_chunks::<3>().0, channel, &map.columns.inner, table, inside);
                }
                (_, channels) => {
                    let value = |column: usize| pixels[(row * width + column) * channels + channel];
                    let line: Vec<[u8; 1]> = (0..width).map(|column| [value(column)]).collect();
                    write_line(&line, 0, &map.columns.inner, table, inside);
                }
            }
        }
    }
    Ok(())
}

/// The number of channels is a compile-time constant.
#[inline(always)]
fn write_line<const BYTES: usize, const CHANNELS: usize>(
    line: &[[u8; CHANNELS]],
    channel: usize,
    inner: &Inner,
    table: &[[u8; BYTES]; VALUES],
    into: &mut [[u8; BYTES]],
) {
    let put = |(into, pixel): (&mut [u8; BYTES], &[u8; CHANNELS])| *into = table[usize::from(pixel[channel])];
    match inner {
        Inner::Forward { first, count } => into.iter_mut().zip(&line[*first..][..*count]).for_each(put),
        Inner::Backward { first, count } => into.iter_mut().zip(line[*first..][..*count].iter().rev()).for_each(put),
        Inner::Mixed(places) => into.iter_mut().zip(places.iter().map(|&place| &line[place])).for_each(put),
    }
}
