//! [`kept_samples`]: which samples of some archives are used.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::index::{TarIndex, TarSample};
use super::options::{OnMissing, TarOptions};
use crate::Result;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::index::file::digest_of;
use crate::dataset::format::index::place::IndexPlace;
use crate::dataset::format::index::sample_index::{IndexColumn, SampleIndex};

/// For a field: the extensions that it may have, and, if it is read from a member, their numbers in the index.
pub(super) type FieldExtensions<'a> = (&'a [Vec<u8>], Option<&'a [u32]>);

/// Determines which samples have all `fields`, if that is required, and are not excluded; kept in an index of one
/// column. `options.excluded` identifies archives by their `urls`.
///
/// # Errors
/// The index of the archives can't be read.
pub(super) fn kept_samples(
    index: &TarIndex,
    (pool, urls): (&FilePool, &[PathBuf]),
    fields: &[FieldExtensions<'_>],
    options: &TarOptions,
    place: &IndexPlace,
) -> Result<SampleIndex> {
    let extensions: Vec<_> = fields.iter().map(|(extensions, _)| extensions).collect();
    let mut parameters = format!("{:?} {:?} {extensions:?}", options.end, options.damages);
    let numbers: HashMap<&PathBuf, usize> = urls.iter().enumerate().map(|(number, url)| (url, number)).collect();
    let mut excluded: HashMap<usize, HashSet<&[u8]>> = HashMap::new();
    for (archive, key) in &options.excluded {
        if let Some(&file) = numbers.get(archive) {
            excluded.entry(file).or_default().insert(key);
        }
    }
    let skips_incomplete = options.on_missing == OnMissing::Skip;
    if !options.excluded.is_empty() {
        let mut all: Vec<(usize, &[u8])> =
            excluded.iter().flat_map(|(&file, keys)| keys.iter().map(move |&key| (file, key))).collect();
        all.sort_unstable();
        let digest = digest_of(format!("{all:?}").as_bytes());
        parameters.push_str(&format!(" {skips_incomplete} without {digest:016x}"));
    }
    SampleIndex::open_or_build(pool.files(), ("tar samples 1", &parameters), place, || {
        let (mut kept, mut found) = (Vec::new(), TarSample::default());
        for sample in 0..index.len() {
            if !excluded.is_empty()
                && let Some(keys) = excluded.get(&index.file(sample)?)
                && keys.contains(&index.key(sample)?[..])
            {
                continue;
            }
            index.read_sample(sample, &mut found)?;
            let mut members = fields.iter().filter_map(|(_, numbers)| *numbers);
            if !skips_incomplete || members.all(|wanted| found.member(wanted).is_some()) {
                kept.push(sample as u64);
            }
        }
        Ok(vec![IndexColumn::U64(kept)])
    })
}
