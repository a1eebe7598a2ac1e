//! [`Nesting`]: how the fields of a sample are nested, like the columns that they come from.

/// How the fields of a sample are nested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nesting {
    /// The field with this index.
    Field(usize),
    /// Named parts, in order.
    Dict(Vec<(String, Nesting)>),
}

impl Nesting {
    /// Inserts `part` at `path`, after existing parts. Returns `None` if the place is taken.
    pub(super) fn insert(&mut self, path: &[String], part: Nesting) -> Option<()> {
        let (Self::Dict(parts), Some((name, rest))) = (self, path.split_first()) else { return None };
        let found = parts.iter_mut().find(|(other, _)| other == name);
        match (found, rest.is_empty()) {
            (Some(_), true) => None,
            (None, true) => {
                parts.push((name.clone(), part));
                Some(())
            }
            (Some((_, inner)), false) => inner.insert(rest, part),
            (None, false) => {
                let mut inner = Self::Dict(Vec::new());
                inner.insert(rest, part)?;
                parts.push((name.clone(), inner));
                Some(())
            }
        }
    }
}
