//! [`GridMap`]: the sources of an image's rows and columns.

use super::Reason;
use super::image_shape::ImageShape;
use super::operation::{Operation, PaddingMode};
use super::pixels::by_channel;
use super::pixels::pad::sources;

/// The sources of each row and column of an image after crops, padding, and flips, which move whole rows and columns.
#[derive(Debug, Clone)]
pub(super) struct GridMap {
    pub(super) rows: Vec<Option<usize>>,
    pub(super) columns: Columns,
    /// The fill color by channel, for rows and columns without a source.
    pub(super) fill: Vec<u8>,
}

/// The sources of the columns: a number of filled columns, columns of the image, and more filled columns.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    pub(super) before: usize,
    pub(super) inner: Inner,
    pub(super) after: usize,
}

/// Columns of the image.
#[derive(Debug, Clone)]
pub(super) enum Inner {
    /// This many, in ascending order from the first one.
    Forward { first: usize, count: usize },
    /// This many, in descending order; the last one comes first.
    Backward { first: usize, count: usize },
    /// In any other order.
    Mixed(Vec<usize>),
}

impl GridMap {
    /// Returns the map of `operations` for an image of this shape.
    ///
    /// The reason, if an operation does not move whole rows and columns, if two of them fill with different colors, or
    /// if filled columns are between columns of the image.
    pub(super) fn of(operations: &[Operation], shape: ImageShape) -> Result<Self, Reason> {
        let (mut rows, mut columns): (Vec<_>, Vec<_>) =
            ((0..shape.height).map(Some).collect(), (0..shape.width).map(Some).collect());
        let mut fill: Option<Vec<u8>> = None;
        for operation in operations {
            let color = match operation {
                Operation::Crop { top, left, height, width } => {
                    let is_inside = is_within(*top, *height, rows.len()) && is_within(*left, *width, columns.len());
                    rows = cut(&rows, *top, *height);
                    columns = cut(&columns, *left, *width);
                    (!is_inside).then(|| vec![0; shape.channels])
                }
                Operation::Pad { left, top, right, bottom, fill, mode } => {
                    rows = padded(&rows, *top, *bottom, *mode)?;
                    columns = padded(&columns, *left, *right, *mode)?;
                    let fills =
                        *mode == PaddingMode::Constant && [left, top, right, bottom].iter().any(|each| **each > 0);
                    fills.then(|| by_channel(fill, shape.channels).map(|value| value as u8).collect())
                }
                Operation::HorizontalFlip => {
                    columns.reverse();
                    None
                }
                Operation::VerticalFlip => {
                    rows.reverse();
                    None
                }
                _ => return Err("one of the transforms does not move whole rows and columns".into()),
            };
            if let Some(color) = color
                && *fill.get_or_insert_with(|| color.clone()) != color
            {
                return Err("the transforms fill with two colors".into());
            }
        }
        let fill = fill.unwrap_or_else(|| vec![0; shape.channels]);
        Ok(Self { rows, columns: Columns::of(&columns)?, fill })
    }

    /// Returns the height and the width.
    pub(super) fn size(&self) -> [usize; 2] {
        let inner = match &self.columns.inner {
            Inner::Forward { count, .. } | Inner::Backward { count, .. } => *count,
            Inner::Mixed(places) => places.len(),
        };
        [self.rows.len(), self.columns.before + inner + self.columns.after]
    }
}

impl Columns {
    fn of(columns: &[Option<usize>]) -> Result<Self, Reason> {
        let before = columns.iter().take_while(|place| place.is_none()).count();
        let after = columns[before..].iter().rev().take_while(|place| place.is_none()).count();
        let inner: Option<Vec<usize>> = columns[before..columns.len() - after].iter().copied().collect();
        let inner = inner.ok_or("the transforms fill pixels inside the image")?;
        let is_run = |step: fn(usize) -> Option<usize>| inner.windows(2).all(|pair| Some(pair[1]) == step(pair[0]));
        let count = inner.len();
        let inner = match (inner.first(), inner.last()) {
            (Some(&first), _) if is_run(|place| place.checked_add(1)) => Inner::Forward { first, count },
            (_, Some(&first)) if is_run(|place| place.checked_sub(1)) => Inner::Backward { first, count },
            _ => Inner::Mixed(inner),
        };
        Ok(Self { before, inner, after })
    }
}

/// True if this many positions from `first` on are all below `end`.
fn is_within(first: i64, count: usize, end: usize) -> bool {
    usize::try_from(first).is_ok_and(|first| first.checked_add(count).is_some_and(|last| last <= end))
}

/// Returns the sources of `count` positions from `first` on; positions outside have none.
fn cut(places: &[Option<usize>], first: i64, count: usize) -> Vec<Option<usize>> {
    let place =
        |offset: usize| usize::try_from(first + offset as i64).ok().and_then(|place| places.get(place).copied());
    (0..count).map(|offset| place(offset).flatten()).collect()
}

fn padded(places: &[Option<usize>], before: i64, after: i64, mode: PaddingMode) -> Result<Vec<Option<usize>>, Reason> {
    let sources = sources(places.len(), before, after, mode)?;
    Ok(sources.into_iter().map(|source| source.and_then(|place| places[place])).collect())
}
