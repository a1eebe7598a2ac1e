//! The orders of this version, which are guaranteed: a run that was saved with it resumes in them.
//!
//! If a test fails here, an order has changed. That is a breaking change: resumed runs get samples other than the rest
//! of the epoch. If it is intended, say so in the changelog, and replace the table here with the output of the failing
//! test.

use std::sync::Arc;

use sluicegate::{BatchingSampler, DataLoader, LoaderState, RandomSampler, Remainder, Sampler, Shard};

use crate::datasets::Numbers;
use crate::every_sampler::{batching_samplers, samplers};
use crate::fingerprint::fingerprint;

/// The places that are pinned for each sampler: these pairs of a seed and an epoch.
const PLACES: [(u64, u64); 3] = [(0, 0), (7, 1), (u64::MAX, 1000)];

/// Two lengths that are shuffled in tables, a power of two and the number after it, and one of many blocks and windows.
const LENS: [usize; 5] = [3, 10, 256, 257, 5000];

/// By sampler and length: a fingerprint of the order at each of [`PLACES`].
const GOLDEN: &[(&str, usize, [u64; 3])] = &[
    ("sequential", 3, [0x50d273fc94fe7b03, 0x50d273fc94fe7b03, 0x50d273fc94fe7b03]),
    ("random", 3, [0x5643c37f82264335, 0xf87b04669724f1d6, 0xf87b04669724f1d6]),
    ("random, more than all", 3, [0xe13370dd1dbb0b74, 0xf15961f292cdd536, 0x2ceca68c52320ebb]),
    ("random, replacement", 3, [0xacd5d99c9231491a, 0xadb2920b389e7af5, 0xacd5d99c9231491a]),
    ("torch", 3, [0x7cde6e721ad7cea0, 0x5c62ea65ce5bc2a7, 0x5643c37f82264335]),
    ("subset", 3, [0x60bc3a3c7210d997, 0x06450d0a6d553209, 0x06450d0a6d553209]),
    ("weighted", 3, [0x59085f8caeaf8dd6, 0x29ab2a34d5614ce8, 0x06d763a29d0a607d]),
    ("weighted, no replacement", 3, [0xedea4bfb2ca25cb3, 0xedea4bfb2ca25cb3, 0xedea4bfb2ca25cb3]),
    ("weighted, no replacement, all", 3, [0x5c62ea65ce5bc2a7, 0x5c62ea65ce5bc2a7, 0x5c62ea65ce5bc2a7]),
    ("blocks", 3, [0x50d273fc94fe7b03, 0x5643c37f82264335, 0x7cde6e721ad7cea0]),
    ("uneven blocks", 3, [0x50d273fc94fe7b03, 0x5643c37f82264335, 0x7cde6e721ad7cea0]),
    ("classes", 3, [0x5692161d100b05e5, 0x5692161d100b05e5, 0x5692161d100b05e5]),
    ("mixture", 3, [0xd8c7d2fa6f22ae65, 0x77a71e8ff58af21b, 0x662c3161d19fbaa0]),
    ("mixture, all once", 3, [0x29fa4bee9d01a50d, 0x6c2fe57ee2cddc02, 0x5ed18d8756d6b2fb]),
    ("mixture, ramp", 3, [0xf0038fcdeb05c78e, 0x6df3d11c1a7a3acc, 0x205333f906a4c6d9]),
    ("passes", 3, [0xcb92684ad4e8679c, 0x50a3a9b9b7a8fba6, 0x86e122bb4cc43f13]),
    ("in a row", 3, [0x269a800fb2c83cf9, 0x90f4d0b462b0889f, 0x90f4d0b462b0889f]),
    ("rank", 3, [0xdbd238973a2b148a, 0x0000000000000000, 0x0000000000000000]),
    ("batches", 3, [0xb8cff02665606a3f, 0xb651e804eb4e3ed4, 0xb651e804eb4e3ed4]),
    ("balanced batches", 3, [0x4dcca54b25b52ec2, 0xa0109687d265e72a, 0x28a12def32081fa2]),
    ("stratified batches", 3, [0xb651e804eb4e3ed4, 0x7b5b7f85e543b174, 0xb8cff02665606a3f]),
    ("batches of like length", 3, [0x57db5188a13f3635, 0x57db5188a13f3635, 0x57db5188a13f3635]),
    ("batches of like length, balanced", 3, [0x57db5188a13f3635, 0x57db5188a13f3635, 0x57db5188a13f3635]),
    ("batches of 400 tokens", 3, [0x57db5188a13f3635, 0x57db5188a13f3635, 0x57db5188a13f3635]),
    ("packed, concat", 3, [0xfdc101454343c44b, 0x0a0e621a285abd96, 0x0a0e621a285abd96]),
    ("packed, first fit", 3, [0xfdc101454343c44b, 0x0a0e621a285abd96, 0x0a0e621a285abd96]),
    ("packed, best fit", 3, [0xfdc101454343c44b, 0xfdc101454343c44b, 0xfdc101454343c44b]),
    ("sequential", 10, [0x79dc556f83ceabd0, 0x79dc556f83ceabd0, 0x79dc556f83ceabd0]),
    ("random", 10, [0xb5b4343413581622, 0x88107e3abfac5d4d, 0xeadcdcd64bf6ab62]),
    ("random, more than all", 10, [0x77f99f1303ca2640, 0x09c98b98864611d1, 0x797b21ca04168614]),
    ("random, replacement", 10, [0xff1adc58a9a472bb, 0xc27aa19f8b8f1d2d, 0x27814c43670d1e3a]),
    ("torch", 10, [0x9a6f9155a82caf0c, 0x588b203f7488dba4, 0x36971f4449c8f20e]),
    ("subset", 10, [0x836041630ed7b258, 0xe8f941a63af9048d, 0x86e313241c934d57]),
    ("weighted", 10, [0xf7ecb334355082af, 0x29b52370285a6caa, 0xa9b51fa634bfd978]),
    ("weighted, no replacement", 10, [0x3a71a4fc4da7ac3a, 0x991b2f8745aaf9c7, 0xfd63cf799413842f]),
    ("weighted, no replacement, all", 10, [0x6bea8ce3130d474b, 0xf8f7e15fa08aa2af, 0x99231dffdab6a8db]),
    ("blocks", 10, [0xfb1fda55a464a26b, 0x8e3a5a2c53f31028, 0x9dcecfbc81cfec25]),
    ("uneven blocks", 10, [0xfb1fda55a464a26b, 0x5b9a4d2586b4924c, 0x90f5d29ad4a5ba64]),
    ("classes", 10, [0x783eab00ea728090, 0x1ce313264e350124, 0xbc3e8dd6cdd21e93]),
    ("mixture", 10, [0x274dac27daa0d498, 0xa4d707797d8aaade, 0x9635ffa6996fa6e9]),
    ("mixture, all once", 10, [0x01e04f1e17c76dbe, 0x5be2a999957de13e, 0x0e9aa988fe2b96bc]),
    ("mixture, ramp", 10, [0x3925c23d1033f089, 0xc2b279fda50236a7, 0xd19491853b7613df]),
    ("passes", 10, [0xc01a7e3cf630fb5c, 0x51360905700cdad8, 0x0cebd2fea777a6bb]),
    ("in a row", 10, [0xb78dceb41634d3e0, 0xc37b433eaf22468d, 0xdd11d792d540b69d]),
    ("rank", 10, [0x6a450138901f9f66, 0x7817d0545bac309b, 0x88913115a8bbd4e4]),
    ("batches", 10, [0xae4a1cacda3d9e52, 0x1b2cccf0a89edcc0, 0xc8a72dd1a9dc223f]),
    ("balanced batches", 10, [0xc2af20e86e429e53, 0x7a17f9765ba05b08, 0x9b05feaf1012f567]),
    ("stratified batches", 10, [0x8a0a6bda35e3a322, 0x3e3218fb0e1b0607, 0x99ec3d3b65e0a609]),
    ("batches of like length", 10, [0x9a7753f42e844d26, 0x9a7753f42e844d26, 0x9a7753f42e844d26]),
    ("batches of like length, balanced", 10, [0x9a7753f42e844d26, 0x9a7753f42e844d26, 0x9a7753f42e844d26]),
    ("batches of 400 tokens", 10, [0xe405a34ee17ca92c, 0x9189db4cf6cdb19c, 0xe405a34ee17ca92c]),
    ("packed, concat", 10, [0x2c0d7446409e67d1, 0x4aa7fc9f821d1cdd, 0xf57f83ba7add8668]),
    ("packed, first fit", 10, [0xce32c94bb273b0d8, 0x8cbdf88bb2ad18b4, 0x1008124bbaa84605]),
    ("packed, best fit", 10, [0x975292906d1a2ba3, 0x76fbee2963c30e9b, 0x9f9a625d6f9d1788]),
    ("sequential", 256, [0x08eeba57df4d741a, 0x08eeba57df4d741a, 0x08eeba57df4d741a]),
    ("random", 256, [0x976829e44f0c7dd4, 0x5129f8f5d0b3e31d, 0x277d5d948ebf6c5e]),
    ("random, more than all", 256, [0x5bd2ce11e8c940da, 0xfa27181f92ce4867, 0x0981b72e9bf65ba4]),
    ("random, replacement", 256, [0x624fd0de39959e24, 0x0ba9ff448670b5e1, 0x757ce0c9e206c860]),
    ("torch", 256, [0xcc256c98a8740486, 0xef75203356750050, 0x3cfc488d43ff4675]),
    ("subset", 256, [0x4a8468a26c80d526, 0x42d4e72fc239ae3b, 0x19a7e3c841362918]),
    ("weighted", 256, [0x9dbbd7be0a4fe3c3, 0x5508911c123aa848, 0x3bd1dba149ab50a9]),
    ("weighted, no replacement", 256, [0x78920630027f39b5, 0x618ed6159c323a0e, 0xe3c3b062e932f7a9]),
    ("weighted, no replacement, all", 256, [0xdaf7b51b6c4d3fa4, 0x88429c38baaa1b05, 0xef031c7e3ea907c0]),
    ("blocks", 256, [0x523c6acc8c8f2792, 0xce7c5e415a8cc2e4, 0x666ec3e49331f669]),
    ("uneven blocks", 256, [0xc425c2ed446ad2bc, 0xc1c5a87c9c03fa8c, 0x8a9b4a6da5b16a3e]),
    ("classes", 256, [0xf3006b499895aa3d, 0x97fac8d27b86c8ae, 0x4f9630a17bdbe61b]),
    ("mixture", 256, [0xbab9b821d158c2d0, 0x4122823386395a1a, 0x02aadec64341522d]),
    ("mixture, all once", 256, [0x3e1876c7cfeebb6d, 0xfc840d92a3d6568b, 0xa34cfebf3e3bcb36]),
    ("mixture, ramp", 256, [0x9fa66b0e30dfb7ba, 0x39658f08cd14fdf4, 0x5ede9af91745aaf0]),
    ("passes", 256, [0xbe0f5a6c3af7c42f, 0xd477b4b0413c1c54, 0x42abe02f07106160]),
    ("in a row", 256, [0xf12e0592f0a93283, 0x22aa8b8620a58e24, 0xe3006dd77dacee11]),
    ("rank", 256, [0x27190996b49c1891, 0x79f3c16958c9e8de, 0x3763b1db5df6658d]),
    ("batches", 256, [0xc9a8927147133e16, 0x608a11e056bb1221, 0xb0fa061d17f54808]),
    ("balanced batches", 256, [0x551c9ecca108efbf, 0xfbca3745348d42cf, 0x3a14af74c0c28fcf]),
    ("stratified batches", 256, [0x30a208420dfcebe0, 0xb4f86c686d90cb59, 0xd1c93cddbee4ca2e]),
    ("batches of like length", 256, [0x42f524298c48fe1c, 0x725d52450e171dde, 0x4d6f6024657dd04a]),
    ("batches of like length, balanced", 256, [0xa68a81dd94050815, 0xb745d72ed717aeed, 0x1f5a4b366acf158f]),
    ("batches of 400 tokens", 256, [0x5c9461aa2d2f5dbe, 0x61417a821b36971f, 0x118c777a33575fcd]),
    ("packed, concat", 256, [0x0731af79273ead55, 0x6214a34d3c10b742, 0x6e249a566a1fa61b]),
    ("packed, first fit", 256, [0xcb4b2fdfa445b3cc, 0x273f6c70c02be094, 0x812dad6212098fcc]),
    ("packed, best fit", 256, [0x71df2b64f8524020, 0x7f0ee1f6a3027851, 0x2a984089be8af0ba]),
    ("sequential", 257, [0x6335ebf39a427587, 0x6335ebf39a427587, 0x6335ebf39a427587]),
    ("random", 257, [0xce0ed7cb8f08889a, 0x85326cecd63ca443, 0x730d092b080709f6]),
    ("random, more than all", 257, [0xcbe6da0b9f180982, 0xec61cbec575747fd, 0x6252ebb46c79d7ed]),
    ("random, replacement", 257, [0xbcf6154fb87fcd73, 0x554f37a8c7923c08, 0x3bbbf51e8ba7d710]),
    ("torch", 257, [0xb981d454a5210f1d, 0x0ca1b9e2d566f66e, 0xaa14e9e08f17b759]),
    ("subset", 257, [0xfe3d4960edc09bc6, 0x6b5b5ad65339cda9, 0x699819c16367e69c]),
    ("weighted", 257, [0x5dc176803dc83cb6, 0xda223086025bc7d0, 0xb0f62b7d8627ea70]),
    ("weighted, no replacement", 257, [0xd20b42b46b091ae6, 0xc8c3b4ae8e49769f, 0x0742055e1ba9c7ea]),
    ("weighted, no replacement, all", 257, [0xf32617a013df89d5, 0x124ea16e639a6d76, 0x104d1380a3adef75]),
    ("blocks", 257, [0x08d1abe8ae303071, 0x71a387cacff31396, 0x09546339ae4f6d49]),
    ("uneven blocks", 257, [0x10dcbbec15d827f9, 0x742f187a55529cd8, 0xd09ec2dae143cb3f]),
    ("classes", 257, [0x93c75474bc19cf01, 0xc20f0fcb1a6d29b6, 0xfffb69b850dbf58c]),
    ("mixture", 257, [0xd3e084003104de7e, 0xea4911b68b12d4ef, 0xa9d6389c929e1c28]),
    ("mixture, all once", 257, [0xa3298a36940aee0c, 0x1c25eae9a14e98a3, 0xc865850d90112f76]),
    ("mixture, ramp", 257, [0xed8d9a1d69d732f7, 0x5d55c36e2cf32c33, 0xe8d4660fc88b4f44]),
    ("passes", 257, [0xe4f14f198d1e3ecd, 0x342c497c179cd13c, 0xb5401be96031444c]),
    ("in a row", 257, [0xa7cd9df4e45e5948, 0x71cd3f7ee4a0a81b, 0x4be09b790a99b8cb]),
    ("rank", 257, [0xbd23da2a01b5e395, 0x294ec0bfdff736e2, 0xcd7ee297392eac9b]),
    ("batches", 257, [0xe8f22edcc804002f, 0xb3767f349f5c7014, 0xf9f0417b5c58551a]),
    ("balanced batches", 257, [0xeea9221719bf077f, 0x2c6e9562b7980436, 0x10370e1070afbaad]),
    ("stratified batches", 257, [0x7ca52b6a0b49768e, 0xbefe5431b1198b14, 0xa0b361209e319ef5]),
    ("batches of like length", 257, [0x513630564069b399, 0xc32ae8b01a667bfe, 0x67fd45f7239902e6]),
    ("batches of like length, balanced", 257, [0x39e50a1f8582976c, 0x688e32444607ca87, 0x9c38fb5c125920e7]),
    ("batches of 400 tokens", 257, [0xb43a87a14805ec4b, 0xdc8ab7f39a41c31b, 0xc7f07349b22bb478]),
    ("packed, concat", 257, [0x7a16f08f1efa1f51, 0x65052a7e8d11dd4b, 0xfd1f48ba1e8bd3b8]),
    ("packed, first fit", 257, [0xb5a1f0c9fd97cdbe, 0xf20e869d0283f945, 0x7e36bc578bd3fd91]),
    ("packed, best fit", 257, [0x0032b36b5df04832, 0x3c3496dca3cb3c4b, 0xd0751fa5e1f31481]),
    ("sequential", 5000, [0x95713e96a554a8b5, 0x95713e96a554a8b5, 0x95713e96a554a8b5]),
    ("random", 5000, [0x2e195e490ac851db, 0x9f6c27acf5e59b49, 0x03fa8b788e1b386e]),
    ("random, more than all", 5000, [0x06835db26674b0e2, 0x929512165417cd87, 0xd1a899c2818c4fd9]),
    ("random, replacement", 5000, [0x5fbb60469f77b52c, 0xaebbad29dde546cb, 0x07bfc8ac72c8549a]),
    ("torch", 5000, [0x7d469c72ea96fa52, 0xd99ecbd9229de903, 0x2dde27371839bae2]),
    ("subset", 5000, [0x2f9c41bb2761fa0e, 0x194f8a81d7938944, 0x517e10a9cd8940f9]),
    ("weighted", 5000, [0xb974972f0196a98e, 0x0f694bc236c6ca19, 0x1a36c18edbcc46c4]),
    ("weighted, no replacement", 5000, [0x208dc1dccea30a81, 0xe7dd7ad0ba9f9ab2, 0x37fac885cd7e8a99]),
    ("weighted, no replacement, all", 5000, [0xe815b1fac558d590, 0xd1347457dbe794ba, 0xf894cd0f3fbf03ce]),
    ("blocks", 5000, [0x8ceefd3c51a154b8, 0xdf401f4a9fa5986d, 0x4bfb632e51aa076b]),
    ("uneven blocks", 5000, [0xb48ba514888fe2b5, 0xa7e22eabd99e3155, 0x3c85aa0b0c3fafdb]),
    ("classes", 5000, [0x7eb99bc7e97ac8b0, 0xfea58e37608d76d2, 0x5afc6ad103281abc]),
    ("mixture", 5000, [0x9eead5e561b14a3c, 0x939c7184a07511eb, 0x8de752a09788aad1]),
    ("mixture, all once", 5000, [0xaf3d4844884be325, 0x4faf5fcd2faa3db9, 0xbe99999c2c4c5cce]),
    ("mixture, ramp", 5000, [0xbea95947618fd1b6, 0x0f91a4ac0df7b074, 0xd6134aec013c6d26]),
    ("passes", 5000, [0xc136368245483309, 0x71f49cdb6af895e6, 0xb21726e2bde00e63]),
    ("in a row", 5000, [0xab81ae846d0d937b, 0xbdd4ef6f92ca36f7, 0xb11763e2fa6774b5]),
    ("rank", 5000, [0x32e31e2e8aa3b03c, 0x0955a3ab0cc0bb33, 0xe65cc73233572156]),
    ("batches", 5000, [0x9375b69767151379, 0x439fcebbf311c199, 0x9326a8fdcac62410]),
    ("balanced batches", 5000, [0xccacdfcbc25b4d1e, 0xfc67cbab206f5da3, 0x6830b010608655d9]),
    ("stratified batches", 5000, [0x509ce33c1b2cece1, 0x9cc67bf883507ae6, 0xb0e7d66254d2c3a8]),
    ("batches of like length", 5000, [0xa18b3c093f4e647c, 0x8a3e9cea32c2b8c7, 0x6b0dbcfc3ac292f1]),
    ("batches of like length, balanced", 5000, [0xf88e3c27775a40f1, 0xd78a52bf65f486c8, 0xc0bd1fc70b0653b2]),
    ("batches of 400 tokens", 5000, [0x19f992527f50fffa, 0xcdfe3b61d6f99a0d, 0x6d2dbfd146e9b20a]),
    ("packed, concat", 5000, [0x55d18040c2bf5658, 0xc4aab4a6805385a5, 0x0710a12b3cc27343]),
    ("packed, first fit", 5000, [0x5d716915e884d893, 0xa71069d854eafa1b, 0x793b9234d7933b45]),
    ("packed, best fit", 5000, [0xbabea6949d4bf667, 0x2eca3358188455e8, 0x8d6f63417b80ccfd]),
];

