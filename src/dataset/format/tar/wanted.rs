//! [`Wanted`]: a field of open archives, and how it is read from a member.

use super::field::{LONGEST_NUMBER, MayBeMissing, TarField, TarValue, number};
use super::index::TarPlace;
use crate::dataset::format::array::form::NpyForm;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::room::make_room;
use crate::{Error, Result};

/// A field, with its extensions in the index, and the shape and data type of its arrays, if known.
pub(super) struct Wanted {
    pub(super) field: TarField,
    /// The numbers of its extensions in the index, in order of preference.
    pub(super) extensions: Vec<u32>,
    pub(super) form: Option<NpyForm>,
    pub(super) may_be_missing: MayBeMissing,
}

/// Makes an error from a reason.
type Refuse<'a> = &'a dyn Fn(String) -> Error;

impl Wanted {
    /// Takes the shape and data type of its arrays from the one at `place`.
    pub(super) fn take_form(&mut self, (file, place): (&OpenFile, TarPlace), refuse: Refuse<'_>) -> Result<()> {
        let head = head(file, place, NpyForm::HEAD, refuse)?;
        self.form = Some(NpyForm::new(&head, self.field.value.first_axis()).map_err(refuse)?);
        Ok(())
    }

    /// Returns the number of elements for the bytes at `place`.
    pub(super) fn bytes(&self, place: TarPlace) -> usize {
        usize::try_from(place.bytes).unwrap_or(usize::MAX).saturating_add(self.elements_before())
    }

    /// Returns the number of elements of the ragged array at `place`.
    pub(super) fn length(&self, (file, place): (&OpenFile, TarPlace), refuse: Refuse<'_>) -> Result<usize> {
        let form = self.known_form().map_err(refuse)?;
        let mut size = form.array_bytes(&head(file, place, NpyForm::USUAL_HEAD, refuse)?, place.bytes);
        if size.is_err() {
            size = form.array_bytes(&head(file, place, NpyForm::HEAD, refuse)?, place.bytes);
        }
        Ok(size.map_err(refuse)?.checked_div(form.field("").bytes()).unwrap_or(0) + self.elements_before())
    }

    fn elements_before(&self) -> usize {
        usize::from(self.may_be_missing == MayBeMissing::Yes)
    }

    /// Reads the member at `place` into a buffer of the size that was reported before.
    pub(super) fn fill(
        &self,
        (file, place): (&OpenFile, TarPlace),
        mut room: &mut [u8],
        refuse: Refuse<'_>,
    ) -> Result<()> {
        check_place(file, place).map_err(refuse)?;
        match self.field.value {
            TarValue::Bytes => {
                if self.may_be_missing == MayBeMissing::Yes {
                    room[0] = 1;
                    room = &mut room[1..];
                }
                file.copy_at(place.data, room)
            }
            TarValue::Npy | TarValue::RaggedNpy => {
                let mut bytes = Vec::new();
                make_room(&mut bytes, usize::try_from(place.bytes).unwrap_or(usize::MAX))?;
                file.copy_at(place.data, &mut bytes)?;
                let form = self.known_form().map_err(refuse)?;
                let before = self.may_be_missing.bytes_before(form);
                room[..before].fill(0);
                form.read(&bytes, &mut room[before..]).map_err(refuse)
            }
            value => {
                if place.bytes > LONGEST_NUMBER {
                    return Err(refuse(format!("{} bytes are not a number", place.bytes)));
                }
                let mut text = [0; LONGEST_NUMBER as usize];
                let text = &mut text[..place.bytes as usize];
                file.copy_at(place.data, text)?;
                room.copy_from_slice(&number(value, text).map_err(refuse)?);
                Ok(())
            }
        }
    }

    fn known_form(&self) -> std::result::Result<&NpyForm, String> {
        self.form.as_ref().ok_or_else(|| "the form of its arrays is unknown".into())
    }
}

/// Returns the first bytes of a member, at most `most`.
fn head(file: &OpenFile, place: TarPlace, most: usize, refuse: Refuse<'_>) -> Result<Vec<u8>> {
    check_place(file, place).map_err(refuse)?;
    let mut head = vec![0; place.bytes.min(most as u64) as usize];
    file.copy_at(place.data, &mut head)?;
    Ok(head)
}

/// Called before allocating, because a damaged index may claim any size.
fn check_place(file: &OpenFile, place: TarPlace) -> std::result::Result<(), String> {
    match place.data.checked_add(place.bytes) {
        Some(end) if end <= file.bytes() => Ok(()),
        _ => Err(format!(
            "the index declares {} bytes, but the file ends before that; the index is damaged",
            place.bytes
        )),
    }
}
