//! Torch's generator and shuffle, compared with values from torch 2.15.

use sluicegate::TorchGenerator;

use crate::fingerprint::fingerprint;

/// The values that a generator of `seed` returns in turn, after `randperm` of 0, 1, and 2: calls are consecutive, so
/// one draw too many or too few shows in all later values.
struct Golden {
    seed: u64,
    first: [usize; 10],
    second: [usize; 10],
    int64: i64,
    below_ten: [u64; 4],
    below_2_28_less_1: [u64; 2],
    below_2_28: [u64; 2],
    words: [u64; 2],
    thousand: u64,
}

const GOLDENS: [Golden; 8] = [
    Golden {
        seed: 0,
        first: [9, 3, 2, 4, 7, 1, 0, 8, 6, 5],
        second: [1, 3, 6, 8, 0, 2, 5, 7, 4, 9],
        int64: 8811366071046929894,
        below_ten: [9, 1, 4, 4],
        below_2_28_less_1: [76385111, 217310899],
        below_2_28: [36662093, 105782025],
        words: [0xa5ee_9794_052d_0873, 0x5e45_13d0_d526_92f3],
        thousand: 0x2bdb_1015_58a6_bbb8,
    },
    Golden {
        seed: 1,
        first: [9, 1, 2, 6, 5, 3, 7, 0, 8, 4],
        second: [8, 4, 6, 0, 5, 1, 3, 7, 2, 9],
        int64: 6388308880124826878,
        below_ten: [3, 6, 4, 3],
        below_2_28_less_1: [25567491, 13389304],
        below_2_28: [117628829, 195281458],
        words: [0xe9f9_6a44_6ad4_7cd7, 0x750b_5fd7_8f06_4be9],
        thousand: 0x88ae_e423_9981_ca49,
    },
    Golden {
        seed: 7,
        first: [2, 8, 1, 4, 7, 3, 9, 0, 6, 5],
        second: [8, 2, 1, 4, 6, 5, 0, 3, 9, 7],
        int64: 512169999652226116,
        below_ten: [0, 5, 1, 8],
        below_2_28_less_1: [77061638, 14758988],
        below_2_28: [163834106, 148578067],
        words: [0xb1ac_0dbc_36a0_6c2c, 0x5891_aebf_73be_6545],
        thousand: 0x7596_c9c3_b6b9_662a,
    },
    Golden {
        seed: 4294967295,
        first: [8, 9, 1, 6, 0, 7, 4, 5, 3, 2],
        second: [7, 8, 4, 2, 0, 1, 9, 6, 5, 3],
        int64: 2823189996252157239,
        below_ten: [8, 6, 7, 1],
        below_2_28_less_1: [145228688, 243813979],
        below_2_28: [251400548, 48877047],
        words: [0x7d69_3e98_e36a_dad6, 0xe7dc_b211_7d69_2774],
        thousand: 0x6de9_960c_a873_5f03,
    },
    Golden {
        seed: 4294967296,
        first: [9, 3, 2, 4, 7, 1, 0, 8, 6, 5],
        second: [1, 3, 6, 8, 0, 2, 5, 7, 4, 9],
        int64: 8811366071046929894,
        below_ten: [9, 1, 4, 4],
        below_2_28_less_1: [76385111, 217310899],
        below_2_28: [36662093, 105782025],
        words: [0xa5ee_9794_052d_0873, 0x5e45_13d0_d526_92f3],
        thousand: 0x2bdb_1015_58a6_bbb8,
    },
    Golden {
        seed: 4294967303,
        first: [2, 8, 1, 4, 7, 3, 9, 0, 6, 5],
        second: [8, 2, 1, 4, 6, 5, 0, 3, 9, 7],
        int64: 512169999652226116,
        below_ten: [0, 5, 1, 8],
        below_2_28_less_1: [77061638, 14758988],
        below_2_28: [163834106, 148578067],
        words: [0xb1ac_0dbc_36a0_6c2c, 0x5891_aebf_73be_6545],
        thousand: 0x7596_c9c3_b6b9_662a,
    },
    Golden {
        seed: 9223372036854775813,
        first: [4, 8, 7, 9, 1, 2, 5, 6, 0, 3],
        second: [9, 4, 5, 2, 1, 8, 0, 7, 6, 3],
        int64: 5686793371791357365,
        below_ten: [7, 2, 9, 4],
        below_2_28_less_1: [236396752, 143064781],
        below_2_28: [21204399, 103450580],
        words: [0x3443_7c56_6a0b_4e7d, 0x1e7d_0892_4bcb_e4fe],
        thousand: 0x86cb_5d2b_41fe_a8e1,
    },
    Golden {
        seed: 18446744073709551615,
        first: [8, 9, 1, 6, 0, 7, 4, 5, 3, 2],
        second: [7, 8, 4, 2, 0, 1, 9, 6, 5, 3],
        int64: 2823189996252157239,
        below_ten: [8, 6, 7, 1],
        below_2_28_less_1: [145228688, 243813979],
        below_2_28: [251400548, 48877047],
        words: [0x7d69_3e98_e36a_dad6, 0xe7dc_b211_7d69_2774],
        thousand: 0x6de9_960c_a873_5f03,
    },
];

fn shuffled(len: usize, generator: &mut TorchGenerator) -> Vec<usize> {
    generator.randperm(len).expect("there is memory for it")
}

fn fingerprint_of(order: &[usize]) -> u64 {
    fingerprint(order.iter().map(|&index| index as u64))
}

