//! The two ends of the memory that a consumer and its worker processes share; the worker's end is on a thread here.

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::DType;
use sluicegate::internal::{Answer, BatchNumber, EventWoken, Outcome, TaskKind, WorkerEnd, Workers};

use crate::own_process::alone;

const SOON: Duration = Duration::from_secs(20);

fn number(batch_in_epoch: u64) -> BatchNumber {
    BatchNumber { epoch: 0, batch_in_epoch }
}

fn open(workers: &Workers, worker: usize) -> WorkerEnd {
    let (memory, bell) = workers.descriptors();
    let bell = bell.try_clone_to_owned().unwrap();
    WorkerEnd::open(workers.layout(), memory.as_fd(), bell, worker).unwrap()
}

/// Makes batches as large as the payload says, filled with the last byte of their number, until it is asked to stop.
fn work(mut end: WorkerEnd) {
    loop {
        let Some(task) = end.next(SOON).unwrap() else { panic!("nothing to do for {SOON:?}") };
        match task.kind {
            TaskKind::Stop => return,
            TaskKind::Resume => continue,
            TaskKind::Fetch => {}
        }
        let sizes: Vec<usize> =
            task.payload.chunks(8).map(|size| u64::from_ne_bytes(size.try_into().unwrap()) as usize).collect();
        for size in &sizes {
            let field = end.place(DType::UInt8, vec![*size]).unwrap();
            assert_eq!(end.field(field).unwrap(), (DType::UInt8, &[*size][..]));
            end.bytes_mut(field).unwrap().fill(task.number.batch_in_epoch as u8);
        }
        match task.number.batch_in_epoch % 10 {
            7 => end.answer(Outcome::Failed, b"it failed").unwrap(),
            8 => end.answer(Outcome::Ended, b"").unwrap(),
            _ => end.answer(Outcome::Batch, format!("{sizes:?}").as_bytes()).unwrap(),
        }
    }
}

fn payload(sizes: &[usize]) -> Vec<u8> {
    sizes.iter().flat_map(|&size| (size as u64).to_ne_bytes()).collect()
}

fn next_answer(workers: &mut Workers) -> Answer {
    let mut wait = workers.answer_wait();
    loop {
        if let Some(answer) = workers.take().unwrap() {
            return answer;
        }
        assert_eq!(wait.wait(&[], Some(SOON)), EventWoken::Work);
    }
}

/// Asserts that the answer contains what `work` writes for these sizes.
fn check(answer: &Answer, sizes: &[usize]) {
    assert_eq!(answer.fields.iter().map(|field| field.bytes().unwrap()).collect::<Vec<_>>(), sizes);
    for field in &answer.fields {
        let bytes = &answer.lease.bytes()[field.offset..field.offset + field.bytes().unwrap()];
        assert!(bytes.iter().all(|&byte| byte == answer.number.batch_in_epoch as u8), "batch {:?}", answer.number);
    }
    assert_eq!(&answer.lease.bytes()[answer.envelope.clone()], format!("{sizes:?}").as_bytes());
}

#[test]
fn batches_of_any_size_return_in_request_order_and_stay_valid() {
    let mut workers = Workers::new(1, 4, 2).unwrap();
    let worker = thread::Builder::new();
    let end = open(&workers, 0);
    let worker = worker.spawn(move || work(end)).unwrap();
    // From a few bytes to tens of megabytes and back, several tensors, no tensors, and empty ones.
    let sizes: Vec<Vec<usize>> = (0..60_usize)
        .map(|batch| match batch % 6 {
            0 => vec![4],
            1 => vec![100_000, 7, 0],
            2 => vec![(batch + 1) << 19],
            3 => Vec::new(),
            4 => vec![1 << 20; 3],
            _ => vec![4096, 4096],
        })
        .collect();
    let mut kept = Vec::new();
    for window in 0..sizes.len() / 4 {
        let batches = window * 4..window * 4 + 4;
        for batch in batches.clone() {
            workers.send(0, TaskKind::Fetch, number(batch as u64), &payload(&sizes[batch])).unwrap();
        }
        for batch in batches {
            let answer = next_answer(&mut workers);
            assert_eq!((answer.worker, answer.number), (0, number(batch as u64)));
            match batch % 10 {
                7 => assert_eq!(&answer.lease.bytes()[answer.envelope.clone()], b"it failed"),
                8 => assert_eq!(answer.outcome, Outcome::Ended),
                _ => {
                    check(&answer, &sizes[batch]);
                    if batch % 3 == 0 {
                        kept.push((batch, answer));
                    }
                }
            }
        }
    }
    for (batch, answer) in &kept {
        check(answer, &sizes[*batch]);
    }
    drop(kept);
    // Memory of formerly large batches is returned: only small batches come now.
    for batch in 100..160 {
        let batch = batch * 10;
        workers.send(0, TaskKind::Fetch, number(batch), &payload(&[100])).unwrap();
        check(&next_answer(&mut workers), &[100]);
    }
    assert!(workers.held_bytes() <= 2 << 20, "{} bytes are held", workers.held_bytes());
    workers.send(0, TaskKind::Stop, number(0), &[]).unwrap();
    worker.join().unwrap();
}

