//! [`BoxFormat`]: the meaning of a box's four numbers.

use serde::{Deserialize, Serialize};

use super::Coordinates;

/// The meaning of a box's four numbers, with the names of `torchvision.tv_tensors`.
///
/// # Example
/// ```
/// use sluicegate::BoxFormat;
/// let format: BoxFormat = "CXCYWH".parse()?;
/// assert_eq!((format, format.name()), (BoxFormat::CenterAndSize, "CXCYWH"));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BoxFormat {
    /// Left, top, right, bottom.
    #[default]
    #[serde(rename = "XYXY")]
    Corners,
    /// Left, top, width, height.
    #[serde(rename = "XYWH")]
    CornerAndSize,
    /// Center, width, height.
    #[serde(rename = "CXCYWH")]
    CenterAndSize,
}

impl std::str::FromStr for BoxFormat {
    type Err = crate::Error;

    fn from_str(name: &str) -> crate::Result<Self> {
        match name {
            "XYXY" => Ok(Self::Corners),
            "XYWH" => Ok(Self::CornerAndSize),
            "CXCYWH" => Ok(Self::CenterAndSize),
            _ => Err(crate::Error::invalid(
                "box_format",
                format!("expected 'XYXY', 'XYWH' or 'CXCYWH', but got '{name}'"),
            )),
        }
    }
}

impl BoxFormat {
    /// Returns its name in `torchvision.tv_tensors`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Corners => "XYXY",
            Self::CornerAndSize => "XYWH",
            Self::CenterAndSize => "CXCYWH",
        }
    }

    /// Converts a box with these numbers to the format `into`, with the arithmetic of torchvision's
    /// `convert_bounding_box_format` for numbers of this type.
    ///
    /// # Example
    /// ```
    /// use sluicegate::BoxFormat::{CenterAndSize, Corners};
    /// use sluicegate::internal::Coordinates::Single;
    /// assert_eq!(CenterAndSize.convert(Corners, [5.0, 6.0, 2.0, 4.0], Single), [4.0, 4.0, 6.0, 8.0]);
    /// assert_eq!(Corners.convert(CenterAndSize, [4.0, 4.0, 6.0, 8.0], Single), [5.0, 6.0, 2.0, 4.0]);
    /// ```
    #[doc(hidden)]
    #[must_use]
    pub fn convert(self, into: Self, numbers: [f64; 4], coordinates: Coordinates) -> [f64; 4] {
        use BoxFormat::{CenterAndSize, CornerAndSize, Corners};
        match (self, into) {
            (Corners, Corners) | (CornerAndSize, CornerAndSize) | (CenterAndSize, CenterAndSize) => numbers,
            (CornerAndSize, CenterAndSize) => {
                let [x, y, width, height] = numbers;
                let half = |length: f64| coordinates.half(length);
                [coordinates.round(x + half(width)), coordinates.round(y + half(height)), width, height]
            }
            // For integers, converting through the corners gives torchvision's values.
            (CenterAndSize, CornerAndSize) if coordinates == Coordinates::Whole => {
                Corners.convert(into, self.convert(Corners, numbers, coordinates), coordinates)
            }
            (CenterAndSize, CornerAndSize) => {
                let [x, y, width, height] = numbers;
                [coordinates.round(x - width / 2.0), coordinates.round(y - height / 2.0), width, height]
            }
            (CornerAndSize, Corners) => {
                let [x, y, width, height] = numbers;
                [x, y, coordinates.round(x + width), coordinates.round(y + height)]
            }
            (CenterAndSize, Corners) => {
                let [x, y, width, height] = numbers;
                // Integers are converted to floats, and truncated to integers at the end.
                let floats = coordinates.as_floats();
                let [left, top] = [floats.round(x - width / 2.0), floats.round(y - height / 2.0)];
                let corners = [left, top, floats.round(width + left), floats.round(height + top)];
                corners.map(|number| coordinates.cast(number))
            }
            (Corners, CornerAndSize) => {
                let [left, top, right, bottom] = numbers;
                [left, top, coordinates.round(right - left), coordinates.round(bottom - top)]
            }
            (Corners, CenterAndSize) => {
                let [left, top, right, bottom] = numbers;
                let [width, height] = [coordinates.round(right - left), coordinates.round(bottom - top)];
                let middle = |start: f64, length: f64| coordinates.half(coordinates.round(start * 2.0 + length));
                [middle(left, width), middle(top, height), width, height]
            }
        }
    }
}