#[test]
fn draws_are_those_of_torch() {
    for golden in &GOLDENS {
        let seed = golden.seed;
        let generator = &mut TorchGenerator::new(seed);
        for len in 0..3 {
            shuffled(len, generator);
        }
        assert_eq!(shuffled(10, generator), golden.first, "seed {seed}");
        assert_eq!(shuffled(10, generator), golden.second, "seed {seed}");
        assert_eq!(generator.random_int64(), golden.int64, "seed {seed}");
        assert_eq!(golden.below_ten.map(|_| generator.random_below(10)), golden.below_ten, "seed {seed}");
        let below = golden.below_2_28_less_1.map(|_| generator.random_below((1 << 28) - 1));
        assert_eq!(below, golden.below_2_28_less_1, "seed {seed}");
        assert_eq!(golden.below_2_28.map(|_| generator.random_below(1 << 28)), golden.below_2_28, "seed {seed}");
        assert_eq!(golden.words.map(|_| generator.random_u64()), golden.words, "seed {seed}");
        assert_eq!(fingerprint_of(&shuffled(1000, generator)), golden.thousand, "seed {seed}");
    }
}

#[test]
fn the_generator_is_the_published_one() {
    // The 10000th number with the default seed, as the C++ standard requires of std::mt19937.
    let mut generator = TorchGenerator::new(5489);
    let last = (0..10_000).map(|_| generator.random_u32()).last();
    assert_eq!(last, Some(4_123_659_995));
}

#[test]
fn short_orders_are_those_of_torch() {
    let golden = [
        (2, 0x38b2_be56_8b28_d394),
        (3, 0x5643_c37f_8226_4335),
        (7, 0x4dcc_2c7e_55cf_0417),
        (50, 0x0b40_18af_f0e8_0740),
        (300, 0x0727_7e68_f1cd_ce95),
        (1 << 20, 0x701c_a323_f815_7c17),
    ];
    for (len, expected) in golden {
        assert_eq!(fingerprint_of(&shuffled(len, &mut TorchGenerator::new(11))), expected, "len {len}");
    }
}

#[test]
fn a_long_order_is_that_of_torch() {
    let len = (1 << 24) + 5;
    let mut generator = TorchGenerator::new(4294967295);
    let order = shuffled(len, &mut generator);
    assert_eq!(order[..3], [16673067, 9584819, 9562451]);
    assert_eq!(order[len - 1], 8967641);
    assert_eq!(fingerprint_of(&order), 0x1e0a_e3a5_8c6b_a654);
    assert_eq!(generator.random_int64(), 8414865670411490487);
}

#[test]
#[ignore = "ten seconds: the algorithm of the test above, for other seeds and lengths"]
fn more_long_orders_are_those_of_torch() {
    let golden = [
        ((1 << 24) + 5, 0, [8325104, 12888020, 1483858], 118111, 0xe62c_34e9_67d3_8b21, 3658463376480041937),
        (
            (1 << 25) - 1,
            12345678901,
            [18653715, 7637442, 20302798],
            15904744,
            0x90f1_1717_8721_ac22,
            6351963988061476779,
        ),
    ];
    for (len, seed, first, last, expected, next) in golden {
        let mut generator = TorchGenerator::new(seed);
        let order = shuffled(len, &mut generator);
        assert_eq!(order[..3], first);
        assert_eq!(order[len - 1], last);
        assert_eq!(fingerprint_of(&order), expected, "len {len} seed {seed}");
        assert_eq!(generator.random_int64(), next, "len {len} seed {seed}");
    }
}

#[test]
#[ignore = "half a minute and 2 GB: the algorithm that torch takes from 2^32 / 20 indices on"]
fn orders_on_both_sides_of_the_change_of_algorithm_are_those_of_torch() {
    let golden = [
        (214748363, [112993252, 117420445, 128500308, 81485129], 34850603, 0x5def_da34_1447_d345, 4489087294733629461),
        (214748364, [93268064, 63068233, 165770247, 155513421], 187216702, 0x4f52_5462_9752_8e6b, 8386869047542952435),
    ];
    for (len, first, last, expected, next) in golden {
        let mut generator = TorchGenerator::new(7);
        let order = shuffled(len, &mut generator);
        assert_eq!(order[..4], first);
        assert_eq!(order[len - 1], last);
        assert_eq!(fingerprint_of(&order), expected, "len {len}");
        assert_eq!(generator.random_int64(), next, "len {len}");
    }
}

#[test]
fn a_skip_is_as_many_draws() {
    for count in [0, 1, 623, 624, 625, 1247, 1248, 1249, 10_000] {
        for before in [0, 1, 624, 700] {
            let mut drawn = TorchGenerator::new(3);
            let mut skipped = drawn.clone();
            for _ in 0..before + count {
                drawn.random_u32();
            }
            for _ in 0..before {
                skipped.random_u32();
            }
            skipped.skip(count);
            assert_eq!(skipped.random_u32(), drawn.random_u32(), "{before} draws, then a skip of {count}");
        }
    }
}

#[test]
fn an_order_too_large_for_memory_is_an_error() {
    let mut generator = TorchGenerator::new(0);
    let error = generator.randperm(usize::MAX).expect_err("it can't be held");
    assert!(error.to_string().contains("no memory for an order of 18446744073709551615 indices"), "{error}");
    assert_eq!(shuffled(5, &mut generator), [4, 0, 1, 3, 2]);
}
