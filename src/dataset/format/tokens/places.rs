//! [`Place`]: where the tokens of a sample are.

use super::files::TokenFiles;
use crate::Result;
use crate::dataset::format::file::page_cache::PageCache;

/// Places that are prefetched ahead: they are far apart in memory, and this overlaps their cache misses.
const AHEAD: usize = 8;

/// Consecutive tokens of a file.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) stream: usize,
    /// The first token, counted from the start of the file.
    pub(super) start: u64,
    pub(super) tokens: usize,
}

impl TokenFiles {
    /// Returns the place of `tokens` tokens, the first of which is number `token` of all files.
    pub(super) fn place(&self, token: u64, tokens: usize) -> Place {
        let stream = self.stream_at(token);
        Place { stream, start: token - self.stream_start(stream), tokens }
    }

    /// Lets `read` read the places, with their numbers, in order, while the next ones are prefetched.
    pub(super) fn read_places(
        &self,
        page_cache: &PageCache,
        places: &[Place],
        mut read: impl FnMut(usize, Place) -> Result<()>,
    ) -> Result<()> {
        let has_tokens = |place: &&Place| place.tokens > 0;
        let prefetch = |place: &Place| self.stream(place.stream).prefetch(place.start, place.tokens);
        let will_read = |place: &Place| self.stream(place.stream).will_read(place.start, place.tokens);
        let mut batch = page_cache.batch(|| places.iter().filter(has_tokens).for_each(will_read));
        places.iter().take(AHEAD).filter(has_tokens).for_each(prefetch);
        let result = places.iter().enumerate().try_for_each(|(number, &place)| {
            places.get(number + AHEAD).into_iter().filter(has_tokens).for_each(prefetch);
            let result = read(number, place);
            batch.was_read();
            result
        });
        // Checked first: if the file has changed, the tokens were not its own, which explains any other error.
        let mut streams: Vec<usize> = places.iter().map(|place| place.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams.iter().try_for_each(|&stream| self.stream(stream).check())?;
        result
    }
}
