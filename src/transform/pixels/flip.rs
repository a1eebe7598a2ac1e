//! `horizontal_flip` and `vertical_flip`.

use super::picture::Picture;

pub(in super::super) fn horizontal<T: Copy>(picture: &mut Picture<T>) {
    let (row, channels) = (picture.row().max(1), picture.channels);
    for row in picture.pixels.chunks_exact_mut(row) {
        // With the number of channels known at compile time, several pixels are flipped at a time.
        match channels {
            1 => row.reverse(),
            2 => row.as_chunks_mut::<2>().0.reverse(),
            3 => row.as_chunks_mut::<3>().0.reverse(),
            4 => row.as_chunks_mut::<4>().0.reverse(),
            _ => {
                row.reverse();
                row.chunks_exact_mut(channels).for_each(<[T]>::reverse);
            }
        }
    }
}

pub(in super::super) fn vertical<T: Copy>(picture: &mut Picture<T>) {
    let row = picture.row().max(1);
    let (upper, lower) = picture.pixels.split_at_mut(picture.height / 2 * row);
    for (upper, lower) in upper.chunks_exact_mut(row).zip(lower.rchunks_exact_mut(row)) {
        upper.swap_with_slice(lower);
    }
}
