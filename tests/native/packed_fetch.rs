//! Packed rows from token files: every value follows its definition, whatever the pieces are.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::internal::{
    Array, DocumentPiece, Fetch, FetchPacked, FetchPackedFields, IndexBatch, PackRows, PackedBatchSampler, PackedField,
    PackedLabels, Packing, PieceCode, Ragged, Segment, Slab, TokenShardLayout, TokenShards, Wait,
};
use sluicegate::{
    BatchingSampler, DType, DatasetExt, Documents, Error, Field, LastBatch, Shuffling, Stack, TokenDocuments,
    TokenFiles, TokenLayout,
};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

/// Writes documents of these tokens, in two pairs of Megatron files.
fn written(folder: &TempDir, documents: &[Vec<u16>]) -> Arc<TokenDocuments> {
    let mut shards = TokenShards::new(1 << 20, TokenShardLayout::Megatron, DType::UInt16, 1).unwrap();
    let mut paths = Vec::new();
    for (number, part) in documents.chunks(documents.len().div_ceil(2).max(1)).enumerate() {
        paths.push(folder.path().join(format!("{number}.bin")));
        shards.begin(paths[number].clone());
        for document in part {
            assert!(shards.append(&document.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>()).unwrap());
        }
    }
    shards.end();
    shards.written(Wait::ForAll).unwrap();
    let files = TokenFiles::open(&paths, &TokenLayout::default(), Documents::Apart).unwrap();
    Arc::new(TokenDocuments::new(Arc::new(files)))
}

/// Returns documents whose tokens are all different and never 0.
fn texts(lengths: &[usize]) -> Vec<Vec<u16>> {
    let mut next = 1..;
    lengths.iter().map(|&length| next.by_ref().take(length).collect()).collect()
}

/// Returns the five fields of the batch of these pieces, token by token.
fn defined(documents: &[Vec<u16>], indices: &[usize], collate: PackRows) -> ([Vec<i64>; 4], Vec<i32>) {
    let PackRows { length, pad_token, labels } = collate;
    let (mut fields, mut ends) = ([const { Vec::new() }; 4], vec![0]);
    let mut document_in_row = 0;
    let pad = |fields: &mut [Vec<i64>; 4], ends: &mut Vec<i32>| {
        for position in 0.. {
            if fields[0].len().is_multiple_of(length) {
                break;
            }
            [pad_token, -100, position, -1].iter().zip(fields.iter_mut()).for_each(|(&value, field)| field.push(value));
        }
        if ends[ends.len() - 1] < fields[0].len() as i32 {
            ends.push(fields[0].len() as i32);
        }
    };
    for &index in indices {
        let piece = PieceCode::of(index, documents.len());
        if piece.begins_row {
            pad(&mut fields, &mut ends);
            document_in_row = 0;
        }
        let room = length - fields[0].len() % length;
        let tokens: Vec<i64> = documents[piece.document][piece.start..].iter().map(|&token| token.into()).collect();
        let tokens = &tokens[..tokens.len().min(room)];
        for (position, &token) in tokens.iter().enumerate() {
            let label = match labels {
                PackedLabels::Same => (position > 0).then_some(token),
                PackedLabels::Shifted => tokens.get(position + 1).copied(),
            };
            let values = [token, label.unwrap_or(-100), position as i64, document_in_row];
            values.iter().zip(&mut fields).for_each(|(&value, field)| field.push(value));
        }
        ends.push(fields[0].len() as i32);
        document_in_row += 1;
    }
    pad(&mut fields, &mut ends);
    (fields, ends)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_are_those_of_the_definition(
        lengths in prop::collection::vec(prop_oneof![0_usize..6, 0_usize..90], 1..60),
        length in 1_usize..40, rows_per_batch in 1_usize..5, seed: Option<u64>,
        pad_token: i64, shifted: bool, packing in 0_usize..3,
    ) {
        prop_assume!(lengths.iter().any(|&length| length > 0));
        let folder = TempDir::new().unwrap();
        let documents = texts(&lengths);
        let packing = [Packing::Concat, Packing::FirstFit, Packing::BestFit][packing];
        let labels = if shifted { PackedLabels::Shifted } else { PackedLabels::Same };
        let collate = PackRows { length, pad_token, labels };
        let fetch = FetchPacked::new(written(&folder, &documents), collate, Arc::new(Slab::new(2)));
        let numbers: Vec<i64> = lengths.iter().map(|&length| length as i64).collect();
        let shuffling = seed.map_or(Shuffling::Off, Shuffling::Seeded);
        let sampler =
            PackedBatchSampler::new(&numbers, length, rows_per_batch, packing, 16, LastBatch::Keep, shuffling).unwrap();
        let batches = sampler.batches(0).unwrap();
        let mut indices = Vec::new();
        for number in 0..batches.len() {
            batches.indices(number, &mut indices);
            let request = IndexBatch { epoch: 0, batch_in_epoch: number as u64, indices: indices.clone(), draws: None };
            let batch = fetch.fetch(&request).unwrap();
            let (fields, ends) = defined(&documents, &indices, collate);
            for (field, expected) in fields.iter().enumerate() {
                prop_assert_eq!(&batch.to_vec::<i64>(field).unwrap(), expected);
                prop_assert_eq!(&batch.fields()[field].shape, &[expected.len() / length, length]);
            }
            prop_assert_eq!(batch.to_vec::<i32>(4).unwrap(), ends);
        }
    }
}

