//! [`StreamMix`]: several streams in proportion to weights.

use std::sync::Arc;

use super::peeked::Peeked;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::sampler::{EpochOrder, MixtureSampler, MixtureWeights, Sampler, StopCriteria};
use crate::{Error, Result, SampleBlock, Schema, TypedField};

/// Streams have no length: each, and the mixture, is treated as if it had this many samples.
const ENDLESS: usize = 1 << 40;
/// Number of ordinals in a block within which a mixture is shuffled; how often each part occurred before a block is
/// computed.
const BLOCK: u64 = 1024;

/// The samples of several streams in proportion to weights: the result of
/// [`IterableDatasetExt::mix`](super::IterableDatasetExt::mix).
pub(super) struct StreamMix {
    parts: Vec<Arc<dyn IterableDataset>>,
    sampler: MixtureSampler,
}

impl StreamMix {
    pub(super) fn new(parts: Vec<Arc<dyn IterableDataset>>, weights: &[f64], seed: u64) -> Result<Self> {
        let (lens, weights) = (vec![ENDLESS; parts.len()], MixtureWeights::constant(weights));
        let sampler = MixtureSampler::new(&lens, &weights, StopCriteria::CycleForever(ENDLESS), seed)?;
        Ok(Self { parts, sampler })
    }
}

impl IterableDataset for StreamMix {
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        let order = self.sampler.order(0)?;
        let begin = from.ordinal / BLOCK * BLOCK;
        let before = self.sampler.clone().with_num_samples(begin as usize).samples_per_part();
        let mut next: Vec<u64> = before.into_iter().map(|count| count as u64).collect();
        (begin..from.ordinal).for_each(|ordinal| next[part_at(&*order, ordinal)] += 1);
        let open = |(part, &ordinal): (&Arc<dyn IterableDataset>, &u64)| {
            Peeked::open(&**part, StreamPart::WHOLE, ordinal, stop)
        };
        let parts = self.parts.iter().zip(&next).map(open).collect::<Result<Vec<Peeked>>>()?;
        check_fields(&parts)?;
        let fields = parts[0].fields().to_vec();
        Ok(Box::new(Mixed { parts, next, order, ordinal: from.ordinal, part, fields, stop: stop.clone() }))
    }

    fn is_repeatable(&self) -> bool {
        self.parts.iter().all(|part| part.is_repeatable())
    }
}

fn part_at(order: &dyn EpochOrder, ordinal: u64) -> usize {
    order.index_at(ordinal as usize) / ENDLESS
}

fn check_fields(parts: &[Peeked]) -> Result<()> {
    let schema = |part: &Peeked| {
        let fields: Vec<_> = part.fields().iter().map(|typed| typed.field().clone()).collect();
        Schema::new(fields)
    };
    let contents = |part: &Peeked| part.fields().iter().map(TypedField::content).collect::<Vec<_>>();
    let (expected, first) = (schema(&parts[0]), contents(&parts[0]));
    match parts.iter().position(|part| !schema(part).stacks_with(&expected) || contents(part) != first) {
        Some(part) => {
            let (expected, found) = (expected.to_string(), schema(&parts[part]).to_string());
            Err(Error::SchemaMismatch { part, expected, found })
        }
        None => Ok(()),
    }
}

struct Mixed {
    parts: Vec<Peeked>,
    /// For each part, the ordinal of its next sample.
    next: Vec<u64>,
    order: Box<dyn EpochOrder>,
    ordinal: u64,
    part: StreamPart,
    fields: Vec<TypedField>,
    stop: StopSignal,
}

impl SampleStream for Mixed {
    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        while (self.ordinal as usize) < self.order.len() && !self.stop.is_set() {
            let number = part_at(&*self.order, self.ordinal);
            let wanted = self.next[number];
            let is_own = self.part.owns(self.ordinal);
            self.next[number] += 1;
            self.ordinal += 1;
            let Some(found) = self.parts[number].seek(wanted, into)? else { return Ok(Advance::End) };
            // If the part has skipped the sample, the mixture skips it too.
            if found == wanted && is_own {
                let values: Vec<&[u8]> = self.parts[number].values().collect();
                let position = StreamPosition { ordinal: self.ordinal, ..StreamPosition::default() };
                into.push(&self.fields, &values, position)?;
                return Ok(Advance::Sample);
            }
        }
        Ok(Advance::End)
    }

    fn would_wait(&self) -> bool {
        self.parts.iter().any(Peeked::would_wait)
    }
}
