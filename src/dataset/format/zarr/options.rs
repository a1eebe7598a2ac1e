//! [`ZarrOptions`]: options for reading a Zarr store.

use super::windows::{WindowEdges, WindowOrder};

/// Options for reading a Zarr store.
#[derive(Debug, Clone, PartialEq)]
pub struct ZarrOptions {
    /// The array names, in the order of the fields. Default: all arrays, by name, that have all dimensions of the
    /// window and are not coordinates of others. Named arrays may lack dimensions; they are cut along those they have.
    pub fields: Option<Vec<String>>,
    /// The window size of each dimension; the first dimension changes slowest. Unlisted dimensions are whole in every
    /// window. Default: samples are the rows of the first axis.
    pub window: Option<Vec<(String, usize)>>,
    /// The distance between windows in each dimension. Default: the window size.
    pub stride: Vec<(String, usize)>,
    /// By dimension, the start and end of the region that windows cover; the end defaults to that of the dimension.
    /// Without a window size, the region is one window. Default: whole dimensions. Not with [`WindowEdges::Pad`].
    pub region: Vec<(String, usize, Option<usize>)>,
    /// How to treat windows that reach past the end.
    pub edges: WindowEdges,
    /// The order of the windows.
    pub order: WindowOrder,
    /// Decode values by the conventions for climate and forecast data (CF): `_FillValue`, `missing_value`,
    /// `scale_factor`, `add_offset` and `_Unsigned`. Default: true.
    pub decode_cf: bool,
    /// The cache size for decoded chunks, in bytes. Default: 256 MiB.
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
