//! The loader of items: it equals the field loader except for the type of a batch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sluicegate::{
    BatchLimit, DataLoader, Delivery, Error, ItemDataset, ItemDatasetExt, ItemLoader, LastBatch,
    LengthBucketBatchSampler, LoaderState, Remainder, Result, Shard, Shuffling, reuse_batches, sample_key,
};

use crate::datasets::Numbers;
use crate::own_process::{NO_THREADS, alone, threads_named};

/// A value that is neither `Clone` nor `Debug`.
struct Bare(usize);

fn numbers(len: usize) -> Vec<usize> {
    (0..len).collect()
}

/// The two loaders with the same settings: of fields, and of items.
#[derive(Debug, Clone, Copy)]
struct Setting {
    len: usize,
    batch_size: usize,
    last_batch: LastBatch,
    seed: u64,
    threads: usize,
    world_size: usize,
}

impl Setting {
    fn of_fields(self) -> DataLoader {
        let builder = DataLoader::builder(Arc::new(Numbers::new(self.len))).batch_size(self.batch_size);
        let builder = builder.last_batch(self.last_batch).shuffle(self.seed).threads(self.threads);
        builder.shard(self.shard(), Remainder::Exact).build().unwrap()
    }

    fn of_items(self) -> ItemLoader<'static, Vec<u64>> {
        let dataset = numbers(self.len).map(|number| Ok(number as u64));
        let builder = ItemLoader::builder(dataset, |items: Vec<u64>| Ok(items)).batch_size(self.batch_size);
        let builder = builder.last_batch(self.last_batch).shuffle(self.seed).threads(self.threads);
        builder.shard(self.shard(), Remainder::Exact).build().unwrap()
    }

    fn shard(self) -> Shard {
        Shard::new(self.world_size - 1, self.world_size).unwrap()
    }
}

