//! Shards of tokens and of Parquet: filled in order, complete or absent, and samples that do not fit are rejected.

use std::fs;
use std::path::{Path, PathBuf};

use sluicegate::internal::{TokenShardLayout, TokenShards, Wait};
use sluicegate::{DType, Documents, Error, TokenFiles, TokenLayout};
use tempfile::TempDir;

fn path(folder: &TempDir, number: usize) -> PathBuf {
    folder.path().join(format!("{number}.bin"))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn documents_are_distributed_in_order_and_read_back() {
    for layout in [TokenShardLayout::Flat, TokenShardLayout::Megatron] {
        let folder = TempDir::new().unwrap();
        let documents: Vec<Vec<u16>> = (0..300).map(|number: u16| (0..number % 37).collect()).collect();
        let mut shards = TokenShards::new(1000, layout, DType::UInt16, 3).unwrap();
        let mut begun = 0;
        for document in &documents {
            let bytes: Vec<u8> = document.iter().flat_map(|token| token.to_le_bytes()).collect();
            if !shards.append(&bytes).unwrap() {
                shards.begin(path(&folder, begun));
                begun += 1;
                assert!(shards.append(&bytes).unwrap());
            }
        }
        shards.end();
        let mut written = shards.written(Wait::ForAll).unwrap();
        written.sort_by_key(|shard| shard.number);
        assert_eq!((written.len(), written.iter().map(|shard| shard.samples).sum::<usize>()), (begun, 300));
        for shard in &written {
            let files = [path(&folder, shard.number), path(&folder, shard.number).with_extension("idx")];
            let sizes = files.iter().filter_map(|path| fs::metadata(path).ok()).map(|found| found.len());
            assert_eq!(sizes.sum::<u64>(), shard.bytes);
            assert!(fs::metadata(&files[0]).unwrap().len() <= 1000);
        }
        let paths = (0..begun).map(|number| path(&folder, number));
        let files = TokenFiles::open(paths, &TokenLayout::default(), Documents::Apart).unwrap();
        assert_eq!(files.tokens(), documents.iter().map(|document| document.len() as u64).sum::<u64>());
        if layout == TokenShardLayout::Megatron {
            let lengths: Vec<u64> = (0..files.documents()).map(|document| files.document_len(document)).collect();
            assert_eq!(lengths, documents.iter().map(|document| document.len() as u64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn aborted_writes_leave_no_file() {
    let folder = TempDir::new().unwrap();
    let mut shards = TokenShards::new(1 << 30, TokenShardLayout::Megatron, DType::Int32, 1).unwrap();
    assert!(matches!(shards.append(&[1, 2, 3]), Err(Error::InvalidArgument { argument: "tokens", .. })));
    assert!(!shards.append(&[0; 4]).unwrap(), "none was begun");
    shards.begin(path(&folder, 0));
    assert!(shards.append(&vec![7; 5 << 20]).unwrap());
    shards.close().unwrap();
    assert_eq!(names(folder.path()), Vec::<String>::new());
    assert!(TokenShards::new(1, TokenShardLayout::Megatron, DType::UInt32, 1).is_err());
    assert!(TokenShards::new(1, TokenShardLayout::Flat, DType::Float32, 1).is_err());
}

#[cfg(feature = "parquet")]
mod parquet {
    use sluicegate::internal::{ParquetColumn, ParquetElement, ParquetField, ParquetShardOptions, ParquetShards};

    use super::*;

    fn field(name: &str, element: ParquetElement, is_list: bool, shape: &[usize]) -> ParquetField {
        ParquetField { name: name.into(), element, is_list, shape: shape.to_vec() }
    }

    fn options(threads: usize) -> ParquetShardOptions {
        ParquetShardOptions {
            shard_bytes: 500,
            row_group_rows: 3,
            compression: sluicegate::internal::ParquetCompression::Zstd,
            threads,
        }
    }

    #[test]
    fn columns_are_cut_where_a_shard_is_full() {
        let number = ParquetElement::Number(DType::Int64);
        let fields = || vec![field("text", ParquetElement::Text, true, &[]), field("row", number.clone(), false, &[2])];
        let mut of_threads = Vec::new();
        for threads in [1, 3] {
            let folder = TempDir::new().unwrap();
            let mut shards = ParquetShards::new(fields(), &options(threads)).unwrap();
            let rows: Vec<u8> = (0..40_i64).flat_map(i64::to_ne_bytes).collect();
            let text = ParquetColumn { values: &[b'x'; 60], sizes: &[3; 20], lengths: &[1; 20], missing: &[false; 20] };
            let columns = [text, ParquetColumn { values: &rows, ..ParquetColumn::default() }];
            let (mut start, mut begun) = (0, 0);
            while start < 20 {
                start += shards.append(&columns, start..20).unwrap();
                if start < 20 {
                    shards.begin(path(&folder, begun));
                    begun += 1;
                }
            }
            shards.end();
            let written = shards.written(Wait::ForAll).unwrap();
            // A sample takes 3 bytes of text, 4 of each of two offsets, and 16 of numbers.
            assert_eq!(written.iter().map(|shard| shard.samples).collect::<Vec<_>>(), [18, 2]);
            of_threads.push((0..begun).map(|number| fs::read(path(&folder, number)).unwrap()).collect::<Vec<_>>());
        }
        assert_eq!(of_threads[0], of_threads[1]);
    }

    #[test]
    fn samples_before_a_refused_one_are_kept() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.parquet");
        let mut shards = ParquetShards::new(vec![field("x", ParquetElement::Text, false, &[])], &options(1)).unwrap();
        shards.begin(path.clone());
        let column =
            |values: &'static [u8], sizes: &'static [i64]| ParquetColumn { values, sizes, ..Default::default() };
        assert_eq!(shards.append(&[column(b"abc", &[1, 2])], 0..2).unwrap(), 2);
        assert!(shards.append(&[column(b"\xff", &[1])], 0..1).is_err(), "this is not a text");
        assert_eq!(shards.append(&[column(b"d", &[1])], 0..1).unwrap(), 1);
        shards.end();
        assert_eq!(shards.written(Wait::ForAll).unwrap()[0].samples, 3);
        let whole = sluicegate::Parquet::open(vec![path], sluicegate::ParquetOptions::default()).unwrap();
        assert_eq!(sluicegate::Dataset::len(&whole), 3);
    }

    #[test]
    fn mismatched_columns_are_refused() {
        let number = ParquetElement::Number(DType::Int32);
        let mut shards = ParquetShards::new(vec![field("x", number.clone(), true, &[2])], &options(1)).unwrap();
        let columns: [(&[u8], &[i64], &[bool]); 5] = [
            (&[0; 8], &[2], &[]),
            (&[0; 8], &[-1], &[]),
            (&[0; 8], &[i64::MAX], &[]),
            (&[0; 8], &[1, 0], &[]),
            (&[0; 8], &[1], &[true, false]),
        ];
        for (values, lengths, missing) in columns {
            let column = ParquetColumn { values, lengths, missing, sizes: &[] };
            assert!(matches!(shards.append(&[column], 0..1), Err(Error::InvalidArgument { .. })), "{lengths:?}");
        }
        assert!(shards.append(&[], 0..1).is_err());
        for refused in
            [field("x", number, false, &[0]), field("x", ParquetElement::Number(DType::BFloat16), false, &[])]
        {
            assert!(ParquetShards::new(vec![refused], &options(1)).is_err());
        }
        assert!(ParquetShards::new(Vec::new(), &options(1)).is_err());
    }
}
