//! Token files: which windows are read, and what is rejected with which message.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{
    DType, DataLoader, Dataset, Documents, Error, Result, TokenFiles, TokenLayout, TokenOutput, TokenWindows, Tokens,
};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

const WINDOWS: TokenWindows =
    TokenWindows { length: 3, stride: 3, output: TokenOutput::Shifted, vocabulary_size: None };

/// Writes a new file of `bytes`.
fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).unwrap();
    path
}

fn uint16(tokens: impl IntoIterator<Item = u16>) -> Vec<u8> {
    tokens.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// Returns a Megatron index: (length, byte offset in the `.bin`) of each sequence, and the borders of documents.
fn index(code: u8, sequences: &[(i32, i64)], borders: &[i64]) -> Vec<u8> {
    let mut bytes = b"MMIDIDX\0\0".to_vec();
    bytes.extend(1_u64.to_le_bytes());
    bytes.push(code);
    bytes.extend((sequences.len() as u64).to_le_bytes());
    bytes.extend((borders.len() as u64).to_le_bytes());
    bytes.extend(sequences.iter().flat_map(|(length, _)| length.to_le_bytes()));
    bytes.extend(sequences.iter().flat_map(|(_, pointer)| pointer.to_le_bytes()));
    bytes.extend(borders.iter().flat_map(|border| border.to_le_bytes()));
    bytes
}

fn open(path: &Path, dtype: DType, documents: Documents, windows: TokenWindows) -> Result<Tokens> {
    let files = TokenFiles::open([path], &TokenLayout { dtype, offset: 0 }, documents)?;
    Tokens::new(Arc::new(files), windows)
}

/// Returns the bytes of samples with these fields.
fn samples(fields: &[&[&[i64]]]) -> Vec<Vec<Vec<u8>>> {
    let bytes = |tokens: &&[i64]| tokens.iter().flat_map(|token| token.to_ne_bytes()).collect();
    fields.iter().map(|sample| sample.iter().map(bytes).collect()).collect()
}

/// Asserts that this is a format error, with a message that contains `words`.
fn refused<T>(opened: Result<T>, words: &[&str]) {
    let error = opened.err().unwrap_or_else(|| panic!("{words:?} was read"));
    assert!(matches!(error, Error::Format { .. }), "{error:?}");
    let message = error.to_string();
    assert!(words.iter().all(|word| message.contains(word)), "{message}\ndoes not say {words:?}");
}

#[test]
fn every_data_type_and_output_keeps_the_contract() {
    let folder = TempDir::new().unwrap();
    let expected = samples(&[&[&[1, 2, 3], &[2, 3, 4]], &[&[4, 5, 6], &[5, 6, 7]]]);
    let bytes = |width: usize| (1_u64..9).flat_map(|token| token.to_le_bytes()[..width].to_vec()).collect::<Vec<_>>();
    for (dtype, width) in [
        (DType::UInt8, 1),
        (DType::Int8, 1),
        (DType::UInt16, 2),
        (DType::Int16, 2),
        (DType::UInt32, 4),
        (DType::Int32, 4),
        (DType::Int64, 8),
    ] {
        let path = file(&folder, "x.bin", &bytes(width));
        dataset_conformance(&open(&path, dtype, Documents::Joined, WINDOWS).unwrap(), &expected);
    }
    let path = file(&folder, "x.bin", &bytes(2));
    let of = |output, stride| open(&path, DType::UInt16, Documents::Joined, TokenWindows { output, stride, ..WINDOWS });
    let twice: Vec<[&[i64]; 2]> = vec![[&[1, 2, 3], &[1, 2, 3]], [&[4, 5, 6], &[4, 5, 6]]];
    let twice: Vec<&[&[i64]]> = twice.iter().map(|fields| fields.as_slice()).collect();
    dataset_conformance(&of(TokenOutput::Same, 3).unwrap(), &samples(&twice));
    dataset_conformance(&of(TokenOutput::Tokens, 4).unwrap(), &samples(&[&[&[1, 2, 3, 4]], &[&[5, 6, 7, 8]]]));
    let overlapping = of(TokenOutput::Tokens, 2).unwrap();
    dataset_conformance(&overlapping, &samples(&[&[&[1, 2, 3, 4]], &[&[3, 4, 5, 6]], &[&[5, 6, 7, 8]]]));
}

#[test]
fn values_are_widened_with_their_sign() {
    let folder = TempDir::new().unwrap();
    let windows = TokenWindows { length: 1, stride: 2, output: TokenOutput::Tokens, vocabulary_size: None };
    let read = |dtype, bytes: &[u8]| {
        let dataset = Arc::new(open(&file(&folder, "x.bin", bytes), dtype, Documents::Joined, windows).unwrap());
        let loader = DataLoader::builder(dataset).batch_size(1).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap().unwrap().to_vec::<i64>(0).unwrap()
    };
    assert_eq!(read(DType::UInt8, &[0xff, 0x80]), [255, 128]);
    assert_eq!(read(DType::Int8, &[0xff, 0x80]), [-1, -128]);
    assert_eq!(read(DType::UInt16, &[0xff, 0xff, 0, 0x80]), [65535, 32768]);
    assert_eq!(read(DType::Int16, &[0xff, 0xff, 0, 0x80]), [-1, -32768]);
    assert_eq!(read(DType::UInt32, &[0xff; 8]), [i64::from(u32::MAX); 2]);
    assert_eq!(read(DType::Int32, &[0xff; 8]), [-1; 2]);
    assert_eq!(read(DType::Int64, &[[0xff; 8], i64::MAX.to_le_bytes()].concat()), [-1, i64::MAX]);
}

#[test]
fn long_windows_are_read_whole_whatever_their_length() {
    let folder = TempDir::new().unwrap();
    let tokens: Vec<u16> = (0..10_000).map(|token| (token * 7919 % 50_257) as u16).collect();
    let path = file(&folder, "x.bin", &uint16(tokens.iter().copied()));
    for length in [1, 2, 7, 8, 9, 15, 31, 32, 33, 255, 511, 512, 513, 4097, 9_999] {
        let windows = TokenWindows { length, stride: 1, output: TokenOutput::Shifted, vocabulary_size: Some(50_257) };
        let dataset = open(&path, DType::UInt16, Documents::Joined, windows).unwrap();
        assert_eq!(dataset.len(), 10_000 - length);
        for index in [0, dataset.len() / 2, dataset.len() - 1] {
            let loader = DataLoader::builder(Arc::new(open(&path, DType::UInt16, Documents::Joined, windows).unwrap()));
            let batch = loader.batch_size(1).build().unwrap().epoch(0).unwrap().nth(index).unwrap().unwrap();
            let wide = |start: usize| tokens[start..start + length].iter().map(|&token| i64::from(token));
            assert!(batch.to_vec::<i64>(0).unwrap().into_iter().eq(wide(index)));
            assert!(batch.to_vec::<i64>(1).unwrap().into_iter().eq(wide(index + 1)));
            if length < 4000 {
                break;
            }
        }
    }
}

#[test]
fn windows_never_cross_the_end_of_a_file() {
    let folder = TempDir::new().unwrap();
    let paths =
        [file(&folder, "a", &uint16(0..8)), file(&folder, "b", &uint16(10..12)), file(&folder, "c", &uint16(20..24))];
    let files = TokenFiles::open(&paths, &TokenLayout::default(), Documents::Joined).unwrap();
    assert_eq!((files.tokens(), files.documents(), files.document_len(1)), (14, 3, 2));
    let tokens = Tokens::new(Arc::new(files), TokenWindows { output: TokenOutput::Tokens, ..WINDOWS }).unwrap();
    dataset_conformance(&tokens, &samples(&[&[&[0, 1, 2, 3]], &[&[3, 4, 5, 6]], &[&[20, 21, 22, 23]]]));
}

#[test]
fn a_header_is_skipped() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "x.bin", &[&[9; 5][..], &uint16(1..5)].concat());
    let files = TokenFiles::open([&path], &TokenLayout { offset: 5, ..TokenLayout::default() }, Documents::Joined);
    let tokens = Tokens::new(Arc::new(files.unwrap()), WINDOWS).unwrap();
    dataset_conformance(&tokens, &samples(&[&[&[1, 2, 3], &[2, 3, 4]]]));
    refused(
        TokenFiles::open([&path], &TokenLayout { offset: 13, ..TokenLayout::default() }, Documents::Joined),
        &["x.bin, byte 13", "offset=13"],
    );
}

