//! The permutation is a bijection at every length; its orders and the samples' keys are pinned and never coincide.

use std::collections::HashSet;

use sluicegate::{Permutation, sample_key};

use crate::fingerprint::fingerprint;

fn assert_bijection(len: u64, seed: u64, epoch: u64) {
    let permutation = Permutation::new(len, seed, epoch);
    assert_eq!(permutation.len(), len);
    assert_eq!(permutation.is_empty(), len == 0);
    let mut seen = vec![0_u64; (len as usize).div_ceil(64)];
    for position in 0..len {
        let index = permutation.index_at(position);
        assert!(index < len, "len {len}: index {index} at position {position}");
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        assert_eq!(seen[word] & bit, 0, "len {len}: index {index} comes twice");
        seen[word] |= bit;
        assert_eq!(permutation.position_of(index), position, "len {len}");
    }
}

#[test]
fn every_index_comes_once_at_every_small_length() {
    for len in 0..=4096 {
        assert_bijection(len, len.wrapping_mul(0x9e37_79b9), len % 7);
    }
}

#[test]
fn every_index_comes_once_around_every_power_of_two() {
    for exponent in 1..=22 {
        for len in [(1 << exponent) - 1, 1 << exponent, (1 << exponent) + 1] {
            assert_bijection(len, u64::MAX - len, exponent);
        }
    }
}

#[test]
fn the_inverse_finds_every_position_at_lengths_beyond_enumeration() {
    let around_powers = (23..64).flat_map(|exponent| [(1_u64 << exponent) - 1, 1 << exponent, (1 << exponent) + 1]);
    for len in around_powers.chain([1_000_000_000, 10_000_000_000, u64::MAX - 1, u64::MAX]) {
        let permutation = Permutation::new(len, 7, len);
        let edges = (0..100).flat_map(|step| [step, len / 2 + step, len - 1 - step]);
        let spread = (1..1000_u64).map(|step| step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % len);
        let mut seen = HashSet::new();
        for position in edges.chain(spread).collect::<HashSet<_>>() {
            let index = permutation.index_at(position);
            assert!(index < len, "len {len}: index {index} at position {position}");
            assert!(seen.insert(index), "len {len}: index {index} comes twice");
            assert_eq!(permutation.position_of(index), position, "len {len}");
            assert_eq!(permutation.index_at(permutation.position_of(position)), position, "len {len}");
        }
    }
}

#[test]
#[should_panic(expected = "position 10 of an order of 10 indices")]
fn a_position_past_the_end_is_refused() {
    Permutation::new(10, 0, 0).index_at(10);
}

#[test]
#[should_panic(expected = "index 1000 in an order of 1000 indices")]
fn an_index_past_the_end_is_refused() {
    Permutation::new(1000, 0, 0).position_of(1000);
}

fn head(len: u64, seed: u64, epoch: u64, count: u64) -> Vec<u64> {
    let permutation = Permutation::new(len, seed, epoch);
    (0..count.min(len)).map(|position| permutation.index_at(position)).collect()
}

#[test]
fn no_epoch_of_a_seed_is_an_epoch_of_another() {
    let near_and_far = || (0..24).chain([u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX]);
    for len in [200, 257, 1_000_000, 1 << 40] {
        let mut seen = HashSet::new();
        for seed in near_and_far() {
            for epoch in near_and_far() {
                assert!(seen.insert(head(len, seed, epoch, 24)), "len {len}: seed {seed} epoch {epoch} came before");
            }
        }
    }
}

#[test]
fn orders_of_two_lengths_epochs_or_seeds_agree_only_by_chance() {
    let base = head(1_000_000, 7, 3, 10_000);
    for (len, seed, epoch) in
        [(1_000_000, 7, 4), (1_000_000, 8, 3), (1_000_000, 8, 2), (1_000_000, 3, 7), (999_999, 7, 3)]
    {
        let other = head(len, seed, epoch, 10_000);
        let agreeing = base.iter().zip(&other).filter(|(one, two)| one == two).count();
        assert!(agreeing <= 2, "{agreeing} positions agree at {len} {seed} {epoch}");
    }
}