#[test]
fn batches_larger_than_expected_are_in_the_newest_spare_room() {
    // Under a limit, spare room is a few megabytes, of which one batch takes most.
    alone("workers::batches_larger_than_expected_are_in_the_newest_spare_room", "ulimit -v 2000000;", || {
        let mut workers = Workers::new(16, 4, 2).unwrap();
        let spare = workers.layout().2 / 4;
        let end = open(&workers, 0);
        let worker = thread::Builder::new().spawn(move || work(end)).unwrap();
        for (batch, sizes) in [[spare / 8 * 5], [spare / 8 * 7], [1000], [spare / 8 * 7]].iter().enumerate() {
            workers.send(0, TaskKind::Fetch, number(batch as u64), &payload(sizes)).unwrap();
            check(&next_answer(&mut workers), sizes);
        }
        workers.send(0, TaskKind::Stop, number(0), &[]).unwrap();
        worker.join().unwrap();
    });
}

#[test]
fn answers_of_several_workers_come_in_the_order_in_which_they_were_ready() {
    let mut workers = Workers::new(3, 2, 2).unwrap();
    let ends: Vec<WorkerEnd> = (0..3).map(|worker| open(&workers, worker)).collect();
    thread::scope(|scope| {
        for end in ends {
            scope.spawn(|| work(end));
        }
        for round in 0..50_u64 {
            for worker in [2, 0, 1] {
                workers.send(worker, TaskKind::Fetch, number(round * 10), &payload(&[worker * 1000])).unwrap();
            }
            let mut answering: Vec<usize> = (0..3).map(|_| next_answer(&mut workers).worker).collect();
            answering.sort_unstable();
            assert_eq!(answering, [0, 1, 2]);
        }
        workers.stop();
    });
}

#[test]
fn an_abandoned_epoch_does_not_leak_into_the_next() {
    let mut workers = Workers::new(1, 4, 2).unwrap();
    let end = open(&workers, 0);
    thread::scope(|scope| {
        scope.spawn(|| work(end));
        for batch in 0..4 {
            workers.send(0, TaskKind::Fetch, number(batch), &payload(&[10])).unwrap();
        }
        workers.send(0, TaskKind::Resume, BatchNumber { epoch: 1, batch_in_epoch: 0 }, b"seed").unwrap();
        workers.send(0, TaskKind::Fetch, BatchNumber { epoch: 1, batch_in_epoch: 0 }, &payload(&[20])).unwrap();
        let epochs: Vec<u64> = (0..5).map(|_| next_answer(&mut workers).number.epoch).collect();
        assert_eq!(epochs, [0, 0, 0, 0, 1]);
        workers.stop();
    });
}

#[test]
fn waiting_ends_in_time_and_too_many_requests_are_refused() {
    let mut workers = Workers::new(2, 1, 2).unwrap();
    let begin = Instant::now();
    assert_eq!(workers.answer_wait().wait(&[], Some(Duration::from_millis(30))), EventWoken::TimedOut);
    assert!(begin.elapsed() >= Duration::from_millis(30));
    assert_eq!(workers.busy_since(0), 0);
    let sent =
        (0..100).map(|batch| workers.send(1, TaskKind::Fetch, number(batch), b"")).take_while(Result::is_ok).count();
    assert!((1..100).contains(&sent));
    // New processes find no trace of that.
    workers.renew();
    let mut end = open(&workers, 1);
    assert!(end.next(Duration::from_millis(10)).unwrap().is_none());
}

#[test]
fn a_worker_without_a_request_cannot_place_or_answer() {
    let workers = Workers::new(1, 1, 2).unwrap();
    let mut end = open(&workers, 0);
    assert!(end.place(DType::Int64, vec![3]).is_err());
    assert!(end.bytes_mut(0).is_err());
    assert!(end.field(0).is_err());
    assert!(end.answer(Outcome::Batch, b"").is_err());
}
