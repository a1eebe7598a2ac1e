//! Formats of rows of one size: `.npy`, raw files, safetensors, tokens.

use std::sync::Arc;

#[cfg(feature = "npz")]
use sluicegate::Npz;
use sluicegate::{
    DType, Documents, Field, Npy, Raw, RawField, Safetensors, TokenFiles, TokenLayout, TokenOutput, TokenWindows,
    Tokens,
};

use super::input::Input;
use super::reading::{check_error, read_opened};
use super::scratch::file;

const DTYPES: [DType; 8] = [
    DType::UInt8,
    DType::Int16,
    DType::UInt16,
    DType::Int32,
    DType::Int64,
    DType::Float32,
    DType::Complex64,
    DType::Bool,
];

/// Input: the file.
pub(super) fn npy(bytes: &[u8]) {
    read_opened(Npy::open("x", file("x.npy", bytes)));
}

/// Returns the size of the header, that of a sample, and the fields (data type, offset, axis, order).
pub(super) fn raw_layout(input: &mut Input<'_>) -> (usize, usize, Vec<RawField>) {
    let (header, sample) = (input.word(), usize::from(input.byte()));
    let fields = (0..input.byte() % 4).map(|number| {
        let dtype = input.choice(&DTYPES);
        let offset = usize::from(input.byte());
        let shape: Vec<usize> = match input.byte() {
            0 => vec![],
            255 => vec![usize::MAX / 2, 3],
            size => vec![usize::from(size % 16)],
        };
        let field = RawField::new(Field::new(number.to_string(), dtype, shape), offset);
        if input.byte() % 2 == 1 { field.swapped() } else { field }
    });
    let fields = fields.collect();
    (header, sample, fields)
}

/// Input: the layout, and the file.
pub(super) fn raw(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (header, sample, fields) = raw_layout(&mut input);
    read_opened(Raw::open(file("x.raw", input.rest()), header, sample, fields));
}

/// Input: the file.
#[cfg(feature = "npz")]
pub(super) fn npz(bytes: &[u8]) {
    let path = file("x.npz", bytes);
    read_opened(Npz::open(&path, None));
    read_opened(Npz::open(&path, Some(&["y".to_owned()])));
}

/// Input: how it is read, and the file, with or without the correct length before the header.
pub(super) fn safetensors(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let path = match input.byte() % 2 {
        0 => file("x.safetensors", input.rest()),
        _ => {
            let header = input.part();
            let length = (header.len() as u64).to_le_bytes();
            file("x.safetensors", &[&length[..], header, input.rest()].concat())
        }
    };
    read_opened(Safetensors::open(&path, None));
    read_opened(Safetensors::open(&path, Some(&["b".to_owned()])));
}

fn windows(input: &mut Input<'_>) -> TokenWindows {
    TokenWindows {
        length: usize::from(input.byte()),
        stride: usize::from(input.byte()),
        output: input.choice(&[TokenOutput::Tokens, TokenOutput::Shifted, TokenOutput::Same]),
        vocabulary_size: Some(u64::from(input.byte())).filter(|&size| size > 0),
    }
}

fn read_tokens(files: sluicegate::Result<TokenFiles>, windows: TokenWindows) {
    let files = match files {
        Ok(files) => files,
        Err(error) => return check_error(&error),
    };
    for document in 0..files.documents().min(20) {
        let tokens = files.document_len(document);
        let mut into = vec![0; 8 * tokens.min(1000) as usize];
        files.read_document(document, 0, &mut into).unwrap();
        let last = tokens.saturating_sub(1);
        files.read_document(document, last, &mut into[..8 * (tokens - last) as usize]).unwrap();
        assert!(files.read_document(document, tokens, &mut [0; 8]).is_err());
    }
    read_opened(Tokens::new(Arc::new(files), windows));
}

/// Input: the windows, data type, and offset, and a flat file.
pub(super) fn tokens(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let windows = windows(&mut input);
    let layout = TokenLayout { dtype: input.choice(&DTYPES), offset: input.word() as u64 };
    let path = file("flat.tokens", input.rest());
    read_tokens(TokenFiles::open([path], &layout, Documents::Joined), windows);
}

/// Input: the windows, the index, and the tokens.
pub(super) fn megatron(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let windows = windows(&mut input);
    let index = file("x.idx", input.part());
    file("x.bin", input.rest());
    for documents in [Documents::Joined, Documents::Apart] {
        read_tokens(TokenFiles::open([&index], &TokenLayout::default(), documents), windows);
    }
}
