//! [`broken_images`]: finds the samples of a dataset with images that can't be decoded.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::link::ImageLink;
use crate::Result;
use crate::dataset::Dataset;
use crate::dataset::encoded_batch::EncodedBatch;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::dataset::format::index::broken::Broken;
use crate::dataset::format::index::place::{IndexPlace, SMALL, user_cache};
use crate::dataset::format::index::sample_index::SampleIndex;
use crate::transform::{DecodeOptions, Image};

/// The first number of images per lot. It is then adapted so that a lot takes about a second, because the search can be
/// stopped only between two lots.
const FIRST_LOT: usize = 64;
const LOT_TIME: Duration = Duration::from_secs(1);

/// Samples whose images are invalid or can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenImages {
    /// Their indices, in ascending order.
    pub indices: Vec<usize>,
    /// What is wrong with them, one line each, at most the first 1,000.
    pub damages: Vec<String>,
}

/// A field that holds the bytes of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedField {
    /// Its number.
    pub field: usize,
    /// How its images are decoded.
    pub options: DecodeOptions,
    /// The number of bytes before the image; a shorter value has no image.
    pub bytes_before: usize,
}

/// What determines the samples of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageSources {
    /// Its files.
    pub paths: Vec<PathBuf>,
    /// Everything else that the samples depend on.
    pub parameters: String,
    /// Where the result is kept; `None` for the user's cache folder.
    pub index_folder: Option<PathBuf>,
    /// Fields that may lack bytes, with images in separate files instead.
    pub links: Vec<ImageLink>,
}

/// Finds the samples of `dataset` with values in one of `fields` that can't be decoded as images.
///
/// Each image is decoded once, in parallel. For files of 4 MiB and more, the result is kept (`$SLUICEGATE_CACHE`,
/// `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`) and used until the size or a timestamp of a file changes.
/// `check_interrupt` is called about once a second while images are decoded.
///
/// # Errors
/// Those of reading a sample; [`Error::Io`](crate::Error::Io) for a missing file; the error of `check_interrupt`.
///
/// # Example
/// ```
/// use sluicegate::internal::{EncodedField, ImageSources, broken_images};
/// use sluicegate::{DecodeOptions, InMemory};
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
    check_interrupt: impl FnMut() -> Result<()>,
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
        || undecoded(dataset.len(), |index| decode_error(dataset, index, (fields, &sources.links)), check_interrupt),
    )?;
    let indices = broken.runs().iter().cloned().flatten().collect();
    Ok(BrokenImages { indices, damages: broken.into_texts() })
}

/// Returns why an image of the sample at `index` can't be decoded, if there is one that can't.
fn decode_error(
    dataset: &dyn Dataset,
    index: usize,
    (fields, links): (&[EncodedField], &[ImageLink]),
) -> Result<Option<String>> {
    let encoded = EncodedBatch::read(dataset, &[index], Vec::new())?;
    let reason = fields.iter().find_map(|of| {
        let bytes = encoded.field(0, of.field);
        let link = links.iter().find(|link| link.bytes == of.field && bytes.is_empty());
        let reason = match link {
            // With neither bytes nor a path, it is null, which is allowed.
            Some(link) if of.bytes_before > 0 && encoded.field(0, link.path).is_empty() => return None,
            Some(link) => {
                link.read(encoded.field(0, link.path)).and_then(|file| Image::decode(&file, &of.options)).err()?
            }
            None => Image::decode(bytes.get(of.bytes_before..)?, &of.options).err()?,
        };
        Some(match dataset.origin(index, of.field) {
            Some(origin) => format!("{origin}: {reason}"),
            None => format!("sample {index}: {reason}"),
        })
    });
    Ok(reason)
}

/// Returns the stored result for this many samples, in files of this many bytes, or that of `find`.
pub(crate) fn kept_or_found(
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
    Broken::read(&index, samples)?.ok_or_else(|| index.mismatch())
}

/// Returns which of this many images can't be decoded; `decode_error` returns the reason for one image.
pub(crate) fn undecoded(
    images: usize,
    decode_error: impl Fn(usize) -> Result<Option<String>> + Sync,
    mut check_interrupt: impl FnMut() -> Result<()>,
) -> Result<Broken> {
    let (mut broken, mut start, mut lot) = (Broken::default(), 0, FIRST_LOT);
    while start < images {
        check_interrupt()?;
        let begun = Instant::now();
        let end = (start + lot).min(images);
        let places: Vec<usize> = (start..end).collect();
        broken.append(Broken::find(&places, |&place| {
            let mut found = Broken::default();
            if let Some(reason) = decode_error(place)? {
                found.push_text(place, || reason);
            }
            Ok(found)
        })?);
        lot = if begun.elapsed() < LOT_TIME / 2 { lot * 2 } else { lot };
        lot = if begun.elapsed() > LOT_TIME { (lot / 2).max(1) } else { lot };
        start = end;
    }
    Ok(broken)
}

/// Everything except the files that decides which images can be decoded; a later release may decode more.
pub(crate) fn parameters(options: &DecodeOptions) -> String {
    format!("{} {options:?}", env!("CARGO_PKG_VERSION"))
}