/// Three documents of 4, 0, and 5 tokens; the last one has two sequences, stored in the wrong order in the file.
fn megatron(folder: &TempDir) -> PathBuf {
    file(folder, "corpus.idx", &index(8, &[(4, 0), (2, 14), (3, 8)], &[0, 1, 1, 3]));
    file(folder, "corpus.bin", &uint16([1, 2, 3, 4, 7, 8, 9, 5, 6]))
}

#[test]
fn megatrons_documents_are_joined_or_kept_apart() {
    let folder = TempDir::new().unwrap();
    let path = megatron(&folder);
    let windows = TokenWindows { output: TokenOutput::Tokens, ..WINDOWS };
    for path in [path.clone(), path.with_extension("idx"), path.with_extension("")] {
        let joined = open(&path, DType::Int64, Documents::Joined, windows).unwrap();
        dataset_conformance(&joined, &samples(&[&[&[1, 2, 3, 4]], &[&[4, 5, 6, 7]]]));
        let apart = open(&path, DType::Int64, Documents::Apart, windows).unwrap();
        dataset_conformance(&apart, &samples(&[&[&[1, 2, 3, 4]], &[&[5, 6, 7, 8]]]));
    }
    let paths = [path.clone(), file(&folder, "flat", &uint16(20..23)), path];
    let files = TokenFiles::open(&paths, &TokenLayout::default(), Documents::Apart).unwrap();
    let lengths: Vec<u64> = (0..files.documents()).map(|document| files.document_len(document)).collect();
    assert_eq!(lengths, [4, 0, 5, 3, 4, 0, 5]);
    let mut tokens = [0; 32];
    files.read_document(6, 1, &mut tokens).unwrap();
    assert_eq!(
        tokens.as_chunks::<8>().0.iter().map(|&token| i64::from_ne_bytes(token)).collect::<Vec<_>>(),
        [6, 7, 8, 9]
    );
    files.read_document(5, 0, &mut []).unwrap();
    assert!(matches!(files.read_document(7, 0, &mut []), Err(Error::IndexOutOfRange { index: 7, len: 7 })));
    assert!(matches!(files.read_document(6, 2, &mut tokens), Err(Error::InvalidArgument { .. })));
    assert!(matches!(files.read_document(6, u64::MAX, &mut tokens), Err(Error::InvalidArgument { .. })));
}

