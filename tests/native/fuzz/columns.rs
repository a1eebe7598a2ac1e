//! Files of columns: Parquet and Arrow.

use std::path::PathBuf;

use sluicegate::{Arrow, ColumnarOptions, Decimals, FillValue, NullRule, Strings};

use super::input::Input;
use super::reading::read_opened;
use super::scratch::file;

/// What becomes of nulls, texts and decimals, and which columns are read.
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

/// The file: as it is, or made of its footer and what lies before it, with the length of the footer that it should have.
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

/// How the columns are read, how much of them is kept, and a file or a stream, which is whatever does not begin as a file.
pub(super) fn arrow(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (options, cache) = (columns(&mut input), input.choice(&[1 << 20, 0]));
    let path = framed("x.arrow", input, b"ARROW1");
    read_opened(Arrow::open(vec![path.clone()], &options, cache));
    read_opened(Arrow::open(vec![path.clone(), path], &options, cache));
}

#[cfg(feature = "parquet")]
pub(super) use of_parquet::{parquet, parquet_filter};

#[cfg(feature = "parquet")]
mod of_parquet {
    use std::path::PathBuf;

    use sluicegate::{FillValue, Parquet, ParquetFilter, ParquetOptions, Relation};

    use super::super::input::Input;
    use super::super::reading::{Samples, Ways, check_error, read_in};
    use super::super::scratch::NOWHERE;
    use super::{columns, framed};

    /// The options, of which the number of bytes to keep has the file be read by row groups or by pages.
    fn options(input: &mut Input<'_>) -> ParquetOptions {
        ParquetOptions {
            columns: columns(input),
            filter: Vec::new(),
            cache_bytes: input.choice(&[None, Some(0), Some(150)]),
            index_folder: Some(NOWHERE.into()),
        }
    }

    /// Reads the files; by pages as well, if little is kept.
    fn read(paths: Vec<PathBuf>, options: ParquetOptions) -> Option<Samples> {
        let ways = if options.cache_bytes.is_some() { Ways::Apart } else { Ways::Same };
        let opened = Parquet::open(paths, options).inspect_err(check_error);
        opened.ok().map(|files| read_in(files, ways))
    }

    /// How the columns are read, how much of them is kept, and the file.
    pub(in super::super) fn parquet(bytes: &[u8]) {
        let mut input = Input::new(bytes);
        let options = options(&mut input);
        let path = framed("x.parquet", input, b"PAR1");
        read(vec![path.clone()], options.clone());
        read(vec![path.clone(), path], options);
    }

    fn condition(input: &mut Input<'_>) -> ParquetFilter {
        let column = input.choice(&["n", "t", "f", "d", "s.flag", "when"]).to_owned();
        let value = match input.byte() % 5 {
            0 => FillValue::Int(i128::from(input.byte())),
            1 => FillValue::Float(f64::from(input.byte()) - 2.5),
            2 => FillValue::Text(["", "abab", "low", "\u{e9}"][usize::from(input.byte()) % 4].to_owned()),
            3 => FillValue::Bool(input.byte() % 2 == 1),
            _ => FillValue::Bytes(vec![input.byte(); 2]),
        };
        let relation = match input.byte() % 8 {
            0 => Relation::Equal(value),
            1 => Relation::NotEqual(value),
            2 => Relation::Less(value),
            3 => Relation::LessOrEqual(value),
            4 => Relation::Greater(value),
            5 => Relation::GreaterOrEqual(value),
            6 => Relation::In(vec![value, FillValue::Int(3)]),
            _ => Relation::NotIn(vec![value]),
        };
        ParquetFilter { column, relation }
    }

    /// One or two conditions, how the columns are read, how much of them is kept, and the file.
    pub(in super::super) fn parquet_filter(bytes: &[u8]) {
        let mut input = Input::new(bytes);
        let filter = (0..=input.byte() % 2).map(|_| condition(&mut input)).collect();
        let all = options(&mut input);
        let some = ParquetOptions { filter, ..all.clone() };
        let path = framed("x.parquet", input, b"PAR1");
        let may_differ = all.cache_bytes.is_some();
        let (all, some) = (read(vec![path.clone()], all), read(vec![path], some));
        let (Some(all), Some(some)) = (all, some) else { return };
        if !may_differ && all.is_whole() && some.is_whole() {
            let mut rest = all.samples.iter();
            assert!(some.samples.iter().all(|sample| rest.any(|other| other == sample)), "a filter made a sample");
        }
    }
}
