//! [`TarShard`]: the samples of one archive, grouped by their keys.

use std::collections::{HashMap, HashSet};

use super::key::split_name;
use super::members::{TarDamage, TarEnd, TarMembers, shown};
use super::offsets::members_by_offsets;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::index::damages::Damages;
use crate::{Error, Result};

/// A member of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberPlace {
    pub(super) sample: usize,
    /// Its index in the extensions of the archive.
    pub(super) extension: u32,
    pub(super) data: u64,
    pub(super) bytes: u64,
}

/// The result of scanning one archive. Samples are in the order of their first members; all members with the same key
/// form one sample, wherever they are in the archive.
#[derive(Debug, Default)]
pub(super) struct TarShard {
    /// One per sample.
    pub(super) keys: Vec<Vec<u8>>,
    /// Sorted by sample, then in file order.
    pub(super) members: Vec<MemberPlace>,
    pub(super) extensions: Vec<Vec<u8>>,
    /// The errors for what was left out.
    pub(super) damages: Vec<Error>,
}

impl TarShard {
    /// Reads the headers of `file`.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Changed`]; [`Error::Format`] if the archive is damaged or two members have the same
    /// name, unless `damages` says to leave that out.
    pub(super) fn scan(file: &OpenFile, end: TarEnd, damages: Damages) -> Result<Self> {
        let mut groups = Groups::default();
        if let Some(members) = members_by_offsets(file, end) {
            members.iter().for_each(|member| groups.push(&member.name, member.data, member.bytes));
            return groups.settle(file, damages);
        }
        let mut members = TarMembers::new(file, end);
        loop {
            match members.next() {
                Ok(None) => break,
                Ok(Some(member)) => groups.push(&member.name, member.data, member.bytes),
                Err(damage) => groups.note(damage, damages)?,
            }
        }
        groups.settle(file, damages)
    }
}

#[derive(Default)]
struct Groups {
    shard: TarShard,
    samples: HashMap<Vec<u8>, usize>,
    extensions: HashMap<Vec<u8>, u32>,
    /// The sample of the last member: members of a sample are usually adjacent.
    last: Option<usize>,
    broken: HashSet<usize>,
    lower: Vec<u8>,
}

impl Groups {
    fn push(&mut self, name: &[u8], data: u64, bytes: u64) {
        let Some((key, extension)) = split_name(name) else { return };
        let sample = self.sample(key);
        self.lower.clear();
        self.lower.extend(extension.iter().map(u8::to_ascii_lowercase));
        let extension = match self.extensions.get(&self.lower) {
            Some(&extension) => extension,
            None => {
                let number = self.extensions.len() as u32;
                self.extensions.insert(self.lower.clone(), number);
                self.shard.extensions.push(self.lower.clone());
                number
            }
        };
        self.shard.members.push(MemberPlace { sample, extension, data, bytes });
    }

    fn sample(&mut self, key: &[u8]) -> usize {
        if let Some(last) = self.last.filter(|&last| self.shard.keys[last] == key) {
            return last;
        }
        let sample = match self.samples.get(key) {
            Some(&sample) => sample,
            None => {
                self.samples.insert(key.to_vec(), self.shard.keys.len());
                self.shard.keys.push(key.to_vec());
                self.shard.keys.len() - 1
            }
        };
        self.last = Some(sample);
        sample
    }

    fn note(&mut self, damage: TarDamage, damages: Damages) -> Result<()> {
        if damages == Damages::Refuse || !matches!(damage.error, Error::Format { .. }) {
            return Err(damage.error);
        }
        match damage.member.as_deref().map(split_name) {
            Some(Some((key, _))) => {
                let sample = self.sample(key);
                self.broken.insert(sample);
            }
            Some(None) => {}
            // The owner of a missing member is unknown, but it is probably the last sample.
            None => self.broken.extend(self.last),
        }
        if !damage.can_continue && damage.member.is_some() {
            self.broken.extend(self.last);
        }
        self.shard.damages.push(damage.error);
        Ok(())
    }

    /// Detects members of the same name, and leaves out broken samples.
    fn settle(mut self, file: &OpenFile, damages: Damages) -> Result<TarShard> {
        let path = &file.source().path;
        let shard = &mut self.shard;
        let mut places: Vec<(usize, u32, u64)> = Vec::with_capacity(shard.members.len());
        places.extend(shard.members.iter().map(|member| (member.sample, member.extension, member.data)));
        places.sort_unstable();
        for pair in places.windows(2).filter(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1)) {
            let (sample, extension, first) = pair[0];
            let name = [&shard.keys[sample], b".".as_slice(), &shard.extensions[extension as usize]].concat();
            let reason = format!(
                "member {} occurs twice; the contents of the first one begin at byte {first}; a sample has at most one \
                 member of each extension, in upper or lower case; create the archive again",
                shown(&name)
            );
            let error = Error::Format { path: path.clone(), offset: pair[1].2, reason };
            if damages == Damages::Refuse {
                return Err(error);
            }
            self.broken.insert(sample);
            shard.damages.push(error);
        }
        // Stable, so that the members of a sample stay in file order. They are usually sorted already.
        shard.members.sort_by_key(|member| member.sample);
        if !self.broken.is_empty() {
            let mut kept = 0;
            let numbers: Vec<Option<usize>> = (0..shard.keys.len())
                .map(|sample| {
                    kept += usize::from(!self.broken.contains(&sample));
                    (!self.broken.contains(&sample)).then(|| kept - 1)
                })
                .collect();
            let mut number = numbers.iter();
            shard.keys.retain(|_| number.next().is_some_and(Option::is_some));
            shard.members.retain_mut(|member| match numbers[member.sample] {
                Some(sample) => {
                    member.sample = sample;
                    true
                }
                None => false,
            });
        }
        Ok(self.shard)
    }
}
