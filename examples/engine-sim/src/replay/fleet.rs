//! The pods of a run: each an engine, its wire and its feed. They join, start anew and are retired.

use kv_index::{BlockSize, Feed, FeedConfig, Index, JoinError, Pod, PodId, PodRetired};

use crate::replay::engine::{Engine, Job};
use crate::replay::link::{Faults, Link};
use crate::replay::receive::receive;
use crate::replay::report::Report;
use crate::replay::tally::Tally;
use pointsman_lab::SplitMix64;

/// What every pod of a fleet is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodKind {
    /// Tokens in a block.
    pub size: BlockSize,
    /// Blocks it can cache.
    pub capacity: u32,
    /// What goes wrong on its wire.
    pub faults: Faults,
}

/// Every pod that has joined and is not retired.
#[derive(Debug)]
pub struct Fleet<'i> {
    index: &'i Index,
    kind: PodKind,
    rng: SplitMix64,
    /// By pod id.
    members: Vec<Option<Member<'i>>>,
    joined: usize,
}

/// One pod.
#[derive(Debug)]
pub struct Member<'i> {
    pod: Pod,
    feed: Feed<'i>,
    engine: Engine,
    link: Link,
}

impl<'i> Fleet<'i> {
    /// A fleet without pods.
    #[must_use]
    pub fn new(index: &'i Index, kind: PodKind, rng: SplitMix64) -> Self {
        Self { index, kind, rng, members: Vec::new(), joined: 0 }
    }

    /// Adds a pod with an empty cache.
    ///
    /// # Errors
    ///
    /// When the index has no room for it.
    pub fn join(&mut self) -> Result<(), JoinError> {
        let pod = self.index.join(&format!("pod-{}", self.joined))?;
        self.joined += 1;
        let id = pod.id().index();
        if id >= self.members.len() {
            self.members.resize_with(id + 1, || None);
        }
        self.members[id] = Some(Member {
            pod,
            // The model announces every copy and numbers from 0, which is what a feed takes by default.
            feed: Feed::new(self.index, pod, FeedConfig::default()),
            engine: Engine::new(self.kind.size, self.kind.capacity),
            link: Link::new(self.kind.faults, self.rng.fork()),
        });
        Ok(())
    }

    /// Retires some pod; the clients whose requests were lost. One last packet of it comes too late.
    pub fn retire_one(&mut self, tally: &mut Tally) -> Vec<usize> {
        let Some(mut member) = self.pick().and_then(|id| self.members[id.index()].take()) else {
            return Vec::new();
        };
        self.index.retire(member.pod);
        tally.counts.retired += 1;
        for packet in member.link.send(vec![Report::Cleared]) {
            if receive(&member.feed, &member.link, &packet, tally).is_err() {
                tally.counts.events.late += 1;
            }
        }
        member.engine.restart()
    }

    /// Has some engine start anew; the clients whose requests were lost.
    ///
    /// # Errors
    ///
    /// When the index does not know a pod of this fleet.
    pub fn restart_one(&mut self, tally: &mut Tally) -> Result<Vec<usize>, PodRetired> {
        let Some(member) = self.pick().and_then(|id| self.members[id.index()].as_mut()) else {
            return Ok(Vec::new());
        };
        tally.counts.restarts += 1;
        let lost = member.engine.restart();
        member.link.restart();
        member.publish(vec![Report::Cleared], tally)?;
        Ok(lost)
    }

    /// Gives a request to a pod of this fleet.
    pub fn submit(&mut self, pod: PodId, job: Job) {
        let member = self.members[pod.index()].as_mut().expect("requests go to members");
        member.engine.submit(job);
    }

    /// One step of every engine; the clients whose answers are complete.
    ///
    /// # Errors
    ///
    /// When the index does not know a pod of this fleet.
    pub fn step(&mut self, tally: &mut Tally) -> Result<Vec<usize>, PodRetired> {
        let mut finished = Vec::new();
        for member in self.members.iter_mut().flatten() {
            let mut step = member.engine.step();
            tally.counts.blocks_asked += step.asked;
            tally.counts.blocks_hit += step.hit;
            finished.append(&mut step.finished);
            if !step.reports.is_empty() {
                member.publish(step.reports, tally)?;
            }
        }
        Ok(finished)
    }

    /// Finds the pods whose last packets were lost by their digests, and has those sent again.
    ///
    /// # Errors
    ///
    /// When the index does not know a pod of this fleet.
    pub fn heal(&mut self, tally: &mut Tally) -> Result<(), PodRetired> {
        for member in self.members() {
            if self.index.digest(member.pod)? == member.engine.pool().digest() {
                continue;
            }
            tally.counts.healed += 1;
            if let Some(last) = member.link.last() {
                receive(&member.feed, &member.link, last, tally)?;
            }
        }
        Ok(())
    }

