//! Finds the rows of a [`Block`] that can't be samples.

use std::str::from_utf8;

use super::block::{Block, BlockValues, LeafBlock};
use super::leaf::{Leaf, LeafNulls};
use super::rule::Rule;
use super::{Columns, Reason, Strings};

impl Block {
    /// Calls `visit` in order for each row that can't be a sample, with the column and the reason: it is null or
    /// contains a null although nulls are refused, or it is not valid UTF-8 although a string is expected.
    pub(crate) fn broken_rows(&self, columns: &Columns, mut visit: impl FnMut(usize, String, Reason)) {
        for row in 0..self.rows() {
            let leaves = columns.leaves().iter().enumerate();
            let broken = leaves.filter_map(|(number, leaf)| Some((leaf, find_defect(self.leaf(number), leaf, row)?)));
            if let Some((leaf, reason)) = broken.into_iter().next() {
                visit(row, leaf.name(), reason);
            }
        }
    }
}

fn find_defect(block: &LeafBlock, leaf: &Leaf, row: usize) -> Option<Reason> {
    let LeafBlock { values, nulls, broken, .. } = block;
    if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
        return (leaf.nulls == LeafNulls::Refuse).then(|| "it is null".into());
    }
    if broken.as_ref().is_some_and(|broken| broken.is_null(row)) {
        return Some("it contains a null".into());
    }
    match (values, &leaf.meaning.rule, leaf.strings) {
        (BlockValues::Variable(values), Rule::Text, Strings::Objects) => {
            from_utf8(values.get(row)).is_err().then(|| "it is not UTF-8 text; read it as bytes".into())
        }
        _ => None,
    }
}
