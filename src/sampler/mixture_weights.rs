//! [`MixtureWeights`]: the proportions of a mixture's parts, and when its epochs end.

/// Determines when an epoch of a mixture ends: torchdata's `StopCriteria`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StopCriteria {
    /// When the last of the parts is complete; parts that finish earlier restart.
    #[default]
    CycleUntilAllDatasetsExhausted,
    /// When every sample has been read exactly once; a part that is finished leaves its share to the others.
    AllDatasetsExhausted,
    /// When the first of the parts is complete.
    FirstDatasetExhausted,
    /// After this many samples; parts that are finished restart.
    CycleForever(usize),
}

/// The weights of a mixture's parts, as they change over the positions of an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureWeights {
    pub(super) breakpoints: Vec<(usize, Vec<f64>)>,
    /// False if weights jump at each breakpoint.
    pub(super) is_linear: bool,
}

impl MixtureWeights {
    /// Returns constant weights, one per part; they need not sum to one.
    pub fn constant(weights: impl Into<Vec<f64>>) -> Self {
        MixtureWeights { breakpoints: vec![(0, weights.into())], is_linear: false }
    }

    /// Returns weights that apply from each of these positions to the next. Before the first position the first ones
    /// apply.
    pub fn stepped(breakpoints: Vec<(usize, Vec<f64>)>) -> Self {
        MixtureWeights { breakpoints, is_linear: false }
    }

    /// Returns weights that change linearly from each of these positions to the next, in at most 1024 steps. Before the
    /// first position the first ones apply, after the last position the last ones.
    pub fn linear(breakpoints: Vec<(usize, Vec<f64>)>) -> Self {
        MixtureWeights { breakpoints, is_linear: true }
    }
}