/// Returns the order as one number.
fn order_of(sampler: &dyn Sampler, epoch: u64) -> u64 {
    let order = sampler.order(epoch).unwrap();
    let mut indices = vec![0; order.len()];
    order.indices(0, &mut indices);
    fingerprint(indices.into_iter().map(|index| index as u64))
}

/// Returns the batches as one number: the size of each comes before its indices.
fn batches_of(sampler: &dyn BatchingSampler, epoch: u64) -> u64 {
    let batches = sampler.batches(epoch).unwrap();
    let mut indices = Vec::new();
    let mut words = Vec::new();
    for batch in 0..batches.len() {
        batches.indices(batch, &mut indices);
        words.push(indices.len() as u64);
        words.extend(indices.iter().map(|&index| index as u64));
    }
    fingerprint(words)
}

/// Returns the lines of the table for samplers of one length, created with the seed of each place.
fn lines_of<S>(
    len: usize,
    made: [Vec<(&'static str, S)>; 3],
    order_of: impl Fn(&S, u64) -> u64,
) -> Vec<(&'static str, usize, [u64; 3])> {
    let names: Vec<&str> = made[0].iter().map(|(name, _)| *name).collect();
    let orders_at = |at: usize| made[at].iter().map(|(_, sampler)| order_of(sampler, PLACES[at].1)).collect::<Vec<_>>();
    let orders = [0, 1, 2].map(orders_at);
    let line = |(place, name)| (name, len, [0, 1, 2].map(|at: usize| orders[at][place]));
    names.into_iter().enumerate().map(line).collect()
}

#[test]
fn orders_have_not_changed() {
    let mut found = Vec::new();
    for len in LENS {
        found.extend(lines_of(len, PLACES.map(|(seed, _)| samplers(len, seed)), |sampler, epoch| {
            order_of(&**sampler, epoch)
        }));
        found.extend(lines_of(len, PLACES.map(|(seed, _)| batching_samplers(len, seed)), |sampler, epoch| {
            batches_of(&**sampler, epoch)
        }));
    }
    let table: String = (found.iter())
        .map(|(name, len, [a, b, c])| format!("    ({name:?}, {len}, [{a:#018x}, {b:#018x}, {c:#018x}]),\n"))
        .collect();
    let changed: Vec<_> =
        found.iter().filter(|line| !GOLDEN.contains(line)).map(|(name, len, _)| (name, len)).collect();
    assert!(changed.is_empty(), "the orders of {changed:?} have changed, or are new; the table of all is now\n{table}");
    assert_eq!(
        found.len(),
        GOLDEN.len(),
        "the table has orders that are not made any more; that of all is now\n{table}"
    );
}

/// The identity of every sampler, for 10 samples and seed 7. It is part of the states.
const IDENTITIES: &[&str] = &[
    "SequentialSampler(len=10)",
    "RandomSampler(len=10, num_samples=10, replacement=Without, seed=7)",
    "RandomSampler(len=10, num_samples=31, replacement=Without, seed=7)",
    "RandomSampler(len=10, num_samples=10, replacement=With, seed=7)",
    "TorchRandomSampler(len=10, seed=7)",
    "SubsetRandomSampler(len=10, indices=2dcea174d01eed4f, seed=7)",
    "WeightedRandomSampler(len=10, weights=6718884549cf1a9b, num_samples=20, replacement=With, seed=7)",
    "WeightedRandomSampler(len=10, weights=f18f0bbaff9102df, num_samples=5, replacement=Without, seed=7)",
    "WeightedRandomSampler(len=10, weights=f18f0bbaff9102df, num_samples=10, replacement=Without, seed=7)",
    "BlockShuffleSampler(len=10, block=16, window=5, seed=7)",
    "BlockShuffleSampler(len=10, blocks=3, ends=a5ee425e381c4b57, window=5, seed=7)",
    "ClassSampler(len=7, classes=3, samples=eedab5683e1093f7, shuffling=Seeded(7))",
    "MixtureSampler(parts=3, len=22, plan=f70277df3d6ebe2b, seed=7)",
    "MixtureSampler(parts=3, len=17, plan=5e117efcc660ffe7, seed=7)",
    "MixtureSampler(parts=3, len=30, plan=becf6cf28eb98f95, seed=7)",
    "RepeatSampler(RandomSampler(len=10, num_samples=10, replacement=Without, seed=7), times=3, Passes)",
    "RepeatSampler(RandomSampler(len=10, num_samples=10, replacement=Without, seed=7), times=3, InARow)",
    "DistributedSampler(RandomSampler(len=10, num_samples=10, replacement=Without, seed=7), rank=1, world_size=3, remainder=Pad)",
    "BatchSampler(RandomSampler(len=10, num_samples=10, replacement=Without, seed=7), batch_size=12, last_batch=Keep)",
    "BalancedBatchSampler(len=10, labels=c9781a9fd01af034, classes_per_batch=3, samples_per_class=4, batches=50, seed=7)",
    "StratifiedBatchSampler(len=10, labels=c9781a9fd01af034, batch_size=12, last_batch=Keep, seed=7)",
    "LengthBucketBatchSampler(len=10, lengths=d5a82621dc5bf7f3, limit=Samples(12), window=100, last_batch=Keep, shuffling=Seeded(7))",
    "LengthBucketBatchSampler(len=10, lengths=d5a82621dc5bf7f3, limit=Samples(12), window=100, last_batch=Keep, shuffling=Seeded(7), balance=4)",
    "LengthBucketBatchSampler(len=10, lengths=d5a82621dc5bf7f3, limit=Tokens(400), window=100, last_batch=Keep, shuffling=Seeded(7))",
    "PackedBatchSampler(len=10, lengths=d5a82621dc5bf7f3, length=50, rows_per_batch=3, packing=Concat, window=100, last_batch=Keep, shuffling=Seeded(7))",
    "PackedBatchSampler(len=10, lengths=d5a82621dc5bf7f3, length=50, rows_per_batch=3, packing=FirstFit, window=100, last_batch=Keep, shuffling=Seeded(7))",
    "PackedBatchSampler(len=10, lengths=d5a82621dc5bf7f3, length=50, rows_per_batch=3, packing=BestFit, window=100, last_batch=Keep, shuffling=Seeded(7))",
];

#[test]
fn sampler_descriptions_have_not_changed() {
    let orders = samplers(10, 7).into_iter().map(|(_, sampler)| sampler.identity());
    let found: Vec<_> =
        orders.chain(batching_samplers(10, 7).into_iter().map(|(_, sampler)| sampler.identity())).collect();
    assert!(found == IDENTITIES, "states would be refused; the identities are now\n{found:#?}");
}

#[test]
fn a_golden_state_resumes_where_it_was_saved() {
    let json = concat!(
        r#"{"version":1,"epoch":3,"batches_received":2,"received_ahead":[],"position":12,"dataset_len":20,"#,
        r#""sampler":"RandomSampler(len=20, num_samples=20, replacement=Without, seed=7)","#,
        r#""batch_size":3,"rank":1,"world_size":2}"#
    );
    let loader = DataLoader::builder(Arc::new(Numbers::new(20))).batch_size(3).shuffle(7);
    let loader = loader.shard(Shard::new(1, 2).unwrap(), Remainder::Exact).build().unwrap();
    let mut batches = loader.epoch(3).unwrap();
    batches.by_ref().take(2).for_each(|batch| drop(batch.unwrap()));
    assert_eq!(batches.state().to_json(), json);
    let rest = loader.resume(&LoaderState::from_json(json).unwrap()).unwrap();
    let rest: Vec<Vec<u64>> = rest.map(|batch| batch.unwrap().to_vec(0).unwrap()).collect();
    let order = RandomSampler::new(20, 7).order(3).unwrap();
    assert_eq!(
        rest,
        [[13, 15, 17].map(|position| order.index_at(position) as u64).to_vec(), vec![order.index_at(19) as u64]]
    );
}