fn setting() -> impl Strategy<Value = Setting> {
    let last_batch = prop::sample::select(vec![LastBatch::Keep, LastBatch::Drop]);
    (1_usize..120, 1_usize..20, last_batch, any::<u64>(), 0_usize..4, 1_usize..4).prop_map(
        |(len, batch_size, last_batch, seed, threads, world_size)| Setting {
            len,
            batch_size,
            last_batch,
            seed,
            threads,
            world_size,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn both_loaders_have_one_order_and_one_state(setting in setting(), epoch in 0_u64..1000, left_at in 0_usize..20) {
        let (fields, items) = (setting.of_fields(), setting.of_items());
        let mut of_fields = fields.epoch(epoch)?.with_ids();
        let mut of_items = items.epoch(epoch)?.with_ids();
        prop_assert_eq!(of_fields.len(), of_items.len());
        for _ in 0..left_at.min(of_fields.len()) {
            let ((batch, ids), (item_batch, item_ids)) = (of_fields.next().unwrap()?, of_items.next().unwrap()?);
            prop_assert_eq!(batch.to_vec::<u64>(0)?, item_batch);
            prop_assert_eq!(ids, item_ids);
        }
        let state = LoaderState::from_json(&of_fields.state().to_json())?;
        prop_assert_eq!(&state, &of_items.state());
        let rest: Vec<_> = of_fields.map(|batch| batch.unwrap().0.to_vec::<u64>(0).unwrap()).collect();
        prop_assert_eq!(items.resume(&state)?.collect::<Result<Vec<_>>>()?, rest);
    }
}

#[test]
fn a_batching_sampler_makes_the_batches_of_items() {
    let lengths: Vec<usize> = (0..50).map(|number| number * 7 % 13 + 1).collect();
    let by_length: Vec<i64> = lengths.iter().map(|&length| length as i64).collect();
    let limit = BatchLimit::Tokens(40);
    let sampler = LengthBucketBatchSampler::new(&by_length, limit, 50, LastBatch::Keep, Shuffling::Seeded(7)).unwrap();
    let loader =
        ItemLoader::builder(lengths, |items: Vec<usize>| Ok(items)).batches(Arc::new(sampler)).build().unwrap();
    let batches = loader.epoch(0).unwrap().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(batches.concat().len(), 50);
    assert!(batches.iter().all(|batch| batch.len() * batch.iter().max().unwrap() <= 40), "{batches:?}");
}

#[test]
fn items_and_batches_may_borrow_from_the_stack() {
    let values: Vec<Bare> = (0..500).map(Bare).collect();
    let slow = (&values[..]).map(|bare: &Bare| {
        thread::sleep(Duration::from_micros(30));
        Ok(bare)
    });
    for delivery in [Delivery::InOrder, Delivery::AsCompleted] {
        let seen = AtomicUsize::new(0);
        thread::scope(|scope| {
            let builder = ItemLoader::builder(&slow, |items: Vec<&Bare>| {
                seen.fetch_add(items.len(), Ordering::Relaxed);
                Ok(items.into_iter().map(|bare| &bare.0).collect::<Vec<&usize>>())
            });
            let builder = builder.batch_size(7).scoped_threads(scope, 3).delivery(delivery);
            let loader = builder.build().unwrap();
            for epoch in 0..3 {
                let batches = loader.epoch(epoch).unwrap().map(Result::unwrap);
                let mut items: Vec<usize> = batches.flatten().copied().collect();
                if delivery == Delivery::AsCompleted {
                    items.sort_unstable();
                }
                assert!(items.into_iter().eq(0..500));
            }
        });
        assert_eq!(seen.into_inner(), 1500);
    }
}

#[test]
fn without_threads_borrowed_data_is_allowed() {
    let text = String::from("a b c d e");
    let words: Vec<&str> = text.split(' ').collect();
    let longest = 3;
    let loader =
        ItemLoader::builder(words, |items: Vec<&str>| Ok(items.len() == longest)).batch_size(3).build().unwrap();
    assert_eq!(loader.epoch(0).unwrap().collect::<Result<Vec<_>>>().unwrap(), [true, false]);
}

#[test]
fn scoped_threads_end_with_their_loader_and_a_leaked_one_does_not_keep_its_scope() {
    alone("item_loader::scoped_threads_end_with_their_loader_and_a_leaked_one_does_not_keep_its_scope", "", || {
        let slow = |number| {
            thread::sleep(Duration::from_micros(300));
            Ok(number)
        };
        let values = numbers(60).map(slow);
        thread::scope(|scope| {
            let loader = ItemLoader::builder(&values, |items: Vec<usize>| Ok(items)).scoped_threads(scope, 2);
            let loader = loader.batch_size(4).build().unwrap();
            assert_eq!(threads_named("sluice-scoped"), 0, "nothing was asked for yet");
            assert_eq!(loader.epoch(0).unwrap().count(), 15);
            assert_eq!(threads_named("sluice-scoped"), 2, "they are kept for the next epoch");
            drop(loader);
            let end = Instant::now() + Duration::from_millis(900);
            while threads_named("sluice-scoped") > 0 {
                assert!(Instant::now() < end, "they do not wait for their rest to end");
                thread::sleep(Duration::from_millis(1));
            }
            let leaked = ItemLoader::builder(&values, |items: Vec<usize>| Ok(items)).scoped_threads(scope, 2);
            let leaked = leaked.batch_size(4).build().unwrap();
            assert_eq!(leaked.epoch(0).unwrap().count(), 15);
            std::mem::forget(leaked);
        });
    });
}

#[test]
fn without_the_threads_that_it_needs_an_epoch_ends_with_one_error() {
    alone("item_loader::without_the_threads_that_it_needs_an_epoch_ends_with_one_error", NO_THREADS, || {
        thread::scope(|scope| {
            let loader = ItemLoader::builder(numbers(9), |items: Vec<usize>| Ok(items)).scoped_threads(scope, 2);
            let outcomes: Vec<_> = loader.build().unwrap().epoch(0).unwrap().take(100).collect();
            assert!(matches!(outcomes[..], [Err(Error::Threads { threads: 2, .. })]), "{}", outcomes.len());
        });
    });
}

#[test]
fn a_pool_of_the_caller_s_own_fetches() {
    let named = |thread| format!("own-{thread}");
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).thread_name(named).build().unwrap());
    let where_read = |number| {
        thread::sleep(Duration::from_micros(200));
        Ok((number, thread::current().name().map(String::from)))
    };
    let dataset = numbers(40).map(where_read);
    let loader = ItemLoader::builder(dataset, |items: Vec<(usize, Option<String>)>| Ok(items)).batch_size(2).pool(pool);
    let all = loader.build().unwrap().epoch(0).unwrap().collect::<Result<Vec<_>>>().unwrap().concat();
    assert!(all.iter().map(|(number, _)| *number).eq(0..40));
    assert!(all.iter().all(|(_, name)| name.as_ref().is_some_and(|name| name.starts_with("own-"))), "{all:?}");
}