#[test]
fn documents_are_samples_of_any_size() {
    let folder = TempDir::new().unwrap();
    let documents = texts(&[3, 0, 7, 1, 0, 12, 0]);
    let bytes = |tokens: &Vec<u16>| tokens.iter().flat_map(|&token| i64::from(token).to_ne_bytes()).collect();
    let expected: Vec<Vec<Vec<u8>>> = documents.iter().map(|tokens| vec![bytes(tokens)]).collect();
    dataset_conformance(&*written(&folder, &documents), &expected);
}

#[test]
fn an_index_that_is_read_in_blocks_has_every_document() {
    let folder = TempDir::new().unwrap();
    let documents = texts(&[1; 40_000]);
    written(&folder, &documents);
    let paths = ["0.bin", "1.bin"].map(|name| folder.path().join(name));
    let files = TokenFiles::open(&paths, &TokenLayout::default(), Documents::Apart).unwrap();
    let mut token = [0; 8];
    for (number, document) in documents.iter().enumerate() {
        files.read_document(number, 0, &mut token).unwrap();
        assert_eq!(i64::from_ne_bytes(token), i64::from(document[0]));
    }
}

#[test]
fn a_file_is_read_itself_even_if_a_pair_has_its_name() {
    let folder = TempDir::new().unwrap();
    written(&folder, &texts(&[3, 2, 1, 1]));
    let path = folder.path().join("0");
    let tokens = |path| {
        let files = TokenFiles::open([path], &TokenLayout::default(), Documents::Apart).unwrap();
        (0..files.documents()).map(|document| files.document_len(document)).collect::<Vec<_>>()
    };
    assert_eq!(tokens(&path), [3, 2]);
    std::fs::write(&path, [7; 8]).unwrap();
    assert_eq!(tokens(&path), [4]);
}

