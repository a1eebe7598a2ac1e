//! [`Nesting`]: how the fields of a sample are nested, as the columns that they come from are.

/// How the fields of a sample are nested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nesting {
    /// The field of this number.
    Field(usize),
    /// Parts by their names, in order.
    Dict(Vec<(String, Nesting)>),
}

impl Nesting {
    /// Puts `part` where `path` leads, behind what is there already. Nothing when something else is there.
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
