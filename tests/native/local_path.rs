//! A URL in place of a path is rejected as a URL, by everything that takes a path.

use std::path::{Path, PathBuf};

#[cfg(feature = "image")]
use sluicegate::internal::ImageCache;
use sluicegate::internal::{TarShards, TarWriter, TokenShardLayout, TokenShards, UnpackedFolder, Wait};
use sluicegate::{
    Csv, CsvHeader, DType, Documents, Error, Features, Field, Folder, FolderOptions, IterableDataset, JsonLines, Mds,
    Npy, Raw, RawField, Result, Safetensors, StopSignal, StreamDataset, StreamFormat, StreamPart, StreamPosition,
    StreamSource, Tar, TarField, TarOptions, TarValue, TfRecord, TokenFiles, TokenLayout,
};
use tempfile::TempDir;

use crate::own_process::alone;

const URLS: [&str; 6] =
    ["https://host/a.tar.gz", "s3://bucket/a.bin", "hf://datasets/a/b", "gs://bucket/a", "file:///a.npy", "file:/a"];

type Open = fn(&Path) -> Result<()>;

fn list(path: &Path) -> Vec<PathBuf> {
    vec![path.to_path_buf()]
}

fn token_shards(path: &Path) -> Result<()> {
    let mut shards = TokenShards::new(1000, TokenShardLayout::Flat, DType::UInt16, 1)?;
    shards.begin(path.to_path_buf());
    shards.append(&[0, 0])?;
    shards.end();
    shards.written(Wait::ForAll).map(drop)
}

fn tar_shards(path: &Path) -> Result<()> {
    let mut shards = TarShards::new(10_000, 1)?;
    shards.begin(path.to_path_buf());
    shards.append([(&b"a.txt"[..], &b"text"[..])])?;
    shards.end();
    shards.written(Wait::ForAll).map(drop)
}

fn stream(path: &Path) -> Result<()> {
    let lines = StreamDataset::new(vec![StreamSource::Path(path.into())], StreamFormat::json_lines(None));
    let mut stream = lines.stream(StreamPart::WHOLE, StreamPosition::default(), &StopSignal::new()?)?;
    stream.advance(&mut sluicegate::SampleBlock::new(stream.fields().len())).map(drop)
}

fn csv(path: &Path, index_folder: Option<PathBuf>) -> Result<()> {
    Csv::open(list(path), None, &[], CsvHeader::FirstRow, b',', index_folder).map(drop)
}

/// Everything that reads from or writes to a path, by name.
const OPEN: &[(&str, Open)] = &[
    ("csv", |path| csv(path, None)),
    ("folder", |path| Folder::open(path, &FolderOptions::default()).map(drop)),
    ("json_lines", |path| JsonLines::open(list(path), None, None).map(drop)),
    ("json_lines whole", |path| JsonLines::open_whole(list(path), None, None).map(drop)),
    ("mds", |path| Mds::open(path, None).map(drop)),
    ("npy", |path| Npy::open("a", path).map(drop)),
    ("npy all", |path| Npy::open_all("a", &list(path)).map(drop)),
    ("raw", |path| Raw::open(path, 0, 4, vec![RawField::new(Field::new("a", DType::Int32, []), 0)]).map(drop)),
    ("safetensors", |path| Safetensors::open(path, None).map(drop)),
    ("stream", stream),
    ("tar", |path| {
        Tar::open(list(path), vec![TarField::new("a.txt", TarValue::Bytes)], &TarOptions::default()).map(drop)
    }),
    ("tar writer", |path| TarWriter::create(path).map(drop)),
    ("tar shards", tar_shards),
    ("tfrecord", |path| TfRecord::open(list(path), Features::Raw, None).map(drop)),
    ("tokens", |path| TokenFiles::open([path], &TokenLayout::default(), Documents::Apart).map(drop)),
    ("token shards", token_shards),
    #[cfg(feature = "arrow")]
    ("arrow", |path| sluicegate::Arrow::open(list(path), &sluicegate::ColumnarOptions::default(), 0).map(drop)),
    #[cfg(feature = "parquet")]
    ("parquet", |path| sluicegate::Parquet::open(list(path), sluicegate::ParquetOptions::default()).map(drop)),
    #[cfg(feature = "image")]
    ("image cache", |path| ImageCache::in_folder(path, 1, 1000).map(drop)),
];

fn assert_refused(name: &str, url: &str, result: Result<()>) {
    let error = result.expect_err(name);
    assert!(matches!(error, Error::InvalidArgument { .. }), "{name}: {error:?}");
    let (text, scheme) = (error.to_string(), url.split(':').next().unwrap());
    assert!(text.contains(url) && text.contains(&format!("the scheme `{scheme}`")), "{name}: {text}");
    let remedies = ["download it first", "upload the files afterwards", "without `file:`"];
    assert!(remedies.iter().any(|remedy| text.contains(remedy)), "{name}: {text}");
}

#[test]
fn everything_refuses_urls_and_names_the_scheme() {
    for (name, open) in OPEN {
        for url in URLS {
            assert_refused(name, url, open(Path::new(url)));
        }
    }
}

#[test]
fn index_and_cache_folders_refuse_urls() {
    let folder = TempDir::new().unwrap();
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "{}\n").unwrap();
    for url in URLS {
        assert_refused("lines", url, JsonLines::open(list(&lines), None, Some(url.into())).map(drop));
        assert_refused("csv", url, csv(&lines, Some(url.into())));
        let options = TarOptions { index_folder: Some(url.into()), ..TarOptions::default() };
        assert_refused("tar", url, Tar::open(list(&lines), vec![], &options).map(drop));
        let unpacked = UnpackedFolder { path: Some(url.into()), ..UnpackedFolder::default() };
        let options = TarOptions { unpacked, ..TarOptions::default() };
        assert_refused("unpacked", url, Tar::open(list(&lines), vec![], &options).map(drop));
    }
    assert!(!Path::new("https:").exists() && !Path::new("s3:").exists());
}

#[test]
fn a_file_with_such_a_name_is_read() {
    // Only relative paths look like URLs, and the current folder belongs to the whole process.
    alone("local_path::a_file_with_such_a_name_is_read", "", || {
        let folder = TempDir::new().unwrap();
        std::env::set_current_dir(folder.path()).unwrap();
        std::fs::create_dir("s3:").unwrap();
        std::fs::write("s3:/a.bin", [1, 0, 2, 0]).unwrap();
        let files = TokenFiles::open(["s3://a.bin"], &TokenLayout::default(), Documents::Apart).unwrap();
        assert_eq!(files.tokens(), 2);
    });
}
