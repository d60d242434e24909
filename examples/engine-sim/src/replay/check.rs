//! The index against the engines: every answer must be what the caches really hold.

use std::collections::HashSet;

use kv_index::{BlockHash, ChainHasher, Index, Matches, PodRetired};

use crate::replay::fleet::Fleet;
use crate::replay::sample::Sample;

/// What the check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Prompts that were searched.
    pub prompts: usize,
    /// Prompts of which some pod holds something.
    pub held: usize,
    /// Prompts for which a search, hashed or lazy, differs from a scan.
    pub unlike_scan: usize,
    /// Prompts for which a search differs from some engine's cache.
    pub unlike_engines: usize,
    /// Pods whose digest in the index differs from their engine's.
    pub unlike_digests: usize,
}

impl Verdict {
    /// Whether the index says of every sampled prompt and every pod what is true.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.unlike_scan + self.unlike_engines + self.unlike_digests == 0
    }
}

/// Searches every sampled prompt and compares with a scan and with each engine's cache; compares all digests.
///
/// The feeds must have caught up and no speculation be left, or a difference is only to be expected.
///
/// # Errors
///
/// When the index does not know a pod of the fleet.
pub fn check(index: &Index, fleet: &Fleet<'_>, sample: &Sample, hasher: &ChainHasher) -> Result<Verdict, PodRetired> {
    let mut verdict = Verdict { prompts: sample.prompts().len(), ..Verdict::default() };
    let (mut search, mut other, mut buffer) = (Matches::default(), Matches::default(), Vec::new());
    for prompt in sample.prompts() {
        let chain = hasher.hash(prompt);
        index.search(&chain, &mut search);
        verdict.held += usize::from(!search.groups().is_empty());
        index.scan(&chain, &mut other);
        let like_scan = search.groups() == other.groups();
        index.search_lazy(&mut hasher.lazy(prompt, &mut buffer), &mut other);
        let like_lazy = search.groups() == other.groups();
        verdict.unlike_scan += usize::from(!(like_scan && like_lazy));
        verdict.unlike_engines += usize::from(!is_true(&search, &chain, fleet));
    }
    for member in fleet.members() {
        let same = index.digest(member.pod())? == member.engine().pool().digest();
        verdict.unlike_digests += usize::from(!same);
    }
    Ok(verdict)
}

/// What all caches of a fleet hold together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Census {
    /// Pods.
    pub pods: usize,
    /// Distinct blocks.
    pub blocks: usize,
    /// Blocks, counted once for each pod that holds them.
    pub holders: usize,
    /// Physical copies.
    pub copies: usize,
}

impl Census {
    /// Counts what the engines hold.
    #[must_use]
    pub fn of(fleet: &Fleet<'_>) -> Self {
        let mut census = Self::default();
        let mut distinct = HashSet::new();
        for member in fleet.members() {
            census.pods += 1;
            for (hash, copies) in member.engine().pool().blocks() {
                census.holders += 1;
                census.copies += copies;
                distinct.insert(hash);
            }
        }
        census.blocks = distinct.len();
        census
    }
}

/// Whether the answer names exactly the pods whose caches hold a start of the chain, each at its depth.
fn is_true(answer: &Matches, chain: &[BlockHash], fleet: &Fleet<'_>) -> bool {
    let named: usize = answer.groups().iter().map(|group| group.pods.len()).sum();
    let mut holders = 0;
    let depths_agree = fleet.members().all(|member| {
        let depth = member.engine().pool().prefix(chain).count();
        holders += usize::from(depth > 0);
        answer.depth(member.pod().id()) == depth
    });
    depths_agree && named == holders
}

#[cfg(test)]
mod tests {
    use kv_index::{BlockSize, ChainSeed, Config, Event, EventSemantics, PodId, Stored};

    use super::*;
    use crate::replay::engine::Job;
    use crate::replay::fleet::PodKind;
    use crate::replay::link::Faults;
    use crate::replay::tally::Tally;
    use pointsman_lab::SplitMix64;

    #[test]
    fn a_block_that_no_engine_has_is_found_out() {
        let index = Index::new(Config::default());
        let size = BlockSize::new(4).unwrap();
        let hasher = ChainHasher::new(ChainSeed::new("test"), size);
        let mut fleet =
            Fleet::new(&index, PodKind { size, capacity: 20, faults: Faults::default() }, SplitMix64::new(1));
        fleet.join().unwrap();
        let prompt: Vec<u32> = (0..20).collect();
        let chain = hasher.hash(&prompt);
        fleet.submit(PodId::new(0), Job { client: 0, chain: chain[..3].to_vec(), prompt: 12, total: 12 });
        fleet.step(&mut Tally::default()).unwrap();
        let mut sample = Sample::new(1, SplitMix64::new(1));
        sample.offer(&prompt);

        let verdict = check(&index, &fleet, &sample, &hasher).unwrap();
        assert_eq!(verdict, Verdict { prompts: 1, held: 1, ..Verdict::default() });
        assert!(verdict.holds());
        assert_eq!(Census::of(&fleet), Census { pods: 1, blocks: 3, holders: 3, copies: 3 });

        let pod = fleet.members().next().unwrap().pod();
        index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&chain[..4]))).unwrap();
        let verdict = check(&index, &fleet, &sample, &hasher).unwrap();
        assert_eq!((verdict.unlike_scan, verdict.unlike_engines, verdict.unlike_digests), (0, 1, 1));
        assert!(!verdict.holds());
    }
}
