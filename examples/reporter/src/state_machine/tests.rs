//! Model test: a worker and a gateway over a channel that loses, duplicates, delays and reorders agree once it is quiet.

use std::sync::Arc;

use kv_index::{BlockHash, BlockSize, Digest, Index, Matches, Parent, Tier};
use proptest::prelude::*;

use super::*;
use crate::event_ingest::EventIngest;
use crate::event_queue::{EventQueue, ReporterHandle};
use crate::shadow_cache::ShadowCache;

type TestSource = crate::QueueAndCache<ShadowCache>;

/// What happens next.
#[derive(Clone, Debug)]
enum Op {
    /// A prompt of `blocks` blocks of chain `chain` is cached.
    Store {
        chain: u64,
        blocks: u64,
    },
    /// A copy of one block is overwritten.
    Evict {
        at: usize,
    },
    Clear,
    /// Time passes, and what is due is sent; each message has a fate of its own.
    Run {
        millis: u64,
        fates: Vec<Fate>,
    },
    /// Something delayed arrives after all.
    Arrives {
        at: usize,
    },
    /// The gateway loses everything, or goes back to an earlier snapshot.
    Forgets,
    GoesBack,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    Lost,
    AnswerLost,
    Delayed,
    Doubled,
    Refused,
}

fn op() -> impl Strategy<Value = Op> {
    let fate = prop_oneof![
        6 => Just(Fate::Answered), 1 => Just(Fate::Lost), 1 => Just(Fate::AnswerLost),
        1 => Just(Fate::Delayed), 1 => Just(Fate::Doubled), 1 => Just(Fate::Refused),
    ];
    prop_oneof![
        6 => (0..4u64, 1..8u64).prop_map(|(chain, blocks)| Op::Store { chain, blocks }),
        6 => (0..64usize).prop_map(|at| Op::Evict { at }),
        1 => Just(Op::Clear),
        6 => (1..400u64, prop::collection::vec(fate, 1..5)).prop_map(|(millis, fates)| Op::Run { millis, fates }),
        2 => (0..8usize).prop_map(|at| Op::Arrives { at }),
        1 => Just(Op::Forgets),
        1 => Just(Op::GoesBack),
    ]
}

fn chain(chain: u64, blocks: u64) -> Vec<BlockHash> {
    // All chains start alike, and part after two blocks.
    (0..blocks).map(|n| BlockHash::new(if n < 2 { 1 + n } else { 100 * (chain + 1) + n })).collect()
}

struct Rig {
    machine: StateMachine,
    source: TestSource,
    handle: ReporterHandle,
    shadow: ShadowCache,
    ingest: Arc<EventIngest>,
    snapshot: Vec<u8>,
    delayed: Vec<Message>,
    now: Instant,
}

fn hashing() -> HashScheme {
    HashScheme::native("sim", BlockSize::new(16).unwrap())
}

fn ingest_of(index: Index) -> Arc<EventIngest> {
    if index.pod("a").is_none() {
        index.join("a").unwrap();
    }
    Arc::new(EventIngest::new(Arc::new(index), hashing()))
}

impl Rig {
    fn new(queue_blocks: usize) -> Self {
        let now = Instant::now();
        let queue = Arc::new(EventQueue::new(queue_blocks));
        let shadow = ShadowCache::default();
        let config = Config { queue_blocks, batch_blocks: 6, ..Config::new("a", hashing(), 1) };
        let ingest = ingest_of(Index::new(kv_index::Config::default()));
        Self {
            machine: StateMachine::new(config, now),
            handle: ReporterHandle::new(Arc::clone(&queue)),
            source: crate::QueueAndCache { queue, inventory: shadow.clone() },
            snapshot: ingest.index().snapshot(),
            shadow,
            ingest,
            delayed: Vec::new(),
            now,
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Store { chain: which, blocks } => {
                self.shadow.store(&self.handle, Parent::Root, &chain(*which, *blocks));
            }
            Op::Evict { at } => {
                let mut held: Vec<BlockHash> = self.shadow.copies().into_keys().collect();
                held.sort_unstable();
                if !held.is_empty() {
                    self.shadow.evict(&self.handle, &[held[at % held.len()]]);
                }
            }
            Op::Clear => self.shadow.clear(&self.handle),
            Op::Run { millis, fates } => {
                self.now += Duration::from_millis(*millis);
                for fate in fates {
                    self.step(*fate);
                }
            }
            Op::Arrives { at } => {
                if !self.delayed.is_empty() {
                    let message = self.delayed.remove(at % self.delayed.len());
                    let _ = self.ingest.message(&message);
                }
            }
            Op::Forgets => self.ingest = ingest_of(Index::new(kv_index::Config::default())),
            Op::GoesBack => {
                let now = self.ingest.index().snapshot();
                let then = std::mem::replace(&mut self.snapshot, now);
                self.ingest = ingest_of(Index::restore(kv_index::Config::default(), &then).unwrap());
            }
        }
    }

