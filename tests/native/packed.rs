//! Packed batches: every token once, rows that are never too long, little padding.

use std::collections::HashMap;

use proptest::prelude::*;
use sluicegate::internal::{PackedBatchSampler, Packing, PieceCode};
use sluicegate::{BatchingSampler, Error, LastBatch, Result, Shuffling};

const PACKINGS: [Packing; 3] = [Packing::Concat, Packing::FirstFit, Packing::BestFit];

/// A piece: document, start and end.
type Piece = (usize, usize, usize);

/// Returns the rows of each batch, as a collate function would make them: tokens that do not fit are dropped.
fn rows(sampler: &PackedBatchSampler, lengths: &[i64], length: usize, epoch: u64) -> Vec<Vec<Vec<Piece>>> {
    let batches = sampler.batches(epoch).unwrap();
    let mut indices = Vec::new();
    let mut all = Vec::new();
    for batch in 0..batches.len() {
        batches.indices(batch, &mut indices);
        let mut rows: Vec<Vec<Piece>> = Vec::new();
        for &index in &indices {
            let piece = PieceCode::of(index, lengths.len());
            assert_eq!(piece.index(lengths.len()), index);
            if piece.begins_row {
                rows.push(Vec::new());
            }
            let row = rows.last_mut().expect("a batch begins with a row");
            let taken: usize = row.iter().map(|(_, start, end)| end - start).sum();
            let end = (lengths[piece.document] as usize).min(piece.start + length - taken);
            assert!(piece.start < end, "a piece without room");
            row.push((piece.document, piece.start, end));
        }
        all.push(rows);
    }
    all
}

/// Asserts that the pieces cover the whole documents, each token once.
fn covers(rows: &[Vec<Vec<Piece>>], lengths: &[i64]) {
    let mut pieces: Vec<Piece> = rows.iter().flatten().flatten().copied().collect();
    pieces.sort_unstable();
    let mut read = vec![0; lengths.len()];
    for (document, start, end) in pieces {
        assert_eq!(read[document], start, "document {document} is read with a gap or twice");
        read[document] = end;
    }
    assert!(read.iter().zip(lengths).all(|(&read, &length)| read == length as usize), "not all was read");
}

fn packed(lengths: &[i64], length: usize, rows: usize, packing: Packing, shuffling: Shuffling) -> PackedBatchSampler {
    PackedBatchSampler::new(lengths, length, rows, packing, 64, LastBatch::Keep, shuffling).unwrap()
}

proptest! {
    #[test]
    fn every_token_comes_once(
        lengths in prop::collection::vec(prop_oneof![0_i64..20, 0_i64..90], 0..200),
        length in 1_usize..40, rows_per_batch in 1_usize..5, seed: Option<u64>, epoch in 0_u64..3,
    ) {
        let shuffling = seed.map_or(Shuffling::Off, Shuffling::Seeded);
        let tokens: usize = lengths.iter().map(|&length| length as usize).sum();
        for packing in PACKINGS {
            let sampler = packed(&lengths, length, rows_per_batch, packing, shuffling);
            let batches = rows(&sampler, &lengths, length, epoch);
            covers(&batches, &lengths);
            let last = batches.len().saturating_sub(1);
            prop_assert!(batches.iter().take(last).all(|rows| rows.len() == rows_per_batch));
            let count: usize = batches.iter().map(Vec::len).sum();
            prop_assert!(count >= tokens.div_ceil(length));
            if packing == Packing::Concat {
                prop_assert_eq!(count, tokens.div_ceil(length));
            } else {
                // Only documents longer than a row are cut.
                let mut pieces: HashMap<usize, usize> = HashMap::new();
                batches.iter().flatten().flatten().for_each(|&(document, ..)| *pieces.entry(document).or_default() += 1);
                prop_assert!(pieces.iter().all(|(&document, &pieces)| pieces == (lengths[document] as usize).div_ceil(length)));
            }
            let dropping = PackedBatchSampler::new(
                &lengths, length, rows_per_batch, packing, 64, LastBatch::Drop, shuffling,
            ).unwrap();
            let whole = rows(&dropping, &lengths, length, epoch);
            prop_assert_eq!(&whole[..], &batches[..whole.len()]);
            prop_assert!(batches.len() - whole.len() <= 1);
            prop_assert!(whole.iter().all(|rows| rows.len() == rows_per_batch));
        }
    }
}

