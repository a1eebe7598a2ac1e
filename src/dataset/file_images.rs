//! [`FileImages`]: images in files, as Pillow and torchvision have them.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::room_filling::fill_rooms;
use super::sample_generator::generator_of;
use super::{Dataset, Drawing, InMemory, ReadMany};
use crate::rng::GeneratorPlace;
use crate::transform::{Beginning, Image, ImagePipeline, ImageTransform, PlainFile};
use crate::{BatchWriter, Error, Field, Result, SampleWriter, Schema, TorchGenerator};

/// What reads the image files that this crate does not read to the same bits as Pillow does, or does not read at all.
pub trait OtherImages: Send + Sync {
    /// The height and the width of the image in the file at `path`, which [`decode`](Self::decode) then has.
    ///
    /// # Errors
    /// In words, why there are none.
    fn size(&self, path: &Path) -> std::result::Result<[usize; 2], String>;

    /// The image in the file at `path`, in color.
    ///
    /// # Errors
    /// In words, why there is none.
    fn decode(&self, path: &Path) -> std::result::Result<Image, String>;
}

/// Images in files, in color, transformed on the way into their rows of the batch; and other fields beside them, which stay as
/// they are.
///
/// Values are to the last bit those that Pillow decodes and resizes: what this crate is not known to read so is left to
/// [`OtherImages`], image by image. What is random is drawn as for [`PixelImages`](super::PixelImages); the draws depend on the
/// size of an image, which is read from its header.
///
/// # Example
/// ```
/// # use std::path::Path;
/// # use std::sync::Arc;
/// use sluicegate::internal::{FileImages, OtherImages};
/// use sluicegate::{DType, Dataset, Image, ImageTransform, InMemory};
/// /// Makes a gray image of a file that holds no image.
/// struct Gray;
/// impl OtherImages for Gray {
///     fn size(&self, _: &Path) -> Result<[usize; 2], String> { Ok([1, 2]) }
///     fn decode(&self, _: &Path) -> Result<Image, String> { Ok(Image::new(2, 1, 3, DType::UInt8, vec![7; 6])) }
/// }
/// let labels = InMemory::from_vec("label", vec![3_i64], []).unwrap();
/// let transforms = vec![ImageTransform::CenterCrop { size: [1, 1] }];
/// let images = FileImages::new("image", b"no/such/file", transforms, labels, Arc::new(Gray)).unwrap();
/// assert_eq!(images.schema().to_string(), "(image: uint8[3, 1, 1], label: int64[])");
/// ```
pub struct FileImages {
    /// The paths, one after the other, and where each one ends.
    paths: Vec<u8>,
    ends: Vec<usize>,
    pipeline: ImagePipeline,
    others: Arc<dyn OtherImages>,
    /// True if gray images are made images in color here.
    converts: bool,
    beside: InMemory,
    /// By sample, the height and the width as they were found; 0 before.
    sizes: Vec<AtomicU64>,
    schema: Schema,
    is_random: bool,
}