#[test]
fn orders_never_change() {
    // Length, seed, epoch, the first indices, the fingerprint of the first thousand.
    let golden: &[(u64, u64, u64, &[u64], u64)] = &[
        (0, 0, 0, &[], 0),
        (1, 0, 0, &[0], 0),
        (10, 0, 0, &[0, 7, 5, 8, 1, 3], 0xb5b4_3434_1358_1622),
        (255, 7, 1, &[166, 216, 105, 221, 54, 109], 0x20de_b5a3_cdcc_6ace),
        (256, 7, 1, &[225, 197, 127, 230, 156, 120], 0x5129_f8f5_d0b3_e31d),
        (1000, 7, 0, &[188, 524, 11, 976, 313, 966], 0x4af1_e91b_741d_40bd),
        (50_000, 0, 0, &[36974, 14979, 24197, 24898, 11745, 4156], 0x69f4_cd1b_3fbf_ceb2),
        (1_281_167, u64::MAX, 3, &[780463, 859164, 1071362, 751978], 0xd089_4e46_7760_1d41),
        (1_000_000_000, 7, 0, &[849567657, 280054664, 488077531], 0x9a50_8cb7_1063_2a15),
        ((1 << 30) + 1, 7, u64::MAX, &[975414817, 602610344, 443692818], 0x15e0_0cc7_5f81_2fe8),
        (10_000_000_000, 42, 1, &[5799355751, 6698226343, 2929330038], 0x886f_d4c7_0dcf_bb14),
        (1 << 63, 7, 0, &[5196695430255362184, 5403909597571174732], 0x7887_e3df_c71d_36a2),
    ];
    for &(len, seed, epoch, first, thousand) in golden {
        assert_eq!(head(len, seed, epoch, first.len() as u64), first, "len {len} seed {seed} epoch {epoch}");
        let found = fingerprint(head(len, seed, epoch, 1000));
        assert_eq!(found, thousand, "len {len} seed {seed} epoch {epoch}: {found:#x}");
    }
}

#[test]
fn sample_keys_never_change() {
    assert_eq!(sample_key(0, 0, 0), 0x6d59_67e3_f481_691e);
    assert_eq!(sample_key(7, 0, 42), 0x28e8_5951_66d6_5bd8);
    assert_eq!(sample_key(u64::MAX, u64::MAX, u64::MAX), 0x6e0e_3cb2_2be8_2184);
}

#[test]
fn no_two_samples_share_a_key() {
    let near_and_far = || (0..64).chain([u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX]);
    let mut seen = HashSet::new();
    for seed in near_and_far() {
        for epoch in near_and_far() {
            for index in near_and_far() {
                assert!(seen.insert(sample_key(seed, epoch, index)), "{seed} {epoch} {index} came before");
            }
        }
    }
}

#[test]
fn each_bit_of_a_sample_key_depends_on_each_bit_of_what_it_is_made_from() {
    const TRIES: u64 = 2000;
    for argument in 0..3 {
        for flipped in 0..64 {
            let mut changes = [0_u64; 64];
            for attempt in 0..TRIES {
                let mut place = [attempt, attempt / 7, attempt * attempt];
                let before = sample_key(place[0], place[1], place[2]);
                place[argument] ^= 1 << flipped;
                let difference = before ^ sample_key(place[0], place[1], place[2]);
                for (bit, count) in changes.iter_mut().enumerate() {
                    *count += (difference >> bit) & 1;
                }
            }
            for (bit, &count) in changes.iter().enumerate() {
                // Six standard deviations of a fair coin.
                assert!(count.abs_diff(TRIES / 2) < 135, "bit {bit} on bit {flipped} of argument {argument}: {count}");
            }
        }
    }
}
