//! Compares our loader with those of other crates: `cargo bench` here, or `make bench-native` in the root of the
//! repository, prints one table.
//!
//! Every contender loads every workload in a separate process, three times, in turn; the median counts. All have
//! samples of one type from the same functions, the same batch sizes, two threads, shuffling, four batches ahead if
//! that can be set, and a consumer that reads every byte. They also share one collate, into a new batch; our fields
//! write samples into slots instead, and the row "batches used again" fills batches that the consumer is done with.

mod contender;
mod measure;
mod overhead;
mod table;
mod workload;

use std::env;
use std::process::Command;

use measure::{Figures, Meter};
use workload::{Kind, Order, Workload};

/// Number of threads of each contender.
pub const THREADS: usize = 2;
/// Number of batches in flight, if a contender lets one set it.
pub const AHEAD: usize = 4;
/// How often each pair is measured.
const ROUNDS: usize = 3;

fn main() {
    // Cargo adds it to the caller's arguments.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match &arguments[..] {
        [contender, workload, spins] => one(contender, workload, spins),
        [overhead] if overhead == "overhead" => println!("{}", overhead::measure()),
        [filter] => all(Some(filter)),
        [] => all(None),
        _ => eprintln!("usage: cargo bench -- [part of a workload's or contender's name]"),
    }
}

/// Measures one contender on one workload, in this process.
fn one(contender: &str, workload: &str, spins: &str) {
    let contender = contender::ALL.iter().find(|known| known.name == contender).expect("a contender's name");
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == workload).expect("a workload's name");
    let workload = Workload::new(kind, spins.parse().expect("a number of rounds"));
    let mut meter = Meter::timed(workload.len);
    (contender.run)(workload, kind.order(), &mut meter);
    let mut figures = meter.figures();
    let mut meter = Meter::of_order(workload.len);
    (contender.run)(workload, Order::Sequential, &mut meter);
    figures.in_order = meter.was_in_order();
    println!("{}", figures.to_line());
}

/// Measures every pair whose name contains `filter`, each in a separate process.
fn all(filter: Option<&str>) {
    let spins = workload::calibrate();
    let is_wanted =
        |kind: Kind, name: &str| filter.is_none_or(|part| kind.name().contains(part) || name.contains(part));
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let contenders: Vec<_> =
            contender::ALL.iter().filter(|known| (known.takes)(kind) && is_wanted(kind, known.name)).collect();
        let mut measured: Vec<Vec<Figures>> = contenders.iter().map(|_| Vec::new()).collect();
        for _ in 0..ROUNDS {
            for (contender, measured) in contenders.iter().zip(&mut measured) {
                measured.push(in_own_process(contender.name, kind, spins));
            }
        }
        rows.extend(
            contenders.iter().zip(measured).map(|(contender, measured)| table::Row::new(kind, contender, measured)),
        );
    }
    println!("{}", table::markdown(&rows));
    if filter.is_none() {
        println!("\n{}", overhead::measure());
    }
}

fn in_own_process(contender: &str, kind: Kind, spins: u64) -> Figures {
    let program = env::current_exe().expect("a program knows where it is");
    let output =
        Command::new(program).args([contender, kind.name(), &spins.to_string()]).output().expect("it can be run");
    let stdout = String::from_utf8_lossy(&output.stdout);
    Figures::from_line(&stdout).unwrap_or_else(|| {
        eprintln!("{contender} on {}: {}", kind.name(), String::from_utf8_lossy(&output.stderr));
        Figures::failed()
    })
}