thread_local! {
    /// Room for a file.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// More than that goes back to the system.
const LARGEST_ROOM: usize = 16 << 20;

/// The bytes of a file that are read first where only its headers are needed.
const BEGINNING: u64 = 16 << 10;

impl FileImages {
    /// The images in the files at `paths`, which are separated by zeros, as `transforms` make them, in a field called `name`;
    /// and those of `beside` after it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when not all images get one form; [`Error::LengthMismatch`] when there are more or fewer of
    /// them than other samples.
    pub fn new(
        name: &str,
        paths: &[u8],
        transforms: Vec<ImageTransform>,
        beside: InMemory,
        others: Arc<dyn OtherImages>,
    ) -> Result<Self> {
        let mut joined = Vec::with_capacity(paths.len());
        let mut ends = Vec::with_capacity(beside.len());
        for path in paths.split(|&byte| byte == 0) {
            joined.extend_from_slice(path);
            ends.push(joined.len());
        }
        if ends.len() != beside.len() {
            return Err(Error::LengthMismatch {
                first: name.to_owned(),
                first_len: ends.len(),
                other: "beside".into(),
                other_len: beside.len(),
            });
        }
        let pipeline = ImagePipeline::new(transforms).as_pillow();
        let form = pipeline.form().ok_or_else(|| Error::InvalidArgument {
            argument: "transforms",
            reason: "images become images of several forms: end with a transform that gives them one size".into(),
        })?;
        let image = Field::new(name, form.dtype, form.shape);
        let schema =
            Schema::new([image].into_iter().chain(beside.schema().fields().iter().cloned()).collect::<Vec<_>>());
        let sizes = (0..ends.len()).map(|_| AtomicU64::new(0)).collect();
        let is_random = pipeline.is_random();
        Ok(Self { paths: joined, ends, pipeline, others, converts: true, beside, sizes, schema, is_random })
    }

    /// Leaves gray images to [`OtherImages`], too: for those who want them as they are.
    #[must_use]
    pub fn in_color_alone(mut self) -> Self {
        self.converts = false;
        self
    }

    /// What the beginning of a file says, where the image is one that this dataset reads itself.
    fn plain(&self, beginning: Beginning) -> Beginning {
        match beginning {
            Beginning::Plain(file) if !file.is_in_color() && !self.converts => Beginning::Other,
            other => other,
        }
    }

    fn path(&self, index: usize) -> Result<&Path> {
        let end = *self.ends.get(index).ok_or(Error::IndexOutOfRange { index, len: self.ends.len() })?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Ok(Path::new(OsStr::from_bytes(&self.paths[start..end])))
    }

    fn refuse(&self, index: usize, reason: String) -> Error {
        Error::Image { index, field: self.schema.fields()[0].name().to_owned(), reason }
    }

    /// The height and the width of an image. What a file said once holds until it is decoded.
    fn size(&self, index: usize, path: &Path) -> std::result::Result<[usize; 2], String> {
        let known = self.sizes[index].load(Ordering::Relaxed);
        if known > 0 {
            return Ok([known >> u32::BITS, known & u64::from(u32::MAX)].map(|length| length as usize));
        }
        let size = match self.plain(beginning(path).map_err(|error| error.to_string())?) {
            Beginning::Plain(file) => file.size(),
            Beginning::TooShort | Beginning::Other => self.others.size(path)?,
        };
        self.sizes[index].store((size[0] as u64) << u32::BITS | size[1] as u64, Ordering::Relaxed);
        Ok(size)
    }

    /// Fails where the image does not have the size that its draws were made for, and forgets that one.
    fn check_size(&self, index: usize, found: [usize; 2], is_drawn: bool) -> std::result::Result<(), String> {
        if !is_drawn {
            return Ok(());
        }
        let size = (found[0] as u64) << u32::BITS | found[1] as u64;
        if self.sizes[index].load(Ordering::Relaxed) == size {
            return Ok(());
        }
        self.sizes[index].store(0, Ordering::Relaxed);
        Err("the file was replaced by one of another size while it was read".into())
    }

    /// Writes image `index`, which draws from `place`, or has `key`.
    fn image(&self, index: usize, (place, key): (Option<&GeneratorPlace>, Option<u64>), into: &mut [u8]) -> Result<()> {
        let path = self.path(index)?;
        let generator = match self.is_random {
            true => Some(generator_of(place, key)?),
            false => None,
        };
        let is_drawn = self.is_random && place.is_some();
        let mut encoded = ROOM.take();
        let done = read(path, &mut encoded).is_ok_and(|()| match self.plain(PlainFile::of(&encoded)) {
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

/// Puts the bytes of a file into `room`.
fn read(path: &Path, room: &mut Vec<u8>) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    room.clear();
    room.reserve(file.metadata().map_or(0, |about| about.len().min(LARGEST_ROOM as u64) as usize + 1));
    file.read_to_end(room).map(drop)
}

/// What the headers of a file say, of which no more is read than they need.
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
        self.beside.read_many(indices, &mut into.fields_mut(1..fields))
    }
}

impl Drawing for FileImages {
    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()> {
        let path = self.path(index)?;
        let advanced = self.size(index, path).and_then(|size| self.pipeline.advance(size, generator));
        advanced.map_err(|reason| self.refuse(index, reason))
    }
}
