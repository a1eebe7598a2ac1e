//! The contenders, one per file.

mod ai_dataloader;
mod burn;
mod dataloader_rs;
mod fields;
mod gather;
mod hand_written;
mod items;

use crate::measure::Meter;
use crate::workload::{Kind, Order, Workload};

pub struct Contender {
    pub name: &'static str,
    /// Its name in the table, and the package whose version is shown there.
    pub title: &'static str,
    pub package: Option<&'static str>,
    pub takes: fn(Kind) -> bool,
    /// Runs the epochs that the meter requests.
    pub run: fn(&'static Workload, Order, &mut Meter),
}

const ANY: fn(Kind) -> bool = |_| true;

pub const ALL: &[Contender] = &[
    Contender {
        name: "fields",
        title: "sluicegate {version}, fields",
        package: Some("sluicegate"),
        takes: ANY,
        run: fields::run,
    },
    Contender {
        name: "items",
        title: "sluicegate {version}, items",
        package: Some("sluicegate"),
        takes: ANY,
        run: items::run,
    },
    Contender {
        name: "items-reused",
        title: "sluicegate {version}, items, batches used again",
        package: Some("sluicegate"),
        takes: ANY,
        run: items::run_reusing,
    },
    Contender { name: "burn", title: "burn {version}", package: Some("burn-core"), takes: ANY, run: burn::run },
    Contender {
        name: "dataloader-rs",
        title: "dataloader-rs {version}",
        package: Some("dataloader-rs"),
        takes: ANY,
        run: dataloader_rs::run,
    },
    Contender {
        name: "ai-dataloader",
        title: "ai-dataloader {version}",
        package: Some("ai-dataloader"),
        takes: ANY,
        run: ai_dataloader::run,
    },
    Contender {
        name: "hand-written",
        title: "rayon and a channel, by hand",
        package: None,
        takes: ANY,
        run: hand_written::run,
    },
    Contender {
        name: "gather",
        title: "(two threads of memcpy, no loader)",
        package: None,
        takes: |kind| matches!(kind, Kind::Small | Kind::Mapped),
        run: gather::run,
    },
];

/// Returns the indices of one epoch, for contenders without a sampler.
fn indices(len: usize, order: Order, epoch: u64) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..len).collect();
    if order == Order::Shuffled {
        let mut state = epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for place in (1..len).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            indices.swap(place, (state % (place as u64 + 1)) as usize);
        }
    }
    indices
}
