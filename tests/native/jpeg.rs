//! The JPEG decoder: regions equal those of the whole image, and nothing is written past them.

use proptest::prelude::*;
use sluicegate::internal::{JpegColors, JpegDecoder, JpegFault, JpegHeader, Region, encode_jpeg};
use sluicegate::{DecodeOptions, Image, Truncated};

/// 77 x 47 pixels of waves and noise, with colors at half the resolution.
const WAVES: &[u8] = include_bytes!("images/waves.jpg");

fn decode(eighths: usize, region: Region) -> Vec<u8> {
    let mut decoder = JpegDecoder::new().unwrap();
    let header = decoder.header(WAVES).unwrap();
    let mut pixels = vec![0; region.width * region.height * 3];
    decoder.decode(WAVES, &header, eighths, region, JpegColors::Rgb, &mut pixels).unwrap();
    pixels
}

fn whole(eighths: usize) -> Region {
    let (width, height) = (JpegDecoder::scaled(77, eighths), JpegDecoder::scaled(47, eighths));
    Region { left: 0, top: 0, width, height }
}

#[test]
fn the_header_says_how_it_is_stored() {
    let header = JpegDecoder::new().unwrap().header(WAVES).unwrap();
    assert_eq!(header, JpegHeader { width: 77, height: 47, colors: JpegColors::Rgb, unit_width: 16 });
}

proptest! {
    /// Except for one unit at each side, whose colors depend on their neighbors.
    #[test]
    fn a_region_has_the_values_of_the_whole_image(eighths in prop::sample::select(vec![1_usize, 2, 4, 8]),
                                                  unit in 0_usize..5, top in 0_usize..47, width in 1_usize..77,
                                                  height in 1_usize..47) {
        let all = whole(eighths);
        let step = 2 * eighths;
        let left = (unit * step).min((all.width - 1) / step * step);
        let top = top.min(all.height - 1);
        let region = Region { left, top, width: width.min(all.width - left), height: height.min(all.height - top) };
        // A partial unit at the right is decoded as a whole unit.
        let right = (region.left + region.width).div_ceil(step) * step;
        let region = Region { width: right.min(all.width) - left, ..region };
        let (image, part) = (decode(eighths, all), decode(eighths, region));
        let first = if left == 0 { 0 } else { step };
        let last = if left + region.width == all.width { region.width } else { region.width.saturating_sub(step) };
        for row in 0..region.height {
            for column in first..last {
                let of_all = ((top + row) * all.width + left + column) * 3;
                let of_part = (row * region.width + column) * 3;
                prop_assert_eq!(&image[of_all..of_all + 3], &part[of_part..of_part + 3], "row {} column {}", row, column);
            }
        }
    }

    /// Whatever is done to the file, the result is an error, or an image of the declared size.
    #[test]
    fn damage_is_an_error_or_an_image(flips in prop::collection::vec((0_usize..WAVES.len(), 0_u8..8), 1..6),
                                      cut in 0_usize..WAVES.len(), is_cut: bool) {
        let mut bytes = WAVES.to_vec();
        for (place, bit) in flips {
            bytes[place] ^= 1 << bit;
        }
        if is_cut {
            bytes.truncate(cut);
        }
        let options = DecodeOptions { truncated: Truncated::Fill, max_pixels: 1 << 20, ..DecodeOptions::default() };
        if let Ok(image) = Image::decode(&bytes, &options) {
            prop_assert_eq!(image.pixels().len(), image.width() * image.height() * 3);
        }
    }
}

#[test]
fn a_region_that_begins_inside_a_unit_is_refused() {
    let mut decoder = JpegDecoder::new().unwrap();
    let header = decoder.header(WAVES).unwrap();
    let region = Region { left: 3, top: 0, width: 20, height: 5 };
    let fault = decoder.decode(WAVES, &header, 8, region, JpegColors::Rgb, &mut [0; 300]).unwrap_err();
    assert!(matches!(fault, JpegFault::Fatal(message) if message.contains("left boundary")));
}

#[test]
fn a_file_of_tables_alone_has_no_image() {
    let fault = JpegDecoder::new().unwrap().header(&[0xff, 0xd8, 0xff, 0xd9]).unwrap_err();
    assert!(matches!(fault, JpegFault::Fatal(message) if message.contains("no image")));
}

#[test]
#[should_panic(expected = "a region of the image")]
fn a_region_past_the_end_is_a_panic() {
    decode(8, Region { left: 0, top: 40, width: 77, height: 8 });
}

#[test]
fn encoded_images_can_be_decoded() {
    let ramp: Vec<u8> = (0..33 * 17).map(|at| (at % 33 * 7) as u8).collect();
    let header = |encoded: &[u8]| JpegDecoder::new().unwrap().header(encoded).unwrap();
    let encoded = encode_jpeg(&ramp, [33, 17], JpegColors::Gray, 100).unwrap();
    assert_eq!(header(&encoded), JpegHeader { width: 33, height: 17, colors: JpegColors::Gray, unit_width: 8 });
    let mut decoded = vec![0; ramp.len()];
    let whole = Region { left: 0, top: 0, width: 33, height: 17 };
    let decoder = JpegDecoder::new().unwrap();
    decoder.decode(&encoded, &header(&encoded), 8, whole, JpegColors::Gray, &mut decoded).unwrap();
    assert!(ramp.iter().zip(&decoded).all(|(before, after)| before.abs_diff(*after) <= 2));
    // Noise at the highest quality is larger than its pixels.
    let noise: Vec<u8> = (0..3 * 64 * 64_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert!(encode_jpeg(&noise, [64, 64], JpegColors::Rgb, 100).unwrap().len() > noise.len() / 2);
    assert!(encode_jpeg(&noise, [64, 64], JpegColors::Rgb, 1).unwrap().len() < 2_000);
}

#[test]
fn invalid_images_are_not_encoded() {
    let refused = |size: [usize; 2], colors, quality| {
        let pixels = vec![0; size[0] * size[1] * if colors == JpegColors::Rgb { 3 } else { 1 }];
        assert!(matches!(encode_jpeg(&pixels, size, colors, quality), Err(JpegFault::Fatal(_))));
    };
    refused([0, 5], JpegColors::Gray, 50);
    refused([70_000, 1], JpegColors::Rgb, 50);
    refused([4, 4], JpegColors::Gray, 0);
    refused([4, 4], JpegColors::Gray, 101);
    assert!(encode_jpeg(&[0; 16], [2, 2], JpegColors::Cmyk, 50).is_err());
}