#[test]
fn conflicting_thread_settings_are_refused() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let builder = || ItemLoader::builder(numbers(9), |items: Vec<usize>| Ok(items));
    let Err(error) = builder().threads(2).pool(Arc::clone(&pool)).build() else { panic!("both are given") };
    assert!(
        matches!(&error, Error::InvalidArgument { argument: "pool", reason } if reason.contains("threads")),
        "{error}"
    );
    assert_eq!(builder().threads(2).threads(0).pool(pool).build().unwrap().epoch(0).unwrap().count(), 9);
}

#[test]
fn a_pool_whose_only_thread_takes_the_batches_fetches_them_too() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let loader =
        ItemLoader::builder(numbers(9), |items: Vec<usize>| Ok(items)).pool(Arc::clone(&pool)).build().unwrap();
    let batches: Vec<_> = pool.install(|| loader.epoch(0).unwrap().collect::<Result<_>>()).unwrap();
    assert!(batches.concat().into_iter().eq(0..9));
}

#[test]
fn a_panic_is_the_error_of_its_batch_and_names_its_sample() {
    let dataset = numbers(40).map(|number| {
        assert!(number != 13, "thirteen");
        Ok(number)
    });
    let collate = |items: Vec<usize>| {
        assert!(!items.contains(&30), "thirty");
        Ok(items)
    };
    for threads in [0, 2] {
        let outcomes: Vec<_> = thread::scope(|scope| {
            let builder = ItemLoader::builder(&dataset, collate).batch_size(5).scoped_threads(scope, threads);
            builder.build().unwrap().epoch(0).unwrap().collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 6);
        let Err(Error::Panic { index: Some(13), message }) = &outcomes[2] else { panic!("{:?}", outcomes[2]) };
        assert_eq!(message, "thirteen");
        let Err(Error::Panic { message, index: None }) = &outcomes[6] else { panic!("{:?}", outcomes[6]) };
        assert_eq!(message, "thirty");
        assert!(outcomes[2].as_ref().unwrap_err().to_string().contains("sample 13"));
    }
}

#[test]
fn a_panic_of_a_batched_read_alone_and_a_wrong_number_of_items_are_errors() {
    struct Odd(fn(&[usize]) -> Vec<usize>);
    impl ItemDataset for Odd {
        type Item = usize;
        fn len(&self) -> usize {
            10
        }
        fn item(&self, index: usize) -> Result<usize> {
            Ok(index)
        }
        fn items(&self, indices: &[usize]) -> Result<Vec<usize>> {
            Ok((self.0)(indices))
        }
    }
    let first = |odd| {
        let loader = ItemLoader::builder(Odd(odd), |items: Vec<usize>| Ok(items)).batch_size(4).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap().unwrap_err().to_string()
    };
    let error = first(|_| panic!("odd"));
    assert!(error.contains("odd (in a read of 4 items, 0 the first)"), "{error}");
    let error = first(|indices| indices[1..].to_vec());
    assert!(error.contains("3 items for 4 indices"), "{error}");
}

#[test]
fn a_user_s_error_comes_out_as_itself_and_the_next_batch_follows() {
    let dataset = numbers(9).map(|number| if number == 4 { Err(Error::User("four".into())) } else { Ok(number) });
    let loader = ItemLoader::builder(dataset, |items: Vec<usize>| Ok(items)).batch_size(3).threads(2).build().unwrap();
    let outcomes: Vec<_> = loader.epoch(0).unwrap().collect();
    assert!(matches!(&outcomes[1], Err(Error::User(error)) if error.to_string() == "four"));
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
}

#[test]
fn dropping_the_iterator_ends_what_it_has_begun() {
    let running = Arc::new(AtomicUsize::new(0));
    let begun = Arc::new(AtomicBool::new(false));
    let (counter, flag) = (Arc::clone(&running), Arc::clone(&begun));
    let dataset = numbers(1000).map(move |number| {
        counter.fetch_add(1, Ordering::SeqCst);
        flag.store(true, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(5));
        counter.fetch_sub(1, Ordering::SeqCst);
        Ok(number)
    });
    let loader = ItemLoader::builder(dataset, |items: Vec<usize>| Ok(items)).threads(2).prefetch(500).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    batches.next().unwrap().unwrap();
    let start = Instant::now();
    drop(batches);
    assert_eq!(running.load(Ordering::SeqCst), 0, "what ran was waited for");
    assert!(start.elapsed() < Duration::from_secs(1), "and what had not begun was not");
    begun.store(false, Ordering::SeqCst);
    thread::sleep(Duration::from_millis(20));
    assert!(!begun.load(Ordering::SeqCst), "nor does it begin later");
    assert_eq!(loader.epoch(0).unwrap().take(3).count(), 3, "the next epoch has the threads");
}

#[test]
fn batches_are_reused_only_after_they_are_dropped() {
    let collate = || {
        reuse_batches(|items: Vec<usize>, into: &mut Vec<usize>| {
            let refused = items.contains(&50);
            into.clear();
            into.extend(items);
            if refused { Err(Error::User("fifty".into())) } else { Ok(()) }
        })
    };
    for threads in [0, 2] {
        let slow = numbers(100).map(|number| {
            thread::sleep(Duration::from_micros(50));
            Ok(number)
        });
        let loader = ItemLoader::builder(slow, collate()).batch_size(10).threads(threads).build().unwrap();
        let addresses: BTreeSet<_> =
            loader.epoch(0).unwrap().filter_map(Result::ok).map(|batch| batch.as_ptr()).collect();
        assert!(addresses.len() < 9, "{threads} threads: {} of 9", addresses.len());
        let kept: Vec<_> = loader.epoch(0).unwrap().filter_map(Result::ok).collect();
        let all = kept.iter().flat_map(|batch| batch.iter().copied());
        assert!(all.eq((0..100).filter(|number| number / 10 != 5)), "what is kept stays as it was");
    }
}

#[test]
fn draws_depend_only_on_seed_epoch_and_index() {
    let draws = || numbers(60).map_random(|number, key| Ok((number, key))).skip(10);
    let expected = |seed, epoch| move |index: usize| (index + 10, sample_key(seed, epoch, index as u64));
    for threads in [0, 3] {
        let builder = ItemLoader::builder(draws(), |items: Vec<(usize, u64)>| Ok(items)).batch_size(7);
        let loader = builder.shuffle(3).seed(5).threads(threads).build().unwrap();
        for epoch in 0..2 {
            let mut batches = loader.epoch(epoch).unwrap();
            let mut all = batches.by_ref().take(3).collect::<Result<Vec<_>>>().unwrap();
            all.extend(loader.resume(&batches.state()).unwrap().map(Result::unwrap));
            let mut all = all.concat();
            all.sort_unstable();
            assert!(all.into_iter().eq((0..50).map(expected(5, epoch))));
        }
        // The seed of the order is the seed of the items, unless another is set.
        let builder = ItemLoader::builder(draws(), |items: Vec<(usize, u64)>| Ok(items)).batch_size(50);
        let mut all = builder.shuffle(3).build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
        all.sort_unstable();
        assert!(all.into_iter().eq((0..50).map(expected(3, 0))));
    }
    let refused = ItemLoader::builder(draws(), |items: Vec<(usize, u64)>| Ok(items)).build().err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "seed", .. }), "{refused}");
}

#[test]
fn a_panic_names_its_random_item() {
    let key_of_five = sample_key(7, 0, 5);
    let dataset = numbers(9).map_random(move |number, key| {
        assert!(key != key_of_five, "five");
        Ok(number)
    });
    let builder = ItemLoader::builder(dataset, |items: Vec<usize>| Ok(items)).batch_size(9).seed(7);
    let error = builder.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(&error, Error::Panic { index: Some(5), message } if message == "five"), "{error}");
}
