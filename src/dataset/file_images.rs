//! [`FileImages`]: images in files, decoded as Pillow and torchvision do.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::file_mode::FileMode;
use super::room_filling::fill_rooms;
use super::sample_generator::{Origin, generator_of};
use super::{Dataset, Drawing, InMemory, ReadMany};
use crate::transform::{Beginning, DecodeOptions, Image, ImagePipeline, ImageTransform, PlainFile};
use crate::{BatchWriter, Error, Field, Result, SampleWriter, Schema, TorchGenerator};

/// Reads the image files that this crate does not read at all, or does not read bit-identically to Pillow.
pub trait OtherImages: Send + Sync {
    /// Returns the height and the width of the image in the file at `path`, as [`decode`](Self::decode) would.
    ///
    /// # Errors
    /// The reason why they can't be read.
    fn size(&self, path: &Path) -> std::result::Result<[usize; 2], String>;

    /// Returns the image in the file at `path`, with the channels of the [`FileMode`].
    ///
    /// # Errors
    /// The reason why it can't be read.
    fn decode(&self, path: &Path) -> std::result::Result<Image, String>;
}

/// Images in files, transformed into their rows of the batch as they are read, and other fields, unchanged.
///
/// Values are bit-identical to those of Pillow's decoding and resizing: images that this crate is not known to read
/// that way are left to [`OtherImages`], one by one. Random transforms draw as in [`PixelImages`](super::PixelImages);
/// the draws depend on the size of an image, which is read from its header.
///
/// # Example
/// ```
/// # use std::path::Path;
/// # use std::sync::Arc;
/// use sluicegate::internal::{FileImages, FileMode, OtherImages};
/// use sluicegate::{DType, Dataset, Image, ImageTransform, InMemory};
/// /// Makes a gray image of a file that holds no image.
/// struct Gray;
/// impl OtherImages for Gray {
///     fn size(&self, _: &Path) -> Result<[usize; 2], String> { Ok([1, 2]) }
///     fn decode(&self, _: &Path) -> Result<Image, String> { Ok(Image::new(2, 1, 3, DType::UInt8, vec![7; 6])) }
/// }
/// let labels = InMemory::from_vec("label", vec![3_i64], []).unwrap();
/// let transforms = vec![ImageTransform::CenterCrop { size: [1, 1] }];
/// let (path, mode) = (b"no/such/file", FileMode::Converted);
/// let images = FileImages::new("image", path, mode, transforms, Some(labels), Arc::new(Gray)).unwrap();
/// assert_eq!(images.schema().to_string(), "(image: uint8[3, 1, 1], label: int64[])");
/// ```
pub struct FileImages {
    /// The paths, concatenated, and the end offset of each.
    paths: Vec<u8>,
    ends: Vec<usize>,
    /// The folder that relative paths start from; None for the current directory of the process.
    folder: Option<PathBuf>,
    pipeline: ImagePipeline,
    others: Arc<dyn OtherImages>,
    mode: FileMode,
    other_fields: Option<InMemory>,
    /// Per sample, the height and the width once they are known, packed into one number; 0 until then.
    sizes: Vec<AtomicU64>,
    schema: Schema,
    is_random: bool,
    draws_from_python: bool,
}

