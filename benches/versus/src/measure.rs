//! [`Meter`]: the consumer, and what it measures.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Minimum duration of a measurement, which follows one unmeasured epoch.
const LONG_ENOUGH: Duration = Duration::from_millis(1500);

/// Takes batches, reads every byte of them, and measures.
pub struct Meter {
    samples_per_epoch: usize,
    purpose: Purpose,
    epoch: u64,
    samples_in_epoch: usize,
    samples: usize,
    start: Instant,
    cpu_at_start: f64,
    /// When the consumer began to wait.
    asked: Instant,
    waits: Vec<Duration>,
    in_order: bool,
}

#[derive(PartialEq)]
enum Purpose {
    Time,
    Order,
}

impl Meter {
    /// Returns a meter of epochs of `samples_per_epoch` samples: as many epochs as take long enough.
    pub fn timed(samples_per_epoch: usize) -> Self {
        Self::new(samples_per_epoch, Purpose::Time)
    }

    /// Returns a meter of one epoch, to see the order of its samples.
    pub fn of_order(samples_per_epoch: usize) -> Self {
        Self::new(samples_per_epoch, Purpose::Order)
    }

    fn new(samples_per_epoch: usize, purpose: Purpose) -> Self {
        Self {
            samples_per_epoch,
            purpose,
            epoch: 0,
            samples_in_epoch: 0,
            samples: 0,
            start: Instant::now(),
            cpu_at_start: cpu_seconds(),
            asked: Instant::now(),
            waits: Vec::new(),
            in_order: true,
        }
    }

    /// Returns the number of the next epoch to run, if there is one.
    pub fn next_epoch(&mut self) -> Option<u64> {
        let epoch = self.epoch;
        assert!(
            epoch == 0 || self.samples_in_epoch == self.samples_per_epoch,
            "{} samples came",
            self.samples_in_epoch
        );
        if epoch == 1 {
            // The first epoch was for warming up.
            (self.start, self.cpu_at_start, self.samples) = (Instant::now(), cpu_seconds(), 0);
            self.waits.clear();
        }
        let is_enough = match self.purpose {
            Purpose::Time => epoch > 1 && self.start.elapsed() >= LONG_ENOUGH,
            Purpose::Order => epoch == 1,
        };
        self.samples_in_epoch = 0;
        self.epoch += 1;
        self.asked = Instant::now();
        (!is_enough).then_some(epoch)
    }

    /// Takes a batch.
    pub fn take(&mut self, bytes: &[u8], labels: impl Iterator<Item = i64>) {
        self.waits.push(self.asked.elapsed());
        let (words, rest) = bytes.as_chunks::<8>();
        let sum = words.iter().fold(0_u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
        black_box(rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte))));
        for label in labels {
            self.in_order &= label == self.samples_in_epoch as i64;
            self.samples_in_epoch += 1;
            self.samples += 1;
        }
        self.asked = Instant::now();
    }

    pub fn was_in_order(&self) -> bool {
        self.in_order
    }

    /// Returns the measurements. To be called right after the last epoch.
    pub fn figures(mut self) -> Figures {
        let (seconds, cpu) = (self.start.elapsed().as_secs_f64(), cpu_seconds() - self.cpu_at_start);
        self.waits.sort_unstable();
        let percentile = |percent: usize| self.waits[(self.waits.len() - 1) * percent / 100].as_secs_f64();
        Figures {
            samples_per_second: self.samples as f64 / seconds,
            cpu_per_sample: cpu / self.samples as f64,
            median_wait: percentile(50),
            longest_wait: percentile(99),
            peak_mib: peak_mib(),
            in_order: true,
        }
    }
}

/// The results of one contender on one workload; times are in seconds.
#[derive(Debug, Clone)]
pub struct Figures {
    pub samples_per_second: f64,
    pub cpu_per_sample: f64,
    pub median_wait: f64,
    /// The 99th percentile.
    pub longest_wait: f64,
    pub peak_mib: f64,
    pub in_order: bool,
}

impl Figures {
    pub fn to_line(&self) -> String {
        let Self { samples_per_second, cpu_per_sample, median_wait, longest_wait, peak_mib, in_order } = self;
        format!("{samples_per_second} {cpu_per_sample} {median_wait} {longest_wait} {peak_mib} {}", u8::from(*in_order))
    }

    pub fn from_line(line: &str) -> Option<Self> {
        let numbers: Vec<f64> = line.split_whitespace().map_while(|number| number.parse().ok()).collect();
        let [samples_per_second, cpu_per_sample, median_wait, longest_wait, peak_mib, in_order] = numbers[..] else {
            return None;
        };
        let in_order = in_order > 0.0;
        Some(Self { samples_per_second, cpu_per_sample, median_wait, longest_wait, peak_mib, in_order })
    }

    pub fn failed() -> Self {
        let none = f64::NAN;
        Self {
            samples_per_second: none,
            cpu_per_sample: none,
            median_wait: none,
            longest_wait: none,
            peak_mib: none,
            in_order: false,
        }
    }
}

/// Returns the CPU time of all threads of this process.
fn cpu_seconds() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the struct that it is given.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Returns the peak memory of this process, including the pages of mapped files.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(f64::NAN) / 1024.0
}
