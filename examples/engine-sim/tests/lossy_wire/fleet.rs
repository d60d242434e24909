//! Pods: each a modelled engine, its wire and its feed. They join, restart and are retired.

use std::collections::HashMap;

use kv_index::{BlockHash, Feed, FeedConfig, Index, Parent, Pod, Tier};
use pointsman_engine_sim::scheduler::{
    BlockChains, BlockEvent, EngineConfig, EngineRequest, RemovedEvents, Sampled, Scheduler,
};
use pointsman_lab::SplitMix64;
use routing_plugins::CostModel;

use crate::wire::{Change, Counts, Link, receive};

const CONFIG: fn() -> EngineConfig = || EngineConfig {
    block_tokens: 16,
    blocks: 500,
    step_tokens: 512,
    removed_events: RemovedEvents::EveryCopy,
    ..EngineConfig::default()
};

/// Steps of every engine in a tick.
const STEPS: usize = 16;

/// A request of a client.
pub(crate) struct Turn {
    pub(crate) client: usize,
    pub(crate) prompt: usize,
    pub(crate) output: usize,
    pub(crate) chain: Vec<BlockHash>,
}

pub(crate) struct Fleet<'i> {
    index: &'i Index,
    rng: SplitMix64,
    members: Vec<Member<'i>>,
    joined: usize,
    pub(crate) counts: Counts,
}

struct Member<'i> {
    pod: Pod,
    feed: Feed<'i>,
    engine: Scheduler,
    turns: Turns,
    link: Link,
}

/// Requests of an engine, by client.
#[derive(Default)]
struct Turns(HashMap<u32, Turn>);

impl Turns {
    /// The clients, in order.
    fn drain(&mut self) -> Vec<usize> {
        let mut clients: Vec<usize> = self.0.drain().map(|(_, turn)| turn.client).collect();
        clients.sort_unstable();
        clients
    }
}

impl BlockChains for Turns {
    fn chain(&self, request: u32) -> &[BlockHash] {
        &self.0[&request].chain
    }
}

impl<'i> Fleet<'i> {
    pub(crate) fn new(index: &'i Index, rng: SplitMix64) -> Self {
        Self { index, rng, members: Vec::new(), joined: 0, counts: Counts::default() }
    }

    pub(crate) fn join(&mut self) {
        let pod = self.index.join(&format!("pod-{}", self.joined)).unwrap();
        self.joined += 1;
        // Engines announce every copy and number from 0, as a feed takes it by default.
        let feed = Feed::new(self.index, pod, FeedConfig::default());
        let (engine, link) = (Scheduler::new(CONFIG()), Link::new(self.rng.fork()));
        self.members.push(Member { pod, feed, engine, turns: Turns::default(), link });
    }

    /// Retires some pod; the clients whose requests are lost. A last packet of it comes too late.
    pub(crate) fn retire_one(&mut self) -> Vec<usize> {
        let mut member = self.members.remove(self.rng.below(self.members.len()));
        self.index.retire(member.pod);
        self.counts.retired += 1;
        member.link.send(vec![Change::Cleared]);
        let last = member.link.last().unwrap();
        self.counts.late += usize::from(receive(&member.feed, &member.link, last, &mut self.counts).is_err());
        member.turns.drain()
    }

    /// Restarts some engine; the clients whose requests are lost.
    pub(crate) fn restart_one(&mut self) -> Vec<usize> {
        let at = self.rng.below(self.members.len());
        let member = &mut self.members[at];
        self.counts.restarts += 1;
        member.engine = Scheduler::new(CONFIG());
        member.link.restart();
        member.publish(vec![Change::Cleared], &mut self.counts);
        member.turns.drain()
    }

    pub(crate) fn submit(&mut self, pod: Pod, turn: Turn) {
        let member = self.members.iter_mut().find(|member| member.pod == pod).unwrap();
        let (id, prompt, output) = (turn.client as u32, turn.prompt as u32, turn.output as u32);
        assert!(member.engine.submit(EngineRequest { id, prompt, output, ..EngineRequest::default() }));
        member.turns.0.insert(id, turn);
    }

    /// Some steps of every engine; the clients whose answers are complete.
    pub(crate) fn step(&mut self) -> Vec<usize> {
        let (costs, mut finished) = (CostModel::default(), Vec::new());
        for member in &mut self.members {
            for _ in 0..STEPS {
                let mut sampled = Vec::new();
                if member.engine.begin(&costs, &member.turns).is_some() {
                    member.engine.end(&member.turns, &mut sampled);
                }
                self.counts.cached_blocks +=
                    member.engine.admitted().map(|one| one.cached_blocks as usize).sum::<usize>();
                let changes = member.changes(&mut self.counts);
                if !changes.is_empty() {
                    member.publish(changes, &mut self.counts);
                }
                for one in sampled {
                    if let Sampled::Done(request) = one {
                        member.turns.0.remove(&request.id);
                        finished.push(request.id as usize);
                    }
                }
            }
            self.counts.copies += usize::from(member.engine.pool().copies().any(|(_, copies)| copies > 1));
        }
        finished
    }

    /// Finds pods whose last packets were lost by their digests, and has those sent again.
    pub(crate) fn repair(&mut self) {
        for pod in self.unlike_digests() {
            self.counts.repaired += 1;
            let member = self.members.iter().find(|member| member.pod == pod).unwrap();
            let last = member.link.last().unwrap();
            receive(&member.feed, &member.link, last, &mut self.counts).unwrap();
        }
    }

    pub(crate) fn unlike_digests(&self) -> Vec<Pod> {
        let unlike = |member: &&Member<'_>| self.index.digest(member.pod).unwrap() != member.engine.pool().digest();
        self.members.iter().filter(unlike).map(|member| member.pod).collect()
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = Pod> + '_ {
        self.members.iter().map(|member| member.pod)
    }

    pub(crate) fn load(&self, pod: Pod) -> usize {
        self.members.iter().find(|member| member.pod == pod).map_or(0, |member| member.turns.0.len())
    }

    /// Leading blocks of a chain that a pod's engine holds.
    pub(crate) fn depth(&self, pod: Pod, chain: &[BlockHash]) -> usize {
        let member = self.members.iter().find(|member| member.pod == pod).unwrap();
        member.engine.pool().prefix(chain).count()
    }

    pub(crate) fn caches(&self) -> impl Iterator<Item = Vec<BlockHash>> + '_ {
        self.members.iter().map(|member| member.engine.pool().copies().map(|(hash, _)| hash).collect())
    }
}

impl Member<'_> {
    fn publish(&mut self, changes: Vec<Change>, counts: &mut Counts) {
        for packet in self.link.send(changes) {
            receive(&self.feed, &self.link, &packet, counts).unwrap();
        }
    }

    fn changes(&mut self, counts: &mut Counts) -> Vec<Change> {
        let turns = &self.turns;
        let change = |event| match event {
            BlockEvent::Stored { request, from, to } => {
                let (chain, from) = (turns.chain(request), from as usize);
                let parent = from.checked_sub(1).map_or(Parent::Root, |before| Parent::Block(chain[before]));
                Change::Stored { parent, blocks: chain[from..to as usize].to_vec() }
            }
            BlockEvent::Removed(blocks, Tier::Gpu) => {
                counts.removed += blocks.len();
                Change::Removed(blocks)
            }
            other => panic!("{other:?}"),
        };
        self.engine.events().map(change).collect()
    }
}
