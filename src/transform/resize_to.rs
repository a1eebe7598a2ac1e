//! [`ResizeTo`]: the size that images are resized to.

use serde::{Deserialize, Serialize};

use super::Reason;

/// The target size of [`ImageTransform::Resize`](super::ImageTransform::Resize).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResizeTo {
    /// This height and width.
    Exact([usize; 2]),
    /// This length of the shorter edge, unless the longer one would exceed `max_size`: then the longer edge gets
    /// `max_size`.
    #[expect(missing_docs, reason = "named above")]
    Shorter { length: usize, max_size: Option<usize> },
    /// This length of the longer edge.
    Longer(usize),
}

impl ResizeTo {
    /// Returns the new height and width for an image of this size.
    pub(super) fn of(self, [height, width]: [usize; 2]) -> Result<[usize; 2], Reason> {
        let (short, long) = (height.min(width), height.max(width));
        let share = |length: usize, of: usize, to: usize| (length as f64 * of as f64 / to as f64) as usize;
        let (short, long) = match self {
            Self::Exact(size) => return positive(size),
            Self::Longer(length) => (share(length, short, long), length),
            Self::Shorter { length, max_size } => {
                let longer = share(length, long, short);
                match max_size {
                    Some(most) if most <= length => {
                        return Err(format!(
                            "max_size: expected more than {length}, the length of the shorter edge, got {most}"
                        ));
                    }
                    Some(most) if longer > most => (share(most, length, longer), most),
                    _ => (length, longer),
                }
            }
        };
        positive(if width <= height { [long, short] } else { [short, long] })
    }
}

fn positive([height, width]: [usize; 2]) -> Result<[usize; 2], Reason> {
    if height == 0 || width == 0 {
        return Err(format!("an image can't be resized to {height} x {width} pixels"));
    }
    Ok([height, width])
}