    /// Sends one message, if one is due; whether one was.
    fn step(&mut self, fate: Fate) -> bool {
        let Action::Send(message) = self.machine.poll(self.now, false, &mut self.source) else { return false };
        let lost = || Err(SinkError::Unacknowledged("the channel".into()));
        let answer = match fate {
            Fate::Answered => Ok(self.ingest.message(message).unwrap()),
            Fate::Lost => lost(),
            Fate::AnswerLost => {
                self.ingest.message(message).unwrap();
                lost()
            }
            Fate::Delayed => {
                self.delayed.push(message.clone());
                lost()
            }
            Fate::Doubled => {
                self.delayed.push(message.clone());
                Ok(self.ingest.message(message).unwrap())
            }
            Fate::Refused => Err(SinkError::Rejected { status: 401, reason: "a wrong token, for a while".into() }),
        };
        self.machine.acknowledged(self.now, answer);
        true
    }

    /// Nothing new happens, and nothing is lost any more.
    fn settle(&mut self) {
        for message in std::mem::take(&mut self.delayed) {
            let _ = self.ingest.message(&message);
        }
        // Long enough for every pause there is, and a digest after the last of them.
        for _ in 0..40 {
            self.now += Duration::from_secs(5);
            while self.step(Fate::Answered) {}
        }
    }

    fn truth(&self) -> Digest {
        let copies = self.shadow.copies();
        Digest::of(copies.into_iter().flat_map(|(hash, n)| std::iter::repeat_n((hash, Tier::Gpu), n as usize)))
    }

