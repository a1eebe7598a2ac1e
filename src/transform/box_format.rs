//! [`BoxFormat`]: which four numbers a box is.

/// Which four numbers a box is, by the names that `torchvision.tv_tensors` has.
///
/// # Example
/// ```
/// use sluicegate::BoxFormat;
/// let format: BoxFormat = "CXCYWH".parse()?;
/// assert_eq!(format.to_corners([5.0, 6.0, 2.0, 4.0]), [4.0, 4.0, 6.0, 8.0]);
/// assert_eq!(format.of_corners([4.0, 4.0, 6.0, 8.0]), [5.0, 6.0, 2.0, 4.0]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoxFormat {
    /// Left, top, right, bottom.
    #[default]
    Corners,
    /// Left, top, width, height.
    CornerAndSize,
    /// The middle, width, height.
    CenterAndSize,
}

impl std::str::FromStr for BoxFormat {
    type Err = crate::Error;

    fn from_str(name: &str) -> crate::Result<Self> {
        match name {
            "XYXY" => Ok(Self::Corners),
            "XYWH" => Ok(Self::CornerAndSize),
            "CXCYWH" => Ok(Self::CenterAndSize),
            _ => Err(crate::Error::InvalidArgument {
                argument: "box_format",
                reason: format!("expected 'XYXY', 'XYWH' or 'CXCYWH', but got '{name}'"),
            }),
        }
    }
}

impl BoxFormat {
    /// Left, top, right and bottom of the box.
    #[must_use]
    pub fn to_corners(self, [x, y, right, bottom]: [f64; 4]) -> [f64; 4] {
        let (width, height) = (right, bottom);
        match self {
            Self::Corners => [x, y, right, bottom],
            Self::CornerAndSize => [x, y, x + width, y + height],
            Self::CenterAndSize => {
                let (left, top) = (x - width / 2.0, y - height / 2.0);
                [left, top, left + width, top + height]
            }
        }
    }

    /// The numbers of the box with these corners.
    #[must_use]
    pub fn of_corners(self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        let (width, height) = (right - left, bottom - top);
        match self {
            Self::Corners => [left, top, right, bottom],
            Self::CornerAndSize => [left, top, width, height],
            Self::CenterAndSize => [left + width / 2.0, top + height / 2.0, width, height],
        }
    }
}
