//! [`DecodedImages`]: a dataset whose images are decoded and transformed as they are read.

use std::cell::RefCell;
use std::sync::Arc;

use super::encoded_batch::EncodedBatch;
use super::format::ImageLink;
use super::room_filling::fill_rooms;
use super::{Blocks, Dataset, ReadMany, VariableSize, sizes_of};
use crate::transform::{BoxFormat, ImagePipeline, Moves};
use crate::{BatchWriter, DType, Error, Field, Result, SampleWriter, Schema, SizesWriter, TorchGenerator};

/// How a field of [`DecodedImages`] is made.
#[derive(Debug, Clone)]
pub enum DecodedField {
    /// This field of the dataset, unchanged.
    Kept(usize),
    /// An image, decoded from the encoded bytes in this field of the dataset.
    Image(usize, ImagePipeline),
    /// Boxes, from this field of the dataset, four numbers each; they move with the image at this field number.
    Boxes(usize, BoxFormat, usize),
    /// A mask, decoded from the encoded bytes in this field of the dataset; it moves with the image at this position
    /// among the fields. Its pipeline has no transforms.
    Mask(usize, ImagePipeline, usize),
}

impl DecodedField {
    /// The field of the dataset that it is made from.
    fn from(&self) -> usize {
        match self {
            Self::Kept(from) | Self::Image(from, _) | Self::Boxes(from, ..) | Self::Mask(from, ..) => *from,
        }
    }
}

/// The samples of `dataset`, with decoded images instead of encoded bytes: every image is decoded and transformed into
/// its row of the batch; all images of a field have the same shape and data type.
///
/// Each image is a separate task: idle threads of a pool help with a batch. Random transforms draw from the key of the
/// sample ([`SampleWriter::key`]), with torch's generator.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{Dataset, DecodedField, DecodedImages, DType, Field, ImagePipeline, ImageTransform, InMemory};
/// let files = b"P5 1 1 255 \x07P5 1 1 255 \x09".to_vec();
/// let files = Arc::new(InMemory::from_vec("image", files, [12]).unwrap());
/// let middle = ImagePipeline::new(vec![ImageTransform::CenterCrop { size: [1, 1] }]);
/// let images = DecodedImages::new(files, [DecodedField::Image(0, middle)]).unwrap();
/// assert_eq!(images.schema().fields(), [Field::new("image", DType::UInt8, [3, 1, 1])]);
/// ```
pub struct DecodedImages {
    dataset: Arc<dyn Dataset>,
    fields: Vec<DecodedField>,
    schema: Schema,
    /// Numbers of the fixed-size fields.
    fixed: Vec<usize>,
    /// Numbers of the variable-size fields.
    variable: Vec<usize>,
    is_random: bool,
    links: Vec<ImageLink>,
    /// Pairs of fields, by number: boxes, and a field that must have a row for each box.
    rows: Vec<(usize, usize)>,
}