#[test]
fn a_damaged_index_is_refused_with_the_position() {
    let folder = TempDir::new().unwrap();
    let path = megatron(&folder);
    let opened = |bytes: &[u8]| {
        file(&folder, "corpus.idx", bytes);
        TokenFiles::open([&path], &TokenLayout::default(), Documents::Apart)
    };
    let whole = index(8, &[(4, 0), (2, 14), (3, 8)], &[0, 1, 1, 3]);
    for end in 0..whole.len() {
        refused(opened(&whole[..end]), &["corpus.idx, byte"]);
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    refused(opened(&with(3, b'x')), &["byte 0", "MMIDIDX", "rename it"]);
    refused(opened(b"TNTIDX\0\0 and more than that, to be sure"), &["TNTIDX", "convert"]);
    refused(opened(&with(9, 2)), &["byte 9", "version 2"]);
    refused(opened(&with(17, 6)), &["byte 17", "floating-point"]);
    refused(opened(&with(17, 0)), &["byte 17", "code 0"]);
    refused(opened(&with(25, 0x40)), &["byte 18", "more than a file can hold"]);
    refused(opened(&with(22, 1)), &["truncated"]);
    refused(opened(&with(26, 0)), &["byte 26", "no document boundaries"]);
    refused(opened(&with(41, 0x80)), &["byte 38", "sequence 1", "negative number of tokens"]);
    refused(opened(&with(34, 40)), &["byte 46", "sequence 0", "18 bytes"]);
    refused(opened(&with(54, 15)), &["byte 54", "sequence 1", "18 bytes"]);
    refused(opened(&with(61, 0x80)), &["byte 54", "sequence 1"]);
    refused(opened(&with(70, 1)), &["byte 70", "first document"]);
    refused(opened(&with(86, 0)), &["byte 86", "ends before it begins"]);
    refused(opened(&with(94, 2)), &["byte 94", "sequence 2 of 3"]);
    refused(opened(&with(94, 4)), &["byte 94", "sequence 4 of 3"]);
    refused(opened(&[&whole[..], &[0; 5]].concat()), &["byte 102", "5 bytes follow"]);
    opened(&[&whole[..], &[1; 3]].concat()).expect("the modes of three sequences may follow");
    let without = index(8, &[], &[0]);
    assert_eq!(opened(&without).unwrap().tokens(), 0);
    fs::remove_file(folder.path().join("corpus.idx")).unwrap();
    let gone = TokenFiles::open([folder.path().join("corpus.idx")], &TokenLayout::default(), Documents::Joined);
    assert!(matches!(gone, Err(Error::Io { .. })));
}

#[test]
fn files_without_tokens_are_refused() {
    let folder = TempDir::new().unwrap();
    let opened = |bytes: &[u8], dtype| {
        TokenFiles::open([file(&folder, "x.bin", bytes)], &TokenLayout { dtype, offset: 0 }, Documents::Joined)
    };
    refused(opened(&[], DType::UInt16), &["x.bin, byte 0", "empty"]);
    refused(opened(&[0; 5], DType::UInt16), &["x.bin, byte 4", "5 bytes", "uint16"]);
    refused(opened(&[0; 10], DType::UInt32), &["byte 8", "uint32"]);
    assert!(matches!(opened(&[0; 4], DType::Float32), Err(Error::InvalidArgument { argument: "dtype", .. })));
    assert!(matches!(opened(&[0; 8], DType::UInt64), Err(Error::InvalidArgument { argument: "dtype", .. })));
    let none: [&Path; 0] = [];
    let opened = TokenFiles::open(none, &TokenLayout::default(), Documents::Joined);
    assert!(matches!(opened, Err(Error::InvalidArgument { argument: "paths", .. })));
    let folder = TokenFiles::open([folder.path()], &TokenLayout::default(), Documents::Joined);
    assert!(matches!(folder, Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EISDIR)));
}

