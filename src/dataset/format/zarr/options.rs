//! [`ZarrOptions`]: how a Zarr store is read.

use super::windows::{WindowEdges, WindowOrder};

/// How a Zarr store is read.
#[derive(Debug, Clone, PartialEq)]
pub struct ZarrOptions {
    /// The names of the arrays, in the order of the fields; if nothing is said, all that are not coordinates of others and
    /// have all dimensions of the window, by name. Arrays without some of them are cut along those that they have.
    pub fields: Option<Vec<String>>,
    /// By dimension, the number of elements of a window; the first changes slowest. Dimensions that are not named are whole in
    /// every window. If nothing is said, samples are the rows of the first axis.
    pub window: Option<Vec<(String, usize)>>,
    /// By dimension, how far windows are apart; as far as a window is long, if nothing is said.
    pub stride: Vec<(String, usize)>,
    /// By dimension, the only elements that windows have: the first, and the end, which is that of the dimension if it is not
    /// given. A dimension without a window is one window of these. Default: whole dimensions. Not with [`WindowEdges::Pad`].
    pub region: Vec<(String, usize, Option<usize>)>,
    /// What becomes of windows that reach past the end.
    pub edges: WindowEdges,
    /// How windows are numbered.
    pub order: WindowOrder,
    /// Values are decoded by the conventions for climate and forecast data: `_FillValue`, `missing_value`, `scale_factor`,
    /// `add_offset` and `_Unsigned`. True, unless it is said otherwise.
    pub decode_cf: bool,
    /// So many bytes of decoded chunks are kept; 256 MiB, if nothing is said.
    pub cache_bytes: Option<usize>,
}

impl Default for ZarrOptions {
    fn default() -> Self {
        Self {
            fields: None,
            window: None,
            stride: Vec::new(),
            region: Vec::new(),
            edges: WindowEdges::default(),
            order: WindowOrder::default(),
            decode_cf: true,
            cache_bytes: None,
        }
    }
}