    /// The pods, lowest id first.
    pub fn members(&self) -> impl Iterator<Item = &Member<'i>> {
        self.members.iter().flatten()
    }

    /// The pod with this id.
    #[must_use]
    pub fn member(&self, pod: PodId) -> Option<&Member<'i>> {
        self.members.get(pod.index())?.as_ref()
    }

    /// Requests a pod has.
    #[must_use]
    pub fn load(&self, pod: PodId) -> usize {
        self.member(pod).map_or(0, |member| member.engine.load())
    }

    fn pick(&mut self) -> Option<PodId> {
        let nth = self.rng.below(self.members().count());
        self.members().nth(nth).map(|member| member.pod.id())
    }
}

impl Member<'_> {
    /// The pod's handle.
    #[must_use]
    pub fn pod(&self) -> Pod {
        self.pod
    }

    /// The pod's engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn publish(&mut self, reports: Vec<Report>, tally: &mut Tally) -> Result<(), PodRetired> {
        for packet in self.link.send(reports) {
            receive(&self.feed, &self.link, &packet, tally)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kv_index::{BlockHash, Config, Matches};

    use super::*;

    const KIND: PodKind =
        PodKind { size: BlockSize::new(4).expect("not zero"), capacity: 20, faults: Faults { lost: 0, repeated: 0 } };

    fn job(client: usize, blocks: u64) -> Job {
        let chain: Vec<BlockHash> = (1..=blocks).map(BlockHash::new).collect();
        Job { client, prompt: chain.len() * 4, total: chain.len() * 4, chain }
    }

    fn depths(index: &Index) -> Vec<(usize, usize)> {
        let mut matches = Matches::default();
        index.search(&job(0, 10).chain, &mut matches);
        matches.groups().iter().flat_map(|group| group.pods.iter().map(|pod| (pod.index(), group.depth))).collect()
    }

    #[test]
    fn what_an_engine_caches_the_index_knows() {
        let index = Index::new(Config::default());
        let (mut fleet, mut tally) = (Fleet::new(&index, KIND, SplitMix64::new(1)), Tally::default());
        fleet.join().unwrap();
        fleet.join().unwrap();
        fleet.submit(PodId::new(1), job(5, 3));
        assert_eq!((fleet.load(PodId::new(0)), fleet.load(PodId::new(1))), (0, 1));
        assert_eq!(fleet.step(&mut tally), Ok(vec![5]));
        assert_eq!(depths(&index), [(1, 3)]);
        assert_eq!((tally.counts.blocks_asked, tally.counts.blocks_hit), (3, 0));
    }

    #[test]
    fn a_restart_and_a_retirement_give_the_clients_back_and_the_index_forgets() {
        let index = Index::new(Config::default());
        let (mut fleet, mut tally) = (Fleet::new(&index, KIND, SplitMix64::new(1)), Tally::default());
        fleet.join().unwrap();
        fleet.submit(PodId::new(0), job(1, 4));
        fleet.step(&mut tally).unwrap();
        fleet.submit(PodId::new(0), job(2, 4));
        assert_eq!(fleet.restart_one(&mut tally), Ok(vec![2]));
        assert_eq!((depths(&index), tally.counts.events.restarts), (Vec::new(), 1));
        fleet.submit(PodId::new(0), job(3, 4));
        assert_eq!(fleet.retire_one(&mut tally), [3]);
        assert_eq!((fleet.members().count(), tally.counts.events.late), (0, 1));
        assert!(index.alive().is_empty());
    }

    #[test]
    fn a_lost_tail_is_found_by_its_digest() {
        let index = Index::new(Config::default());
        let kind = PodKind { faults: Faults { lost: 1, repeated: 0 }, ..KIND };
        let (mut fleet, mut tally) = (Fleet::new(&index, kind, SplitMix64::new(1)), Tally::default());
        fleet.join().unwrap();
        for client in 1..4 {
            fleet.submit(PodId::new(0), job(client, 2 * client as u64));
            fleet.step(&mut tally).unwrap();
        }
        assert_eq!(depths(&index), []);
        fleet.heal(&mut tally).unwrap();
        assert_eq!(depths(&index), [(0, 6)]);
        fleet.heal(&mut tally).unwrap();
        assert_eq!(tally.counts.healed, 1, "nothing is left to heal");
    }
}
