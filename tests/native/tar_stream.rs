//! Archives that are read as streams: large members, arrays, and sparse files.

use std::fs;
use std::path::Path;

use sluicegate::IterableDataset;
use sluicegate::internal::TarWriter;
use sluicegate::{
    Advance, Damages, OnMissing, Result, SampleBlock, StopSignal, StreamDataset, StreamFormat, StreamPart,
    StreamPosition, StreamSource, TarEnd, TarField, TarValue,
};
use tempfile::TempDir;

/// Returns the bytes of an archive of `members`.
fn archive(folder: &TempDir, members: &[(&str, &[u8])]) -> Vec<u8> {
    let path = folder.path().join("members");
    let mut shard = TarWriter::create(&path).unwrap();
    members.iter().for_each(|(name, contents)| shard.append(name.as_bytes(), contents).unwrap());
    shard.finish().unwrap();
    fs::read(path).unwrap()
}

/// Reads all samples of an archive: the values of its fields, one after the other.
fn read(path: &Path, fields: &[(&str, TarValue)], damages: Damages) -> Result<Vec<Vec<Vec<u8>>>> {
    read_from(StreamSource::Path(path.into()), fields, damages)
}

fn read_from(source: StreamSource, fields: &[(&str, TarValue)], damages: Damages) -> Result<Vec<Vec<Vec<u8>>>> {
    let fields: Vec<_> = fields.iter().map(|&(name, value)| TarField::new(name, value)).collect();
    let format = StreamFormat::tar(Some(fields), Vec::new(), OnMissing::Refuse, TarEnd::ZeroBlock);
    let dataset = StreamDataset::new(vec![source], format).on_damage(damages);
    let mut stream = dataset.stream(StreamPart::WHOLE, StreamPosition::default(), &StopSignal::new()?)?;
    let fields = stream.fields().len();
    let mut block = SampleBlock::new(fields);
    while stream.advance(&mut block)? == Advance::Sample {}
    Ok((0..block.len()).map(|row| (0..fields).map(|field| block.value(field, row).to_vec()).collect()).collect())
}

/// Returns a `.npy` file of three bytes.
fn array(elements: [u8; 3]) -> Vec<u8> {
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n";
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &elements].concat()
}

#[test]
fn large_members_before_the_first_array_are_read_whole() {
    let folder = TempDir::new().unwrap();
    let large = |sample: u8| (0..300_000_u32).map(|place| (place % 251) as u8 ^ sample).collect::<Vec<u8>>();
    let contents: Vec<_> = (0..3).map(|sample| (large(sample), array([sample, 1, 2]))).collect();
    let names: Vec<_> = (0..3).map(|sample| [format!("{sample}.bin"), format!("{sample}.npy")]).collect();
    let members: Vec<(&str, &[u8])> = names
        .iter()
        .zip(&contents)
        .flat_map(|([bin, npy], (large, array))| [(&bin[..], &large[..]), (&npy[..], &array[..])])
        .collect();
    let path = folder.path().join("x.tar");
    fs::write(&path, archive(&folder, &members)).unwrap();
    // Less is read at a time from a pipe.
    let pipe = StreamSource::Command(format!("cat {}", path.display()));
    for source in [StreamSource::Path(path), pipe] {
        let fields = [("npy", TarValue::Npy), ("bin", TarValue::Bytes)];
        let samples = read_from(source, &fields, Damages::Refuse).unwrap();
        assert_eq!(samples.len(), 3);
        for (number, sample) in samples.iter().enumerate() {
            assert!(sample[0] == [number as u8, 1, 2] && sample[1] == contents[number].0, "{number}");
        }
    }
}

#[test]
fn a_truncated_member_that_is_not_needed_is_reported() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.tar");
    let whole = archive(&folder, &[("1.txt", b"one"), ("1.npy", &[7; 1024])]);
    fs::write(&path, &whole[..3 * 512 + 600]).unwrap();
    let error = read(&path, &[("txt", TarValue::Bytes)], Damages::Refuse).unwrap_err();
    assert!(error.to_string().contains("`1.npy`"), "{error}");
}

#[test]
fn sparse_files_are_refused_and_what_follows_is_read() {
    let folder = TempDir::new().unwrap();
    let mut bytes = archive(&folder, &[("1.txt", &[7; 512]), ("2.txt", b"two")]);
    // GNU's old format: the header says that blocks with the rest of the map follow, and the first that one more does.
    (bytes[156], bytes[482]) = (b'S', 1);
    let sum: u64 = 256 + bytes[..148].iter().chain(&bytes[156..512]).map(|&byte| u64::from(byte)).sum::<u64>();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut map = [0; 1024];
    map[504] = 1;
    bytes.splice(512..512, map);
    let path = folder.path().join("x.tar");
    fs::write(&path, bytes).unwrap();
    let error = read(&path, &[("txt", TarValue::Bytes)], Damages::Refuse).unwrap_err();
    assert!(error.to_string().contains("sparse"), "{error}");
    let left = read(&path, &[("txt", TarValue::Bytes)], Damages::LeaveOut).unwrap();
    assert_eq!(left, [[b"two".to_vec()]]);
}