    fn believed(&self) -> Digest {
        let index = self.ingest.index();
        index.digest(index.pod("a").unwrap()).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn after_quiescence_the_index_is_the_worker(
        ops in prop::collection::vec(op(), 0..60), queue in prop_oneof![Just(8usize), Just(1_000)],
    ) {
        let mut rig = Rig::new(queue);
        for op in &ops {
            rig.apply(op);
        }
        rig.settle();
        prop_assert_eq!(rig.believed(), rig.truth(), "{:?}", rig.machine.stats());
        let held = rig.shadow.copies();
        let index = rig.ingest.index();
        let pod = index.pod("a").unwrap();
        let mut matches = Matches::default();
        for which in 0..4 {
            let prompt = chain(which, 8);
            index.search(&prompt, &mut matches);
            let depth = prompt.iter().take_while(|hash| held.contains_key(hash)).count();
            prop_assert_eq!(matches.depth(pod.id()), depth);
        }
    }
}

/// The digests are for what nobody foresaw: without such, no inventory follows the first one.
#[test]
fn a_quiet_channel_needs_one_inventory() {
    let mut rig = Rig::new(1_000);
    for n in 0..50 {
        rig.apply(&Op::Store { chain: n % 4, blocks: 1 + n % 7 });
        rig.apply(&Op::Evict { at: n as usize });
        rig.apply(&Op::Run { millis: 60, fates: vec![Fate::Answered; 3] });
    }
    rig.settle();
    let stats = rig.machine.stats();
    assert_eq!((stats.inventories, stats.gaps, stats.mismatches), (1, 0, 0), "{stats:?}");
    assert!(stats.batches > 10 && stats.digests > 10, "{stats:?}");
}

#[test]
fn an_overflow_is_made_up_for_at_once() {
    let mut rig = Rig::new(8);
    while rig.step(Fate::Answered) {}
    rig.shadow.store(&rig.handle, Parent::Root, &chain(0, 7));
    rig.shadow.evict(&rig.handle, &chain(0, 7)[3..]);
    assert!(rig.step(Fate::Answered), "without waiting for anything");
    assert_eq!(rig.believed(), rig.truth());
    assert_eq!(rig.machine.stats().inventories, 2);
}

#[test]
fn a_message_sent_again_is_the_same_message() {
    let mut rig = Rig::new(100);
    while rig.step(Fate::Answered) {}
    rig.shadow.store(&rig.handle, Parent::Root, &chain(0, 6));
    for _ in 0..5 {
        assert!(rig.step(Fate::Delayed));
        rig.shadow.evict(&rig.handle, &chain(0, 6)[5..]);
        rig.now += Duration::from_secs(10);
    }
    assert!(rig.delayed.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", rig.delayed);
}

#[test]
fn pauses_grow_to_a_bound_and_differ_between_workers() {
    let pauses = |seed| {
        let mut machine = StateMachine::new(Config { seed, ..Config::new("a", hashing(), 1) }, Instant::now());
        (0..20).map(|_| machine.backoff()).collect::<Vec<_>>()
    };
    let (one, other) = (pauses(1), pauses(2));
    assert_eq!(one, pauses(1));
    assert_ne!(one, other);
    assert!(one[0] <= Duration::from_millis(50));
    assert!(one.iter().all(|&pause| pause <= Duration::from_secs(5)));
    assert!(one[15] >= Duration::from_millis(2_500));
}

/// A gateway without room for all of it says so at every digest.
#[test]
fn an_index_that_is_full_is_not_sent_inventories_without_end() {
    let mut rig = Rig::new(1_000);
    rig.ingest = ingest_of(Index::new(kv_index::Config::default().max_blocks(3)));
    rig.shadow.store(&rig.handle, Parent::Root, &chain(0, 7));
    rig.settle();
    let stats = rig.machine.stats();
    assert!(stats.mismatches >= 30, "{stats:?}");
    assert!(stats.inventories <= 9, "at most every 30 s of 200: {stats:?}");
}

#[test]
fn a_worker_whose_clock_went_back_is_heard_again() {
    let mut rig = Rig::new(1_000);
    while rig.step(Fate::Answered) {}
    // A week of microseconds ahead.
    let incarnation = 7 * 86_400 * 1_000_000;
    let later =
        Inventory { pod: "a".into(), incarnation, sequence: 0, hashing: hashing(), part: 0, parts: 1, blocks: vec![] };
    rig.ingest.inventory(&later).unwrap();
    rig.shadow.store(&rig.handle, Parent::Root, &chain(0, 7));
    rig.settle();
    assert_eq!(rig.believed(), rig.truth());
    assert!(rig.machine.stats().superseded <= 4, "{:?}", rig.machine.stats());
}

/// Each hears of the other and takes a higher incarnation; neither can know that it is the wrong one.
#[test]
fn two_workers_of_one_name_take_turns_more_and_more_seldom() {
    let (mut one, mut other) = (Rig::new(1_000), Rig::new(1_000));
    one.shadow.store(&one.handle, Parent::Root, &chain(0, 5));
    other.shadow.store(&other.handle, Parent::Root, &chain(1, 7));
    other.ingest = Arc::clone(&one.ingest);
    // An hour, in tenths of a second.
    for _ in 0..36_000 {
        for rig in [&mut one, &mut other] {
            rig.now += Duration::from_millis(100);
            while rig.step(Fate::Answered) {}
        }
    }
    let (first, second) = (one.machine.stats(), other.machine.stats());
    assert!(first.superseded > 8 && second.superseded > 8, "{first:?} {second:?}");
    assert!(first.inventories + second.inventories < 60, "{first:?} {second:?}");
    assert!(one.believed() == one.truth() || one.believed() == other.truth());
}

#[test]
fn several_gateways_that_ask_for_one_reason_get_one_inventory() {
    let mut rig = Rig::new(1_000);
    while rig.step(Fate::Answered) {}
    rig.now += Duration::from_secs(6);
    let Action::Send(digest) = rig.machine.poll(rig.now, false, &mut rig.source) else { panic!("a digest is due") };
    let resync = ResyncRequest::after(digest, AckStatus::Mismatch).unwrap();
    rig.machine.acknowledged(rig.now, Ok(Ack::new(AckStatus::Taken)));
    for _ in 0..3 {
        rig.machine.resync_requested(rig.now, &resync);
        while rig.step(Fate::Answered) {}
    }
    assert_eq!(rig.machine.stats().inventories, 2);
    assert_eq!(rig.machine.stats().mismatches, 1);
}