#[test]
fn invalid_windows_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "x.bin", &uint16(0..10));
    for (length, stride, argument) in [
        (0, 1, "length"),
        (1, 0, "stride"),
        (10, 1, "length"),
        (usize::MAX, 1, "length"),
        (usize::MAX - 1, 9, "length"),
    ] {
        let windows = TokenWindows { length, stride, ..WINDOWS };
        match open(&path, DType::UInt16, Documents::Joined, windows) {
            Err(Error::InvalidArgument { argument: found, .. }) => assert_eq!(found, argument),
            other => panic!("{length} by {stride} gave {:?}", other.err()),
        }
    }
    let windows = TokenWindows { length: 9, stride: usize::MAX, ..WINDOWS };
    assert_eq!(open(&path, DType::UInt16, Documents::Joined, windows).unwrap().len(), 1);
}

#[test]
fn a_token_beyond_the_vocabulary_is_named_with_its_place() {
    let folder = TempDir::new().unwrap();
    let windows = TokenWindows { vocabulary_size: Some(100), ..WINDOWS };
    let read = |dtype, bytes: &[u8]| {
        let dataset = open(&file(&folder, "x.bin", bytes), dtype, Documents::Joined, windows).unwrap();
        let loader = DataLoader::builder(Arc::new(dataset)).batch_size(2).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap()
    };
    assert!(read(DType::UInt16, &uint16([99; 7])).is_ok());
    refused(
        read(DType::UInt16, &uint16([1, 2, 3, 4, 5, 100, 7])),
        &["x.bin, byte 10", "token 100", "vocabulary of 100"],
    );
    refused(read(DType::Int8, &[1, 2, 3, 255]), &["byte 3", "token -1"]);
}

fn loader(path: &Path) -> DataLoader {
    let dataset = open(path, DType::UInt16, Documents::Joined, WINDOWS).unwrap();
    DataLoader::builder(Arc::new(dataset)).batch_size(4).build().unwrap()
}

#[test]
fn a_truncated_or_replaced_file_is_named_at_the_next_batch() {
    let folder = TempDir::new().unwrap();
    for (size, words) in [
        (Some(9_000), "shrank since it was opened: 20000 bytes then, 9000"),
        (None, "it was replaced by a different file"),
    ] {
        let path = file(&folder, "x.bin", &uint16(0..10_000));
        let loader = loader(&path);
        let mut batches = loader.epoch(0).unwrap();
        assert!(batches.next().unwrap().is_ok());
        match size {
            Some(size) => OpenOptions::new().write(true).open(&path).unwrap().set_len(size).unwrap(),
            None => {
                let fresh = file(&folder, "y.bin", &uint16(0..10_000));
                fs::rename(fresh, &path).unwrap();
            }
        }
        // Batches that were fetched ahead may still be complete.
        let error = batches.find_map(std::result::Result::err).expect("not all were fetched ahead");
        assert!(error.to_string().contains(words) && error.to_string().contains("x.bin"), "{error}");
    }
}

#[test]
fn a_file_that_grows_or_vanishes_is_read_as_it_was() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "x.bin", &uint16(0..100));
    let loader = loader(&path);
    let batches = loader.epoch(0).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(1_000_000).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().samples()).sum::<usize>(), 33);
    let batches = loader.epoch(1).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().samples()).sum::<usize>(), 33);
}