thread_local! {
    /// Buffer for samples that are read before they are decoded.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are freed instead of reused.
const LARGEST_ROOM: usize = 16 << 20;

impl DecodedImages {
    /// The samples of `dataset` with these fields.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a field that the dataset does not have, that does not hold bytes, or whose
    /// pipeline gives images of more than one shape or data type.
    pub fn new(dataset: Arc<dyn Dataset>, fields: impl Into<Vec<DecodedField>>) -> Result<Self> {
        let fields = fields.into();
        let refuse = |reason| Error::invalid("fields", reason);
        let mut found = Vec::with_capacity(fields.len());
        for field in &fields {
            let number = field.from();
            let of = dataset.schema().fields().get(number);
            let of = of.ok_or_else(|| refuse(format!("{} has no field {number}", dataset.schema())))?;
            found.push(decoded_field(field, of, &fields).map_err(refuse)?);
        }
        let (variable, fixed) = (0..found.len()).partition(|&number: &usize| found[number].is_variable());
        let draws = |field: &DecodedField| matches!(field, DecodedField::Image(_, pipeline) if pipeline.is_random());
        let is_random = fields.iter().any(draws);
        Ok(Self {
            dataset,
            fields,
            schema: Schema::new(found),
            fixed,
            variable,
            is_random,
            links: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// The same, reading images without bytes from the files at their paths.
    #[doc(hidden)]
    #[must_use]
    pub fn with_links(self, links: Vec<ImageLink>) -> Self {
        Self { links, ..self }
    }

    /// The same, with an error for a sample where the number of boxes, in the first field of a pair, differs from the
    /// number of rows of the second, such as their labels.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a field that does not exist or has a single value per sample.
    pub fn with_rows(self, rows: impl Into<Vec<(usize, usize)>>) -> Result<Self> {
        let rows = rows.into();
        for &place in rows.iter().flat_map(|(boxes, of_boxes)| [boxes, of_boxes]) {
            let field = self.schema.fields().get(place);
            if field.is_none_or(|field| !field.is_variable() && field.shape().is_empty()) {
                let reason = format!("expected fields with rows, got field {place} of {}", self.schema);
                return Err(Error::invalid("rows", reason));
            }
        }
        Ok(Self { rows, ..self })
    }

    /// Returns the bytes of the linked file if field `from` of the dataset has a link and is empty in this row.
    fn linked(
        &self,
        (encoded, row): (Option<&EncodedBatch>, usize),
        from: usize,
    ) -> std::result::Result<Option<Vec<u8>>, String> {
        let link = self.links.iter().find(|link| link.bytes == from);
        match (link, encoded) {
            (Some(link), Some(encoded)) if encoded.field(row, from).is_empty() => {
                link.read(encoded.field(row, link.path)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Fills the buffers of the fixed-size fields of the sample at `index`, which is row `row` of `encoded`. Returns
    /// the new contents of the variable-size fields, in order; `None` for those that stay unchanged.
    fn fill(
        &self,
        (encoded, row): (Option<&EncodedBatch>, usize),
        (index, key): (usize, Option<u64>),
        rooms: &mut [&mut [u8]],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut generator = match (self.is_random, key) {
            (false, _) => None,
            (true, Some(key)) => Some(TorchGenerator::of_key(key)),
            (true, None) => {
                return Err(Error::invalid("seed", "the transforms are random, so the loader needs a seed"));
            }
        };
        let value = |number: usize| encoded.map_or(&[][..], |encoded| encoded.field(row, self.fields[number].from()));
        let refuse = |number: usize, reason: String| {
            let origin = self.dataset.origin(index, self.fields[number].from());
            let reason = origin.map_or_else(|| reason.clone(), |origin| format!("{origin}: {reason}"));
            Error::Image { index, field: self.schema.fields()[number].name().to_owned(), reason }
        };
        for &(boxes, of_boxes) in &self.rows {
            let field = |number: usize| &self.schema.fields()[number];
            let [count, rows] = [boxes, of_boxes].map(|number| rows_in(field(number), value(number)));
            if rows != count {
                let reason = format!(
                    "expected a row for each box, but there are {count} boxes in `{}` and {rows} rows in `{}`; drop the same \
                     rows of both",
                    field(boxes).name(),
                    field(of_boxes).name()
                );
                return Err(refuse(of_boxes, reason));
            }
        }
        let mut moves: Vec<(usize, Moves)> = Vec::new();
        for (&number, room) in self.fixed.iter().zip(&mut *rooms) {
            match &self.fields[number] {
                DecodedField::Kept(_) => room.copy_from_slice(value(number)),
                DecodedField::Image(from, pipeline) => {
                    // A cached image does not need its file.
                    let linked = if pipeline.has(index) { Ok(None) } else { self.linked((encoded, row), *from) };
                    let linked = linked.map_err(|reason| refuse(number, reason))?;
                    let bytes = || linked.as_deref().unwrap_or_else(|| value(number));
                    let image = pipeline.run_number(index, bytes, generator.as_mut());
                    let image = image.map_err(|reason| refuse(number, reason))?;
                    moves.push((number, image.moves().clone()));
                    image.write(room).map_err(|reason| refuse(number, reason))?;
                }
                // Done in the second pass, when the moves of their images are known.
                DecodedField::Boxes(..) | DecodedField::Mask(..) => {}
            }
        }
        let moves_of = |image: &usize| moves.iter().find(|(number, _)| number == image).map(|(_, moves)| moves);
        for (&number, room) in self.fixed.iter().zip(rooms) {
            let moved = match &self.fields[number] {
                DecodedField::Mask(from, pipeline, image) => moves_of(image).map_or(Ok(()), |moves| {
                    let linked = self.linked((encoded, row), *from)?;
                    let bytes = linked.as_deref().unwrap_or_else(|| value(number));
                    pipeline.run_mask(bytes, moves).and_then(|mask| mask.write(room))
                }),
                DecodedField::Boxes(_, format, image) => moves_of(image).map_or(Ok(()), |moves| {
                    let dtype = self.schema.fields()[number].dtype();
                    moves.boxes(value(number), dtype, *format).map(|boxes| room.copy_from_slice(&boxes))
                }),
                DecodedField::Kept(_) | DecodedField::Image(..) => Ok(()),
            };
            moved.map_err(|reason| refuse(number, reason))?;
        }
        let variable = self.variable.iter().map(|&number| match &self.fields[number] {
            DecodedField::Boxes(_, format, image) => moves_of(image)
                .map(|moves| moves.boxes(value(number), self.schema.fields()[number].dtype(), *format))
                .transpose()
                .map_err(|reason| refuse(number, reason)),
            _ => Ok(None),
        });
        variable.collect()
    }

    /// Reads one sample by itself; returns the contents of its variable-size fields.
    fn read_alone(&self, index: usize, key: Option<u64>, rooms: &mut [&mut [u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        if self.has(index) {
            return self.fill((None, 0), (index, key), rooms);
        }
        let encoded = EncodedBatch::read(&*self.dataset, &[index], ROOM.take())?;
        let filled = self.fill((Some(&encoded), 0), (index, key), rooms);
        let filled = filled.map(|moved| {
            let kept = |(moved, &number): (Option<Vec<u8>>, &usize)| {
                moved.or_else(|| Some(encoded.field(0, self.fields[number].from()).to_vec()))
            };
            moved.into_iter().zip(&self.variable).map(kept).collect()
        });
        give_room(encoded);
        filled
    }

    /// True if the sample at `index` comes entirely from caches, so that nothing has to be read.
    fn has(&self, index: usize) -> bool {
        index < self.len()
            && self.fields.iter().all(|field| matches!(field, DecodedField::Image(_, pipeline) if pipeline.has(index)))
    }
}

/// Returns the field that `field` makes of field `of` of the dataset, or the reason why it can't.
fn decoded_field(field: &DecodedField, of: &Field, fields: &[DecodedField]) -> std::result::Result<Field, String> {
    let bytes = || match of.dtype() {
        DType::UInt8 => Ok(()),
        _ => Err(format!("`{of}` is not a field of encoded files, which has the data type uint8")),
    };
    let image = |place: usize| match fields.get(place) {
        Some(DecodedField::Image(_, pipeline)) => Ok(pipeline),
        _ => Err(format!("`{}` is attached to field {place}, which is not an image", of.name())),
    };
    let form = |pipeline: &ImagePipeline| {
        pipeline.form().ok_or_else(|| {
            format!("the images of `{}` have no fixed size; end with a transform that resizes or crops them", of.name())
        })
    };
    match field {
        DecodedField::Kept(_) => Ok(of.clone()),
        DecodedField::Image(_, pipeline) => {
            bytes()?;
            let form = form(pipeline)?;
            Ok(Field::new(of.name(), form.dtype, form.shape))
        }
        DecodedField::Boxes(_, _, place) => {
            image(*place)?;
            match of.shape() {
                [.., 4] => Ok(of.clone()),
                _ => Err(format!("`{of}` is not a field of boxes, whose last axis has 4 elements")),
            }
        }
        DecodedField::Mask(_, pipeline, place) => {
            bytes()?;
            form(image(*place)?)?;
            let form = pipeline.mask_form(image(*place)?);
            let form = form.ok_or_else(|| {
                format!(
                    "the masks of `{}` must have no transforms of their own, and a mode with a fixed number of \
                     channels",
                    of.name()
                )
            })?;
            Ok(Field::new(of.name(), form.dtype, form.shape))
        }
    }
}

/// Returns how many rows of `field` these bytes of one sample hold.
fn rows_in(field: &Field, bytes: &[u8]) -> usize {
    match (field.is_variable(), field.shape()) {
        (false, [rows, ..]) => *rows,
        _ => bytes.len() / field.bytes().max(1),
    }
}

fn give_room(encoded: EncodedBatch) {
    let room = encoded.into_room();
    if room.capacity() <= LARGEST_ROOM {
        ROOM.set(room);
    }
}

impl Dataset for DecodedImages {
    fn len(&self) -> usize {
        self.dataset.len()
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

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        self.dataset.as_blocks()
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.schema.is_variable().then_some(self)
    }

    fn is_random(&self) -> bool {
        self.is_random
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        self.dataset.origin(index, self.fields.get(field)?.from())
    }
}

impl ReadMany for DecodedImages {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let keys: Vec<Option<u64>> = (0..indices.len()).map(|row| into.key(row)).collect();
        // A batched read comes before all decoding; otherwise each sample is read by the thread that decodes it.
        let together = match self.dataset.as_read_many() {
            Some(_) if indices.len() > 1 && !indices.iter().all(|&index| self.has(index)) => {
                Some(EncodedBatch::read(&*self.dataset, indices, ROOM.take())?)
            }
            _ => None,
        };
        let fill = |(row, mut rooms): (usize, Vec<&mut [u8]>)| match &together {
            Some(encoded) => self.fill((Some(encoded), row), (indices[row], keys[row]), &mut rooms),
            None => self.read_alone(indices[row], keys[row], &mut rooms),
        };
        let filled: Vec<Vec<Option<Vec<u8>>>> = fill_rooms(into.rooms(&self.fixed), fill)?;
        for (row, moved) in filled.into_iter().enumerate() {
            let mut into = into.sample(row);
            for (moved, &number) in moved.iter().zip(&self.variable) {
                let stays = || together.as_ref().map(|encoded| encoded.field(row, self.fields[number].from()));
                into.field(number).copy_from_slice(moved.as_deref().or_else(stays).unwrap_or_default());
            }
        }
        if let Some(encoded) = together {
            give_room(encoded);
        }
        Ok(())
    }
}

impl VariableSize for DecodedImages {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        let sizes = sizes_of(&*self.dataset, indices)?;
        for &number in &self.variable {
            let from = self.fields[number].from();
            into.field(number).copy_from_slice(sizes.elements(from).unwrap_or_default());
        }
        Ok(())
    }
}
