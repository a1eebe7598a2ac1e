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
    pub(super) course: Course,
}

/// How weights change from one breakpoint to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Course {
    /// They are constant, and jump at the next breakpoint.
    #[default]
    Steps,
    /// They change linearly, in at most 1024 steps.
    Linear,
}

impl MixtureWeights {
    /// Returns constant weights, one per part; they need not sum to one.
    pub fn constant(weights: impl Into<Vec<f64>>) -> Self {
        MixtureWeights { breakpoints: vec![(0, weights.into())], course: Course::Steps }
    }

    /// Returns the weights that apply at each of these positions. Before the first breakpoint the first weights apply,
    /// after the last breakpoint the last ones.
    pub fn scheduled(breakpoints: Vec<(usize, Vec<f64>)>, course: Course) -> Self {
        MixtureWeights { breakpoints, course }
    }
}