thread_local! {
    /// Buffer for the bytes of a file.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are freed instead of reused.
const LARGEST_ROOM: usize = 16 << 20;

/// Bytes that are read first from a file when only its headers are needed.
const BEGINNING: u64 = 16 << 10;

impl FileImages {
    /// The images in the files at `paths`, which are separated by zeros and hold images of `mode`, transformed by
    /// `transforms`, in a field called `name`, followed by the fields of `other_fields`, if any.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the images do not all get the same shape and data type; [`Error::LengthMismatch`]
    /// if the number of paths differs from the number of samples of `other_fields`.
    pub fn new(
        name: &str,
        paths: &[u8],
        mode: FileMode,
        transforms: Vec<ImageTransform>,
        other_fields: Option<InMemory>,
        others: Arc<dyn OtherImages>,
    ) -> Result<Self> {
        let mut joined = Vec::with_capacity(paths.len());
        let mut ends = Vec::with_capacity(other_fields.as_ref().map_or(1, Dataset::len));
        for path in paths.split(|&byte| byte == 0) {
            joined.extend_from_slice(path);
            ends.push(joined.len());
        }
        if let Some(other_fields) = other_fields.as_ref().filter(|other_fields| other_fields.len() != ends.len()) {
            return Err(Error::LengthMismatch {
                first: name.to_owned(),
                first_len: ends.len(),
                other: "other_fields".into(),
                other_len: other_fields.len(),
            });
        }
        let decode = DecodeOptions { mode: mode.decoded(), ..DecodeOptions::default() };
        let pipeline = ImagePipeline::new(transforms).with_decode(decode).as_pillow();
        let form = pipeline.form().ok_or_else(|| Error::InvalidArgument {
            argument: "transforms",
            reason: "the resulting images differ in shape; end with a transform that gives all of them one size".into(),
        })?;
        let image = Field::new(name, form.dtype, form.shape);
        let fields = other_fields.iter().flat_map(|other_fields| other_fields.schema().fields()).cloned();
        let schema = Schema::new([image].into_iter().chain(fields).collect::<Vec<_>>());
        let sizes = (0..ends.len()).map(|_| AtomicU64::new(0)).collect();
        let (is_random, draws_from_python) = (pipeline.is_random(), pipeline.draws_from_python());
        Ok(Self {
            paths: joined,
            ends,
            folder: None,
            pipeline,
            others,
            mode,
            other_fields,
            sizes,
            schema,
            is_random,
            draws_from_python,
        })
    }

    /// Resolves relative paths from `folder`, so that they stay valid if the process changes its current directory;
    /// `None`, the default, for that directory.
    #[must_use]
    pub fn relative_to(self, folder: Option<PathBuf>) -> Self {
        Self { folder, ..self }
    }

    fn path(&self, index: usize) -> Result<&Path> {
        let end = *self.ends.get(index).ok_or(Error::IndexOutOfRange { index, len: self.ends.len() })?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Ok(Path::new(OsStr::from_bytes(&self.paths[start..end])))
    }

    /// Returns the path to open.
    fn resolved(&self, index: usize) -> Result<Cow<'_, Path>> {
        let path = self.path(index)?;
        Ok(self.folder.as_ref().map_or(Cow::Borrowed(path), |folder| Cow::Owned(folder.join(path))))
    }

    fn refuse(&self, index: usize, reason: String) -> Error {
        Error::Image { index, field: self.schema.fields()[0].name().to_owned(), reason }
    }

    /// Returns the height and the width of an image; its header is read once, unless decoding contradicts it.
    fn size(&self, index: usize, path: &Path) -> std::result::Result<[usize; 2], String> {
        let known = self.sizes[index].load(Ordering::Relaxed);
        if known > 0 {
            return Ok([known >> u32::BITS, known & u64::from(u32::MAX)].map(|length| length as usize));
        }
        let size = match self.mode.plain(beginning(path).map_err(|error| error.to_string())?) {
            Beginning::Plain(file) => file.size(),
            Beginning::TooShort | Beginning::Other => self.others.size(path)?,
        };
        self.sizes[index].store((size[0] as u64) << u32::BITS | size[1] as u64, Ordering::Relaxed);
        Ok(size)
    }

    /// Fails if the size of the image differs from the one that its draws were made for, and forgets the old size.
    fn check_size(&self, index: usize, found: [usize; 2], is_drawn: bool) -> std::result::Result<(), String> {
        if !is_drawn {
            return Ok(());
        }
        let size = (found[0] as u64) << u32::BITS | found[1] as u64;
        if self.sizes[index].load(Ordering::Relaxed) == size {
            return Ok(());
        }
        self.sizes[index].store(0, Ordering::Relaxed);
        Err("it was replaced by a file of a different size while it was being read".into())
    }

    /// Writes image `index`, which draws from a position, or from the generator for a key.
    fn image(&self, index: usize, origin: Origin<'_>, into: &mut [u8]) -> Result<()> {
        let path = &*self.resolved(index)?;
        let generator = match self.is_random {
            true => Some(generator_of(origin, self.draws_from_python)?),
            false => None,
        };
        let is_drawn = self.is_random && origin.0.is_some();
        let mut encoded = ROOM.take();
        let done = read(path, &mut encoded).is_ok_and(|()| match self.mode.plain(PlainFile::of(&encoded)) {
            Beginning::Plain(file) => {
                let checked = self.check_size(index, file.size(), is_drawn);
                let run = |()| self.pipeline.run_plain(&encoded, &file, generator.clone().as_mut());
                checked.and_then(run).and_then(|image| image.write(into)).is_ok()
            }
            Beginning::TooShort | Beginning::Other => false,
        });
        if encoded.capacity() <= LARGEST_ROOM {
            ROOM.set(encoded);
        }
        if done {
            return Ok(());
        }
        let decoded = self.others.decode(path).and_then(|image| {
            self.check_size(index, [image.height(), image.width()], is_drawn)?;
            self.pipeline.run_image(image, generator.clone().as_mut())?.write(into)
        });
        decoded.map_err(|reason| self.refuse(index, reason))
    }
}

/// Reads the contents of a file into `room`.
fn read(path: &Path, room: &mut Vec<u8>) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    room.clear();
    room.reserve(file.metadata().map_or(0, |about| about.len().min(LARGEST_ROOM as u64) as usize + 1));
    file.read_to_end(room).map(drop)
}

/// Parses the headers of a file, reading no more of it than they need.
fn beginning(path: &Path) -> std::io::Result<Beginning> {
    let mut file = File::open(path)?;
    let (mut bytes, mut wanted) = (Vec::with_capacity(BEGINNING as usize), BEGINNING);
    loop {
        let found = file.by_ref().take(wanted).read_to_end(&mut bytes)?;
        match PlainFile::of(&bytes) {
            Beginning::TooShort if found > 0 => wanted = bytes.len() as u64,
            known => return Ok(known),
        }
    }
}

impl Dataset for FileImages {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.read_many(&[index], &mut into.as_batch())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn is_random(&self) -> bool {
        self.is_random
    }

    fn as_drawing(&self) -> Option<&dyn Drawing> {
        self.is_random.then_some(self as &dyn Drawing)
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        let path = self.path(index).ok()?;
        (field == 0).then(|| path.display().to_string())
    }
}

impl ReadMany for FileImages {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let places: Vec<_> = (0..indices.len()).map(|row| (into.place(row).cloned(), into.key(row))).collect();
        let fill = |(row, mut rooms): (usize, Vec<&mut [u8]>)| {
            let (place, key) = &places[row];
            rooms.iter_mut().try_for_each(|room| self.image(indices[row], (place.as_ref(), *key), room))
        };
        fill_rooms(into.rooms(&[0]), fill)?;
        let fields = self.schema.fields().len();
        let other_fields = self.other_fields.as_ref();
        other_fields.map_or(Ok(()), |other_fields| other_fields.read_many(indices, &mut into.fields_mut(1..fields)))
    }
}

impl Drawing for FileImages {
    fn draws_from_python(&self) -> bool {
        self.draws_from_python
    }

    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()> {
        let path = self.resolved(index)?;
        let advanced = self.size(index, &path).and_then(|size| self.pipeline.advance(size, generator));
        advanced.map_err(|reason| self.refuse(index, reason))
    }
}
