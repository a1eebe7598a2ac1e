//! [`broken_images`]: which samples of a dataset have images that can't be decoded.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::link::ImageLink;
use crate::dataset::Dataset;
use crate::dataset::encoded_batch::EncodedBatch;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::dataset::format::index::broken::Broken;
use crate::dataset::format::index::place::{IndexPlace, SMALL, user_cache};
use crate::dataset::format::index::sample_index::SampleIndex;
use crate::transform::{DecodeOptions, decode_image};
use crate::{Error, Result};

/// So many images are shared out first. From then on it is as many as are decoded in about a second: between two lots it can be
/// stopped.
const FIRST_LOT: usize = 64;
const LOT_TIME: Duration = Duration::from_secs(1);

/// Samples whose images are none, or none that can be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenImages {
    /// Their indices, in ascending order.
    pub indices: Vec<usize>,
    /// What is wrong with them, a line for each: the first 1,000.
    pub damages: Vec<String>,
}

/// A field that holds the bytes of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedField {
    /// Its number.
    pub field: usize,
    /// How its images are decoded.
    pub options: DecodeOptions,
    /// How many bytes stand before the image; where there are not so many, there is none.
    pub bytes_before: usize,
}

/// What the samples of a dataset are made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageSources {
    /// Its files.
    pub paths: Vec<PathBuf>,
    /// Whatever else says which sample is which.
    pub parameters: String,
    /// Where it is kept what was found; otherwise in the user's cache folder.
    pub index_folder: Option<PathBuf>,
    /// Fields without bytes whose images lie in files of their own.
    pub links: Vec<ImageLink>,
}

/// Which samples of `dataset` have in one of `fields` what is not an image that can be decoded.
///
/// Each image is decoded once, side by side. For files of 4 MiB and more what was found is kept (`$SLUICEGATE_CACHE`,
/// `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`) for as long as the files have the sizes and the times of their last
/// change that they had. `go_on` is called about once a second while images are decoded.
///
/// # Errors
/// Those of reading a sample; [`Error::Io`] for a file that is not there; that of `go_on`.
///
/// # Example
/// ```
/// use sluicegate::internal::{ImageSources, broken_images};
/// use sluicegate::{DecodeOptions, EncodedField, InMemory};
/// let files = InMemory::from_vec("image", b"P5 1 1 255 \x07no image....".to_vec(), [12])?;
/// let field = EncodedField { field: 0, options: DecodeOptions::default(), bytes_before: 0 };
/// let broken = broken_images(&files, &[field], &ImageSources::default(), || Ok(()))?;
/// assert_eq!(broken.indices, [1]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub fn broken_images(
    dataset: &dyn Dataset,
    fields: &[EncodedField],
    sources: &ImageSources,
    go_on: impl FnMut() -> Result<()>,
) -> Result<BrokenImages> {
    let files = SourceFiles::look(sources.paths.clone())?;
    let options: Vec<_> = fields.iter().map(|field| (field.field, parameters(&field.options))).collect();
    let kind = ("images of samples 1", &format!("{} {options:?} {}", dataset.len(), sources.parameters)[..]);
    let (size, folder) = ((dataset.len(), files.bytes()), sources.index_folder.clone());
    let broken = kept_or_found(
        size,
        || Ok(files),
        kind,
        folder,
        || undecoded(dataset.len(), |index| why_not(dataset, index, (fields, &sources.links)), go_on),
    )?;
    let indices = broken.runs().iter().cloned().flatten().collect();
    Ok(BrokenImages { indices, damages: broken.into_texts() })
}

/// Why an image of the sample at `index` can't be decoded, if one can't.
fn why_not(
    dataset: &dyn Dataset,
    index: usize,
    (fields, links): (&[EncodedField], &[ImageLink]),
) -> Result<Option<String>> {
    let encoded = EncodedBatch::read(dataset, &[index], Vec::new())?;
    let reason = fields.iter().find_map(|of| {
        let bytes = encoded.field(0, of.field);
        let link = links.iter().find(|link| link.bytes == of.field && bytes.is_empty());
        let reason = match link {
            // Without bytes and a path, it is a null that may be there.
            Some(link) if of.bytes_before > 0 && encoded.field(0, link.path).is_empty() => return None,
            Some(link) => {
                link.read(encoded.field(0, link.path)).and_then(|file| decode_image(&file, &of.options)).err()?
            }
            None => decode_image(bytes.get(of.bytes_before..)?, &of.options).err()?,
        };
        Some(match dataset.origin(index, of.field) {
            Some(origin) => format!("{origin}: {reason}"),
            None => format!("sample {index}: {reason}"),
        })
    });
    Ok(reason)
}

/// What was found before of that many samples, in files of this many bytes, or what `find` finds now.
pub(in crate::dataset::format) fn kept_or_found(
    (samples, bytes): (usize, u64),
    files: impl FnOnce() -> Result<SourceFiles>,
    kind: (&str, &str),
    index_folder: Option<PathBuf>,
    find: impl FnOnce() -> Result<Broken>,
) -> Result<Broken> {
    let place = IndexPlace::new(index_folder.or_else(user_cache))?;
    if place == IndexPlace::Beside || bytes < SMALL {
        return find();
    }
    let index = SampleIndex::open_or_build(&files()?, kind, &place, || find().map(|broken| broken.columns()))?;
    Broken::read(&index, samples)?.ok_or_else(|| {
        let reason = "the columns of the index do not fit together: remove it".into();
        Error::Changed { path: index.path().map(PathBuf::from).unwrap_or_default(), reason }
    })
}

/// Which of this many images can't be decoded; `why_not` says it of one, in words.
pub(in crate::dataset::format) fn undecoded(
    images: usize,
    why_not: impl Fn(usize) -> Result<Option<String>> + Sync,
    mut go_on: impl FnMut() -> Result<()>,
) -> Result<Broken> {
    let (mut broken, mut start, mut lot) = (Broken::default(), 0, FIRST_LOT);
    while start < images {
        go_on()?;
        let begun = Instant::now();
        let end = (start + lot).min(images);
        let places: Vec<usize> = (start..end).collect();
        broken.append(Broken::find(&places, |&place| {
            let mut found = Broken::default();
            if let Some(reason) = why_not(place)? {
                found.push_told(place, || reason);
            }
            Ok(found)
        })?);
        lot = if begun.elapsed() < LOT_TIME / 2 { lot * 2 } else { lot };
        lot = if begun.elapsed() > LOT_TIME { (lot / 2).max(1) } else { lot };
        start = end;
    }
    Ok(broken)
}

/// What besides the files says which images can be decoded; a later release may decode more.
pub(in crate::dataset::format) fn parameters(options: &DecodeOptions) -> String {
    format!("{} {options:?}", env!("CARGO_PKG_VERSION"))
}
