//! The table.

use crate::contender::Contender;
use crate::measure::Figures;
use crate::workload::Kind;

/// The packages that are compared, with their versions.
const LOCK: &str = include_str!("../Cargo.lock");

pub struct Row {
    kind: Kind,
    name: String,
    /// Those with the median throughput.
    figures: Figures,
}

impl Row {
    pub fn new(kind: Kind, contender: &Contender, mut measured: Vec<Figures>) -> Self {
        measured.sort_by(|one, other| one.samples_per_second.total_cmp(&other.samples_per_second));
        let figures = measured.swap_remove(measured.len() / 2);
        let name = contender.title.replace("{version}", contender.package.map_or("", version));
        Self { kind, name, figures }
    }
}

/// Returns the version of `package` that was built.
fn version(package: &str) -> &'static str {
    let entry = LOCK.split("[[package]]").find(|entry| entry.contains(&format!("\nname = \"{package}\"\n")));
    let line = entry.and_then(|entry| entry.lines().find_map(|line| line.strip_prefix("version = ")));
    line.map_or("", |version| version.trim_matches('"'))
}

pub fn markdown(rows: &[Row]) -> String {
    let mut lines = vec![
        "| workload and loader | samples/s | CPU µs a sample | in order | wait p50 | wait p99 | peak MiB |".to_owned(),
        "|:--|--:|--:|:-:|--:|--:|--:|".to_owned(),
    ];
    for (place, row) in rows.iter().enumerate() {
        if place == 0 || rows[place - 1].kind != row.kind {
            lines.push(format!("| **{}** | | | | | | |", row.kind.title()));
        }
        let Figures { samples_per_second, cpu_per_sample, median_wait, longest_wait, peak_mib, in_order } = row.figures;
        lines.push(format!(
            "| {} | {} | {:.2} | {} | {} | {} | {peak_mib:.0} |",
            row.name,
            thousands(samples_per_second),
            cpu_per_sample * 1e6,
            if in_order { "yes" } else { "no" },
            time(median_wait),
            time(longest_wait),
        ));
    }
    lines.join("\n")
}

fn time(seconds: f64) -> String {
    if seconds < 1e-3 { format!("{:.0} µs", seconds * 1e6) } else { format!("{:.1} ms", seconds * 1e3) }
}

fn thousands(number: f64) -> String {
    if !number.is_finite() {
        return "failed".to_owned();
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
