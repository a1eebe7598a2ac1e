//! [`MixItems`]: two datasets, mixed.

use super::{ItemDataset, check_index, check_indices};
use crate::{Error, Result};

/// The items of two datasets, evenly mixed: [`ItemDataset::mix`].
///
/// Of the first n items, as many are of the first dataset as its part of all items says, rounded down. For other parts than
/// those of their lengths, or items that come more than once: [`MixtureSampler`](crate::MixtureSampler).
///
/// # Example
/// ```
/// use sluicegate::ItemDataset;
/// let mixed = vec!['a'; 2].mix(vec!['b'; 4]);
/// let all = mixed.get_many(&[0, 1, 2, 3, 4, 5])?;
/// assert_eq!(all, ['b', 'b', 'a', 'b', 'b', 'a']);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MixItems<A, B> {
    first: A,
    second: B,
}

/// Where an item of a mixture is.
enum Place {
    First(usize),
    Second(usize),
}

impl<A: ItemDataset, B: ItemDataset<Item = A::Item>> MixItems<A, B> {
    pub(super) fn new(first: A, second: B) -> Self {
        Self { first, second }
    }

    fn place(&self, index: usize) -> Place {
        let (first, all) = (self.first.len() as u128, self.len() as u128);
        let before = |items: u128| (items * first / all) as usize;
        let in_first = before(index as u128);
        match before(index as u128 + 1) > in_first {
            true => Place::First(in_first),
            false => Place::Second(index - in_first),
        }
    }
}

impl<A: ItemDataset, B: ItemDataset<Item = A::Item>> ItemDataset for MixItems<A, B> {
    type Item = A::Item;

    fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    fn get(&self, index: usize) -> Result<A::Item> {
        check_index(index, self.len())?;
        match self.place(index) {
            Place::First(index) => self.first.get(index),
            Place::Second(index) => self.second.get(index),
        }
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<A::Item>> {
        check_indices(indices, self.len())?;
        let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
        let mut is_first = Vec::with_capacity(indices.len());
        for &index in indices {
            let place = self.place(index);
            is_first.push(matches!(place, Place::First(_)));
            match place {
                Place::First(index) => of_first.push(index),
                Place::Second(index) => of_second.push(index),
            }
        }
        // A part is not asked for nothing.
        let mut firsts = if of_first.is_empty() { Vec::new() } else { self.first.get_many(&of_first)? }.into_iter();
        let mut seconds = if of_second.is_empty() { Vec::new() } else { self.second.get_many(&of_second)? }.into_iter();
        let next = |is_first: bool| if is_first { firsts.next() } else { seconds.next() };
        let items: Option<Vec<A::Item>> = is_first.into_iter().map(next).collect();
        items.ok_or_else(|| Error::InvalidArgument {
            argument: "dataset",
            reason: "get_many of a part gave fewer items than indices: it must give one for each".into(),
        })
    }
}
