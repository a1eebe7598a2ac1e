//! [`Packing`]: how documents are packed into rows.

/// How documents are packed into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// One after another; a document that does not fit into a row continues in the next. Only the end of the last row
    /// is padding.
    Concat,
    /// Each into the first row that has room for it. Only documents longer than a row are cut.
    FirstFit,
    /// The longest first, each into the row that it fills best. Only documents longer than a row are cut.
    BestFit,
}