#[test]
fn pieces_that_make_no_rows_are_refused() {
    let folder = TempDir::new().unwrap();
    let documents = written(&folder, &texts(&[5, 0, 4]));
    let collate = PackRows { length: 8, pad_token: 0, labels: PackedLabels::Same };
    let fetch = FetchPacked::new(Arc::clone(&documents), collate, Arc::new(Slab::new(2)));
    let refused = |indices: &[usize], words: &str| {
        let error = fetch.pieces(indices).unwrap_err().to_string();
        assert!(error.contains(words), "{error}\ndoes not say {words}");
        let indices = indices.to_vec();
        assert!(fetch.fetch(&IndexBatch { epoch: 0, batch_in_epoch: 0, indices, draws: None }).is_err());
    };
    refused(&[], "at least one piece");
    refused(&[2], "the first piece of a batch must begin a row");
    refused(&[5, 2, 2], "a piece must have at least one token");
    refused(&[4], "index 4 does not denote a piece of the 3 documents");
    refused(&[usize::MAX], "does not denote a piece");
    let piece = |document, start, tokens| [DocumentPiece { document, start, tokens }];
    let mut room = [0; 64];
    let outcome = documents.read_pieces(&piece(3, 0, 1), [&mut room[..8]]);
    assert!(matches!(outcome, Err(Error::IndexOutOfRange { index: 3, len: 3 })));
    for (piece, bytes) in [(piece(0, 4, 2), 16), (piece(0, u64::MAX, 2), 16), (piece(0, 0, 2), 24)] {
        let outcome = documents.read_pieces(&piece, [&mut room[..bytes]]);
        assert!(matches!(outcome, Err(Error::InvalidArgument { .. })), "{piece:?}: {outcome:?}");
    }
    assert!(documents.read_pieces(&piece(0, 0, 2), []).is_err());
    assert!(documents.read_pieces(&piece(1, 0, 0), [&mut room[..0]]).is_ok());
}

#[test]
fn a_batch_has_no_more_tokens_than_an_int32_counts() {
    let collate = PackRows { length: 1 << 30, pad_token: 0, labels: PackedLabels::Same };
    assert_eq!(collate.pieces([(7, true)]).unwrap().rows(), 1);
    assert!(collate.pieces([(7, true), (7, true)]).unwrap_err().to_string().contains("2^31 - 1"));
    let longest = PackRows { length: usize::MAX, ..collate };
    assert!(longest.pieces([(7, true), (7, true)]).is_err());
}

/// Returns documents with separate labels and a weight for each token, as fields 1 and 2 after the tokens.
fn with_fields(documents: &[Vec<u16>]) -> Stack {
    fn ragged<T: Copy, const BYTES: usize>(
        name: &str,
        dtype: DType,
        documents: &[Vec<u16>],
        value: impl Fn(u16) -> T,
        bytes: fn(T) -> [u8; BYTES],
    ) -> Ragged {
        let values: Vec<u8> = documents.iter().flatten().flat_map(|&token| bytes(value(token))).collect();
        let ends = documents.iter().scan(0, |end, document| {
            *end += document.len();
            Some(*end)
        });
        let offsets: Vec<usize> = [0].into_iter().chain(ends).collect();
        let len = offsets[offsets.len() - 1];
        let array = Array::contiguous(Arc::new(Segment::from_vec(values)), 0, BYTES, &[len]).unwrap();
        Ragged::new(Field::variable(name, dtype, []), array, offsets).unwrap()
    }
    let tokens = ragged("input_ids", DType::UInt16, documents, |token| token, u16::to_ne_bytes);
    let labels = ragged("labels", DType::Int32, documents, label_of, i32::to_ne_bytes);
    let weights = ragged("weight", DType::Float32, documents, |token| f32::from(token) / 4.0, f32::to_ne_bytes);
    tokens.zip(labels).unwrap().zip(weights).unwrap()
}

/// Every third token belongs to a prompt.
fn label_of(token: u16) -> i32 {
    if token.is_multiple_of(3) { -100 } else { 1000 + i32::from(token) }
}

