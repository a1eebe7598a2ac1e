//! Look-up tables for 256 levels.

use super::picture::Picture;

pub(in super::super) type Table = [u8; 256];

/// Returns the table of a function.
pub(in super::super) fn table(of: impl Fn(u8) -> u8) -> Table {
    std::array::from_fn(|level| of(level as u8))
}

/// Looks up each channel in its table, or all in the same one.
pub(in super::super) fn look_up(picture: &mut Picture<u8>, tables: &[Table]) {
    match tables {
        [table] => picture.pixels.iter_mut().for_each(|value| *value = table[usize::from(*value)]),
        [red, green, blue] => {
            for [r, g, b] in picture.pixels.as_chunks_mut().0 {
                *r = red[usize::from(*r)];
                *g = green[usize::from(*g)];
                *b = blue[usize::from(*b)];
            }
        }
        _ => {
            for pixel in picture.pixels.chunks_exact_mut(tables.len().max(1)) {
                for (value, table) in pixel.iter_mut().zip(tables) {
                    *value = table[usize::from(*value)];
                }
            }
        }
    }
}