/// Returns lengths like those of texts: many short ones, few long ones.
fn texts(count: usize) -> Vec<i64> {
    (0..count as u64)
        .map(|text| (1 + (text.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54).pow(3) / 400_000) as i64)
        .collect()
}

#[test]
fn the_best_fit_leaves_least_padding() {
    let lengths = texts(20_000);
    let tokens: i64 = lengths.iter().sum();
    let padding = |packing| {
        let sampler =
            PackedBatchSampler::new(&lengths, 2048, 4, packing, 1 << 16, LastBatch::Keep, Shuffling::Seeded(7));
        let count: usize = rows(&sampler.unwrap(), &lengths, 2048, 0).iter().map(Vec::len).sum();
        1.0 - tokens as f64 / (count * 2048) as f64
    };
    let [concat, first, best] = PACKINGS.map(padding);
    assert!(concat <= best && best <= first && best < 0.01 && first < 0.1, "{concat} {best} {first}");
}

#[test]
fn batches_have_nearly_as_many_tokens() {
    let lengths = texts(20_000);
    let sampler =
        PackedBatchSampler::new(&lengths, 2048, 8, Packing::FirstFit, 1 << 16, LastBatch::Drop, Shuffling::Seeded(7));
    let batches = rows(&sampler.unwrap(), &lengths, 2048, 0);
    let tokens = batches.iter().map(|rows| rows.iter().flatten().map(|(_, start, end)| end - start).sum::<usize>());
    let (least, most) = (tokens.clone().min().unwrap(), tokens.max().unwrap());
    assert!(least as f64 > 0.75 * most as f64, "{least} to {most}");
}

#[test]
fn epochs_and_seeds_differ() {
    let lengths = texts(500);
    for packing in PACKINGS {
        let of = |seed, epoch| rows(&packed(&lengths, 256, 2, packing, Shuffling::Seeded(seed)), &lengths, 256, epoch);
        assert!(of(7, 0) == of(7, 0) && of(7, 0) != of(7, 1) && of(7, 1) != of(8, 0) && of(7, 0) != of(8, 0));
    }
    let off = |epoch| rows(&packed(&lengths, 256, 2, Packing::Concat, Shuffling::Off), &lengths, 256, epoch);
    assert!(off(0) == off(1) && off(0)[0][0][0].0 == 0);
}

#[test]
fn invalid_packings_are_refused() {
    let refused = |lengths: &[i64], length, rows, window| -> Result<()> {
        let packing = Packing::BestFit;
        PackedBatchSampler::new(lengths, length, rows, packing, window, LastBatch::Keep, Shuffling::Off).map(|_| ())
    };
    for (outcome, name) in [
        (refused(&[1], 0, 1, 1), "length"),
        (refused(&[1], 1, 0, 1), "rows_per_batch"),
        (refused(&[1], 1, 1, 0), "window"),
        (refused(&[1], 1 << 40, 1 << 40, 1), "rows_per_batch"),
        (refused(&[1, -1], 1, 1, 1), "lengths"),
        (refused(&[1 << 62, 0], 1 << 40, 1, 1), "lengths"),
    ] {
        match outcome {
            Err(Error::InvalidArgument { argument, .. }) => assert_eq!(argument, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    // A single document with more pieces than there is memory for.
    let sampler =
        PackedBatchSampler::new(&[1 << 60], 1, 1, Packing::BestFit, 1, LastBatch::Keep, Shuffling::Off).unwrap();
    assert!(matches!(sampler.batches(0).map(|_| ()), Err(Error::InvalidArgument { argument: "lengths", .. })));
}