#[test]
fn thousands_of_files_are_one_dataset() {
    let folder = TempDir::new().unwrap();
    // More files than can be mapped.
    let count = 4_200_u16;
    let paths: Vec<PathBuf> =
        (0..count).map(|number| file(&folder, &format!("{number}"), &uint16(number..number + 5))).collect();
    let files = TokenFiles::open(&paths, &TokenLayout::default(), Documents::Joined).unwrap();
    let tokens = Arc::new(Tokens::new(Arc::new(files), WINDOWS).unwrap());
    assert_eq!(tokens.len(), usize::from(count));
    let loader = DataLoader::builder(Arc::clone(&tokens) as Arc<dyn Dataset>).batch_size(100).build().unwrap();
    let batches: Vec<_> = loader.epoch(0).unwrap().map(|batch| batch.unwrap().to_vec::<i64>(0).unwrap()).collect();
    let expected = (0..i64::from(count)).flat_map(|number| [number, number + 1, number + 2]);
    assert!(batches.into_iter().flatten().eq(expected));
    let last = &paths[4_199];
    let read = || loader.epoch(0).unwrap().last().unwrap();
    OpenOptions::new().write(true).open(last).unwrap().set_len(4).unwrap();
    assert!(matches!(read(), Err(Error::Shrunk { found: 4, .. })));
    fs::rename(&paths[0], last).unwrap();
    assert!(matches!(read(), Err(Error::Changed { .. })));
    fs::remove_file(last).unwrap();
    assert!(matches!(read(), Err(Error::Io { .. })));
}

proptest! {
    #[test]
    fn an_arbitrary_index_never_reads_outside_its_file(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let folder = TempDir::new().unwrap();
        let path = megatron(&folder);
        let mut bytes = fs::read(folder.path().join("corpus.idx")).unwrap();
        for (place, byte) in &changes {
            let at = place.index(bytes.len());
            bytes[at] = *byte;
        }
        if is_cut {
            bytes.truncate(end.index(bytes.len() + 1));
        }
        file(&folder, "corpus.idx", &bytes);
        for documents in [Documents::Joined, Documents::Apart] {
            let windows = TokenWindows { length: 1, stride: 1, ..WINDOWS };
            let Ok(dataset) = open(&path, DType::UInt16, documents, windows) else { continue };
            // Whatever length it now declares, the declared windows exist.
            let batch = DataLoader::builder(Arc::new(dataset)).batch_size(100).build().unwrap().epoch(0).unwrap().next();
            prop_assert!(batch.is_none_or(|batch| batch.is_ok()));
        }
    }

    #[test]
    fn windows_are_those_of_the_definition(
        lens in prop::collection::vec(0_usize..40, 1..6), length in 1_usize..9, stride in 1_usize..9,
    ) {
        let folder = TempDir::new().unwrap();
        let total: usize = lens.iter().sum();
        let mut pointer = 0;
        let sequences: Vec<(i32, i64)> = lens.iter().map(|&len| {
            pointer += len;
            (len as i32, 4 * (pointer - len) as i64)
        }).collect();
        let borders: Vec<i64> = (0..=lens.len() as i64).collect();
        file(&folder, "x.idx", &index(4, &sequences, &borders));
        let tokens: Vec<u8> = (0..total as i32).flat_map(i32::to_le_bytes).collect();
        let path = file(&folder, "x.bin", &tokens);
        let windows = TokenWindows { length, stride, output: TokenOutput::Tokens, vocabulary_size: None };
        for (documents, lens) in [(Documents::Apart, lens), (Documents::Joined, vec![total])] {
            let mut expected = Vec::new();
            let mut first = 0;
            for len in lens {
                let starts = (0..len).step_by(stride).take_while(|start| start + length < len);
                expected.extend(starts.map(|start| (first + start..=first + start + length).map(|token| token as i64)));
                first += len;
            }
            match open(&path, DType::UInt16, documents, windows) {
                Ok(dataset) => {
                    prop_assert_eq!(dataset.len(), expected.len());
                    let loader = DataLoader::builder(Arc::new(dataset)).batch_size(1000).build().unwrap();
                    let read = loader.epoch(0).unwrap().next().unwrap().unwrap().to_vec::<i64>(0).unwrap();
                    prop_assert!(read.into_iter().eq(expected.into_iter().flatten()));
                }
                Err(error) => prop_assert!(expected.is_empty(), "{}", error),
            }
        }
    }
}