proptest! {
    #[test]
    fn labels_and_fields_stand_next_to_their_tokens(
        lengths in prop::collection::vec(0_usize..40, 1..30),
        length in 1_usize..50,
        rows in 1_usize..4,
        packing in prop::sample::select(vec![Packing::Concat, Packing::FirstFit, Packing::BestFit]),
        labels in prop::sample::select(vec![PackedLabels::Same, PackedLabels::Shifted]),
    ) {
        let documents = texts(&lengths);
        let signed: Vec<i64> = lengths.iter().map(|&length| length as i64).collect();
        let sampler =
            PackedBatchSampler::new(&signed, length, rows, packing, 16, LastBatch::Keep, Shuffling::Seeded(7)).unwrap();
        let collate = PackRows { length, pad_token: 0, labels };
        let counts = lengths.iter().map(|&length| length as u32).collect();
        let padding = vec![PackedField { field: 2, padding: (-1.0_f32).to_ne_bytes().to_vec() }];
        let fetch = FetchPackedFields::new(Arc::new(with_fields(&documents)), counts, collate, Arc::new(Slab::new(2)));
        let fetch = fetch.unwrap().with_labels(1).unwrap().with_fields(padding).unwrap();
        let batches = sampler.batches(0).unwrap();
        for number in 0..batches.len() {
            let mut indices = Vec::new();
            batches.indices(number, &mut indices);
            let batch = fetch.fetch(&IndexBatch { epoch: 0, batch_in_epoch: number as u64, indices: indices.clone(), draws: None });
            let batch = batch.unwrap();
            let ([tokens, _, positions, in_row], ends) = defined(&documents, &indices, collate);
            prop_assert_eq!(&batch.to_vec::<i64>(0).unwrap(), &tokens);
            prop_assert_eq!(&batch.to_vec::<i64>(2).unwrap(), &positions);
            prop_assert_eq!(&batch.to_vec::<i64>(3).unwrap(), &in_row);
            prop_assert_eq!(&batch.to_vec::<i32>(4).unwrap(), &ends);
            let is_token = |place: &usize| in_row[*place] >= 0;
            let expected_weights: Vec<f32> =
                (0..tokens.len()).map(|place| if is_token(&place) { tokens[place] as f32 / 4.0 } else { -1.0 }).collect();
            prop_assert_eq!(batch.to_vec::<f32>(5).unwrap(), expected_weights);
            let mut expected = vec![-100; tokens.len()];
            for piece in ends.windows(2).map(|piece| piece[0] as usize..piece[1] as usize).filter(|p| is_token(&p.start)) {
                // The first label of a piece is not predicted by any token.
                let own = tokens[piece.start + 1..piece.end].iter().map(|&token| i64::from(label_of(token as u16)));
                let from = if labels == PackedLabels::Same { piece.start + 1 } else { piece.start };
                expected[from..].iter_mut().zip(own).for_each(|(into, label)| *into = label);
            }
            prop_assert_eq!(batch.to_vec::<i64>(1).unwrap(), expected);
        }
    }
}

#[test]
fn fields_that_do_not_match_the_tokens_are_refused() {
    let documents = texts(&[3, 2]);
    let collate = PackRows { length: 4, pad_token: 0, labels: PackedLabels::Same };
    let fetch = |lengths: Vec<u32>| {
        FetchPackedFields::new(Arc::new(with_fields(&documents)), lengths, collate, Arc::new(Slab::new(2)))
    };
    assert!(fetch(vec![3]).err().unwrap().to_string().contains("each of the 2 documents, got 1"));
    assert!(fetch(vec![3, 2]).unwrap().with_labels(2).err().unwrap().to_string().contains("expected integers"));
    assert!(fetch(vec![3, 2]).unwrap().with_tokens(7).err().unwrap().to_string().contains("no field 7"));
    let short = vec![PackedField { field: 2, padding: vec![0] }];
    assert!(
        fetch(vec![3, 2]).unwrap().with_fields(short).err().unwrap().to_string().contains("padding of field `weight`")
    );
    let index = PieceCode { document: 1, start: 0, begins_row: true }.index(2);
    let batch = IndexBatch { epoch: 0, batch_in_epoch: 0, indices: vec![index], draws: None };
    let error = fetch(vec![3, 4]).unwrap().fetch(&batch).unwrap_err().to_string();
    assert!(error.contains("document 1 has 2 tokens, but its given length is 4"), "{error}");
}
