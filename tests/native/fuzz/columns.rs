//! Columnar files: how they are read, and Arrow.

use std::path::PathBuf;

use sluicegate::{Arrow, ColumnarOptions, Decimals, FillValue, NullRule, Strings};

use super::input::Input;
use super::reading::read_opened;
use super::scratch::file;

/// Chooses how to treat nulls, texts, and decimals, and which columns are read.
pub(super) fn columns(input: &mut Input<'_>) -> ColumnarOptions {
    let fill = |name: &str, value| (Some(name.to_owned()), NullRule::Fill(value));
    ColumnarOptions {
        nulls: match input.byte() % 4 {
            0 => Vec::new(),
            1 => vec![(None, NullRule::Mask)],
            2 => vec![(None, NullRule::Fill(FillValue::Int(7)))],
            _ => vec![fill("t", FillValue::Text("none".into())), (None, NullRule::Mask)],
        },
        columns: (input.byte() % 3 == 2).then(|| ["t", "n"].map(str::to_owned).to_vec()),
        strings: input.choice(&[Strings::Objects, Strings::Bytes]),
        decimals: input.choice(&[Decimals::Float, Decimals::Unscaled]),
    }
}

/// Writes the file: as given, or assembled from its footer and the data before it, with the correct footer length.
pub(super) fn framed(name: &str, mut input: Input<'_>, magic: &[u8]) -> PathBuf {
    match input.byte() % 2 {
        0 => file(name, input.rest()),
        _ => {
            let footer = input.part();
            let padding = vec![0; magic.len().next_multiple_of(4) - magic.len()];
            let length = (footer.len() as u32).to_le_bytes();
            file(name, &[magic, &padding, input.rest(), footer, &length, magic].concat())
        }
    }
}

/// Input: how the columns are read, how much of them is cached, and a file, or a stream if it does not begin like a
/// file.
pub(super) fn arrow(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (options, cache) = (columns(&mut input), input.choice(&[1 << 20, 0]));
    let path = framed("x.arrow", input, b"ARROW1");
    read_opened(Arrow::open(vec![path.clone()], &options, cache));
    read_opened(Arrow::open(vec![path.clone(), path], &options, cache));
}
