//! Transcripts of one pod's messages, and two transports at once.

use kv_index::{BlockHash, BlockSize, Config, Digest, Matches, Parent, Tier};

use super::*;
use crate::wire::Malformed;

fn hashing() -> HashScheme {
    HashScheme::native("sim", BlockSize::new(16).unwrap())
}

fn ingest() -> (EventIngest, Pod) {
    let index: Arc<Index> = Arc::new(Index::new(Config::default()));
    let pod = index.join("a").unwrap();
    (EventIngest::new(index, hashing()), pod)
}

fn hash(n: u64) -> BlockHash {
    BlockHash::new(n)
}

/// EventBatch `n` stores block `n + 1`, under the one before it.
fn stored(incarnation: u64, n: u64) -> EventBatch {
    let parent = if n == 0 { Parent::Root } else { Parent::Block(hash(n)) };
    let changes = vec![Change::Stored { parent, blocks: vec![hash(n + 1)], tier: Tier::Gpu }];
    EventBatch {
        pod: "a".into(),
        incarnation,
        sequence: n,
        hashing: hashing(),
        source: EventSemantics::Copies,
        changes,
    }
}

/// The first `blocks` blocks of the chain, in parts of two.
fn parts(incarnation: u64, sequence: u64, blocks: u64, copies: u32) -> Vec<Inventory> {
    let held: Vec<InventoryEntry> = (1..=blocks)
        .map(|n| {
            let parent = if n == 1 { Parent::Root } else { Parent::Block(hash(n - 1)) };
            InventoryEntry { copies, ..InventoryEntry::new(hash(n), parent) }
        })
        .collect();
    let parts = held.chunks(2).count() as u32;
    (held.chunks(2).zip(0..))
        .map(|(blocks, part)| Inventory {
            pod: "a".into(),
            incarnation,
            sequence,
            hashing: hashing(),
            part,
            parts,
            blocks: blocks.to_vec(),
        })
        .collect()
}

fn of_chain(blocks: u64, copies: usize) -> Digest {
    Digest::of((1..=blocks).flat_map(|n| std::iter::repeat_n((hash(n), Tier::Gpu), copies)))
}

fn digest(incarnation: u64, sequence: u64, digest: Digest) -> DigestMessage {
    DigestMessage { pod: "a".into(), incarnation, sequence, digest }
}

fn depth(ingest: &EventIngest, pod: Pod) -> usize {
    let chain: Vec<BlockHash> = (1..=20).map(hash).collect();
    let mut matches = Matches::default();
    ingest.index().search(&chain, &mut matches);
    matches.depth(pod.id())
}

fn say(answer: Result<Ack, IngestError>) -> AckStatus {
    answer.unwrap().status
}

#[test]
fn a_gap_applies_nothing_and_an_inventory_heals_it() {
    let (ingest, pod) = ingest();
    assert_eq!(say(ingest.batch(&stored(1, 0))), AckStatus::Applied);
    assert_eq!(say(ingest.batch(&stored(1, 3))), AckStatus::Gap);
    assert_eq!(depth(&ingest, pod), 1);
    for (part, status) in parts(1, 4, 4, 1).iter().zip([AckStatus::Partial, AckStatus::Applied]) {
        assert_eq!(say(ingest.inventory(part)), status);
    }
    assert_eq!(depth(&ingest, pod), 4);
    assert_eq!(say(ingest.batch(&stored(1, 3))), AckStatus::Duplicate, "the inventory has it");
    assert_eq!(say(ingest.batch(&stored(1, 5))), AckStatus::Applied, "exactly after it");
    assert_eq!(depth(&ingest, pod), 4, "block 6 alone leads nowhere");
}

#[test]
fn an_inventory_with_nothing_missing_touches_only_what_differs() {
    let (ingest, pod) = ingest();
    for n in 0..4 {
        assert_eq!(say(ingest.batch(&stored(1, n))), AckStatus::Applied);
    }
    let before = ingest.index().pod_stats(pod).unwrap().applied;
    let inventory = parts(1, 4, 2, 3);
    assert_eq!(say(ingest.inventory(&inventory[0])), AckStatus::Applied);
    let after = ingest.index().pod_stats(pod).unwrap().applied;
    assert_eq!((after.removed - before.removed, after.stored - before.stored), (2, 0));
    assert_eq!(say(ingest.digest(&digest(1, 5, of_chain(2, 3)))), AckStatus::InSync);
    assert_eq!(say(ingest.inventory(&inventory[0])), AckStatus::Duplicate);
}

#[test]
fn a_digest_is_compared_at_its_own_number_only() {
    let (ingest, _) = ingest();
    assert_eq!(say(ingest.digest(&digest(1, 0, Digest::EMPTY))), AckStatus::InSync);
    ingest.batch(&stored(1, 0)).unwrap();
    ingest.batch(&stored(1, 1)).unwrap();
    assert_eq!(say(ingest.digest(&digest(1, 2, of_chain(2, 1)))), AckStatus::InSync);
    assert_eq!(say(ingest.digest(&digest(1, 2, of_chain(1, 1)))), AckStatus::Mismatch);
    assert_eq!(say(ingest.digest(&digest(1, 1, of_chain(1, 1)))), AckStatus::Passed);
    assert_eq!(say(ingest.digest(&digest(1, 3, of_chain(2, 1)))), AckStatus::Gap);
}

#[test]
fn a_new_life_takes_the_place_of_the_old_one() {
    let second: [fn(&EventIngest) -> AckStatus; 2] =
        [|ingest| say(ingest.batch(&stored(2, 0))), |ingest| say(ingest.inventory(&parts(2, 0, 1, 1)[0]))];
    for tell in second {
        let (ingest, pod) = ingest();
        for n in 0..3 {
            ingest.batch(&stored(1, n)).unwrap();
        }
        assert_eq!(say(ingest.digest(&digest(2, 0, Digest::EMPTY))), AckStatus::Gap);
        assert_eq!(depth(&ingest, pod), 3, "a digest changes nothing");
        assert_eq!(tell(&ingest), AckStatus::Applied);
        assert_eq!(depth(&ingest, pod), 1);
        assert_eq!(say(ingest.batch(&stored(1, 3))), AckStatus::Stale);
        assert_eq!(say(ingest.digest(&digest(1, 3, of_chain(3, 1)))), AckStatus::Stale);
        assert_eq!(say(ingest.inventory(&parts(1, 9, 2, 1)[0])), AckStatus::Stale);
        assert_eq!(depth(&ingest, pod), 1);
    }
}

/// The engine still has its cache when only its reporter was started anew.
#[test]
fn while_a_new_life_lists_what_it_has_the_old_list_is_kept() {
    let (ingest, pod) = ingest();
    for n in 0..3 {
        ingest.batch(&stored(1, n)).unwrap();
    }
    let parts = parts(2, 0, 4, 1);
    assert_eq!(say(ingest.inventory(&parts[0])), AckStatus::Partial);
    assert_eq!(depth(&ingest, pod), 3);
    assert_eq!(say(ingest.inventory(&parts[1])), AckStatus::Applied);
    assert_eq!(depth(&ingest, pod), 4);
}

#[test]
fn only_pods_that_are_to_be_reported_on_are() {
    let (ingest, pod) = ingest();
    let other = ingest.index().join("followed").unwrap();
    ingest.batch(&EventBatch { pod: "followed".into(), ..stored(1, 0) }).unwrap();
    let status = Arc::new(SourceStatus::new("pushed"));
    ingest.accept_only(BTreeMap::from([("a".to_owned(), PushedPod { status: Arc::clone(&status), observer: None })]));
    let refusal = IngestError::NotPushed("followed".into());
    let elsewhere = |message: Message| match message {
        Message::Batch(report) => Message::Batch(EventBatch { pod: "followed".into(), ..report }),
        Message::Digest(digest) => Message::Digest(DigestMessage { pod: "followed".into(), ..digest }),
        Message::Inventory(part) => Message::Inventory(Inventory { pod: "followed".into(), ..part }),
    };
    let before = (ingest.index().digest(other), ingest.index().stats());
    // A later life would make the pod forget, were it heard.
    let messages = [
        Message::Batch(stored(9, 0)),
        Message::Digest(digest(9, 0, Digest::EMPTY)),
        Message::Inventory(parts(9, 0, 2, 1).remove(0)),
    ];
    for message in messages {
        assert_eq!(ingest.message(&elsewhere(message)), Err(refusal.clone()));
    }
    assert_eq!((ingest.index().digest(other), ingest.index().stats()), before);
    assert_eq!(ingest.batch(&EventBatch { pod: "b".into(), ..stored(1, 0) }), Err(IngestError::UnknownPod("b".into())));

    assert_eq!(status.state(), SourceState::Connecting);
    ingest.batch(&stored(2, 0)).unwrap();
    assert_eq!((status.state(), status.view().batches), (SourceState::Live, 1));
    ingest.batch(&stored(2, 2)).unwrap();
    assert_eq!((status.state(), status.view().gaps), (SourceState::Replaying, 1));
    ingest.inventory(&parts(2, 3, 2, 1)[0]).unwrap();
    assert_eq!(status.state(), SourceState::Live);
    ingest.batch(&stored(1, 3)).unwrap();
    assert_eq!(status.state(), SourceState::Live, "an earlier life is nobody to wait for");
    ingest.digest(&digest(2, 4, Digest::EMPTY)).unwrap();
    assert_eq!(status.state(), SourceState::Replaying);
    ingest.accept_only(BTreeMap::new());
    assert_eq!(ingest.batch(&stored(2, 4)), Err(IngestError::NotPushed("a".into())));
    assert_eq!(depth(&ingest, pod), 2);
}

/// Were the first inventory not to leave its incarnation behind, the next life would add to it.
#[test]
fn an_inventory_as_the_first_message_is_forgotten_by_the_next_life() {
    let (ingest, pod) = ingest();
    ingest.inventory(&parts(1, 0, 2, 1)[0]).unwrap();
    assert_eq!(depth(&ingest, pod), 2);
    assert_eq!(say(ingest.batch(&stored(2, 0))), AckStatus::Applied);
    assert_eq!(depth(&ingest, pod), 1);
}

#[test]
fn refusals_change_nothing() {
    let (ingest, pod) = ingest();
    ingest.batch(&stored(1, 0)).unwrap();
    let (before, stats) = (ingest.index().digest(pod).unwrap(), ingest.index().stats());
    let unknown = EventBatch { pod: "b".into(), ..stored(1, 1) };
    assert_eq!(ingest.batch(&unknown), Err(IngestError::UnknownPod("b".into())));
    // A later incarnation would forget everything, were it looked at.
    let sized = EventBatch { hashing: HashScheme { block_size: 32, ..hashing() }, ..stored(9, 1) };
    assert_eq!(ingest.batch(&sized), Err(IngestError::BlockSize { found: 32, expected: 16 }));
    let found = HashScheme::native("another model", BlockSize::new(16).unwrap());
    let otherwise = IngestError::HashScheme { found, expected: hashing() };
    assert_eq!(ingest.batch(&EventBatch { hashing: found, ..stored(9, 1) }), Err(otherwise.clone()));
    assert_eq!(ingest.inventory(&Inventory { hashing: found, ..parts(9, 1, 1, 1).remove(0) }), Err(otherwise.clone()));
    assert!(otherwise.to_string().contains(&found.probe.to_string()), "{otherwise}");
    assert_eq!(say(ingest.digest(&digest(9, 0, Digest::EMPTY))), AckStatus::Gap, "a digest says nothing of hashing");
    let empty = vec![Change::Removed { blocks: vec![], tier: Tier::Gpu }];
    let malformed = EventBatch { changes: empty, ..stored(9, 1) };
    assert_eq!(ingest.batch(&malformed), Err(IngestError::Malformed(Malformed::NoBlocks { at: 0 })));
    let torn = Inventory { parts: 0, ..parts(9, 1, 1, 1).remove(0) };
    assert_eq!(ingest.inventory(&torn), Err(IngestError::Malformed(Malformed::Part { part: 0, parts: 0 })));
    assert_eq!((ingest.index().digest(pod).unwrap(), ingest.index().stats()), (before, stats));
    for (refusal, status) in [
        (IngestError::UnknownPod("b".into()), 404),
        (IngestError::NotPushed("b".into()), 422),
        (IngestError::BlockSize { found: 1, expected: 2 }, 422),
        (otherwise, 422),
        (IngestError::Malformed(Malformed::BlockSize), 400),
        (IngestError::Malformed(Malformed::Blocks { found: 9 }), 413),
        (IngestError::PodRetired(kv_index::PodRetired(pod)), 409),
    ] {
        assert_eq!(refusal.status().as_u16(), status, "{refusal}");
    }
}

#[test]
fn a_snapshot_goes_on_where_it_was_taken() {
    let (ingest, _) = ingest();
    for n in 0..3 {
        ingest.batch(&stored(1, n)).unwrap();
    }
    let restored: Index = Index::restore(Config::default(), &ingest.index().snapshot()).unwrap();
    let restored = EventIngest::new(Arc::new(restored), hashing());
    for n in 0..5 {
        let status = if n < 3 { AckStatus::Duplicate } else { AckStatus::Applied };
        assert_eq!(say(restored.batch(&stored(1, n))), status);
    }
    assert_eq!(say(restored.digest(&digest(1, 5, of_chain(5, 1)))), AckStatus::InSync);
}

/// Each transport brings everything, at its own pace: reports, and now and then an inventory in parts.
#[test]
fn two_transports_at_once_apply_everything_once() {
    for _ in 0..50 {
        let (ingest, _) = ingest();
        let script: Vec<Message> = (0..40)
            .flat_map(|n| match n % 10 {
                9 => parts(1, n, n, 1).into_iter().map(Message::Inventory).collect(),
                _ => vec![Message::Batch(stored(1, n))],
            })
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for message in &script {
                        // One transport may be ahead in parts, or behind: the message comes again until it is passed.
                        while matches!(say(ingest.message(message)), AckStatus::Gap) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
        });
        // EventBatch 9 never was: the inventories have blocks 1..=n, and after the last one nothing came.
        assert_eq!(say(ingest.digest(&digest(1, 40, of_chain(39, 1)))), AckStatus::InSync);
    }
}

/// Writes down what it is told.
#[derive(Debug, Default)]
struct Notes(parking_lot::Mutex<Vec<String>>);

impl ChangeObserver for Notes {
    fn changed(&self, event: &Event<'_>) {
        self.0.lock().push(match event {
            Event::Stored(stored) => format!("stored {}", stored.blocks.len()),
            Event::Removed(removed) => format!("removed {}", removed.blocks.len()),
            Event::Cleared => "cleared".to_owned(),
        });
    }

    fn forgot(&self) {
        self.0.lock().push("forgot".to_owned());
    }
}

#[test]
fn an_observer_is_told_of_what_is_applied_and_once() {
    let index: Arc<Index> = Arc::new(Index::new(Config::default()));
    index.join("a").unwrap();
    let hashing = HashScheme::native("m", BlockSize::new(16).unwrap());
    let (ingest, notes) = (EventIngest::new(index, hashing), Arc::new(Notes::default()));
    let pod = PushedPod { status: Arc::new(SourceStatus::new("pushed")), observer: Some(notes.clone()) };
    ingest.accept_only(BTreeMap::from([("a".to_owned(), pod)]));
    let (hash, tier) = (BlockHash::new(1), Tier::Gpu);
    let stored = Change::Stored { parent: Parent::Root, blocks: vec![hash], tier };
    let changes = vec![stored, Change::Removed { blocks: vec![hash], tier }];
    let source = EventSemantics::Copies;
    let batch = EventBatch { pod: "a".into(), incarnation: 1, sequence: 0, hashing, source, changes };
    ingest.batch(&batch).unwrap();
    ingest.batch(&batch).unwrap();
    assert_eq!(*notes.0.lock(), ["stored 1", "removed 1"], "the second time it is a duplicate");
    ingest.batch(&EventBatch { incarnation: 2, changes: vec![Change::Cleared], ..batch }).unwrap();
    assert_eq!(notes.0.lock()[2..], ["cleared", "cleared"], "the worker restarted, and then it says so");
    let blocks = vec![InventoryEntry::new(hash, Parent::Root)];
    let inventory = Inventory { pod: "a".into(), incarnation: 2, sequence: 1, hashing, part: 0, parts: 1, blocks };
    ingest.inventory(&inventory).unwrap();
    assert_eq!(notes.0.lock()[4..], ["cleared", "forgot"]);
}

#[test]
fn unfinished_inventories_are_bounded_and_those_that_were_left_go_first() {
    let (ingest, _) = ingest();
    let ingest = ingest.max_unfinished_blocks(10);
    ingest.index().join("b").unwrap();
    let of = |pod: &str, at: usize| Inventory { pod: pod.into(), ..parts(1, 0, 6, 1).swap_remove(at) };
    let now = Instant::now();
    assert_eq!(ingest.inventory_at(&of("a", 0), now).unwrap().status, AckStatus::Partial);
    let refused = ingest.inventory_at(&of("b", 0), now).unwrap_err();
    assert_eq!((refused.status().as_u16(), &refused), (429, &IngestError::NoRoom { limit: 10 }));
    assert_eq!(ingest.inventory_at(&of("a", 1), now).unwrap().status, AckStatus::Partial, "the other goes on");
    let later = now + std::time::Duration::from_secs(60);
    assert_eq!(ingest.inventory_at(&of("b", 0), later).unwrap().status, AckStatus::Partial);
    assert_eq!(ingest.inventory_at(&of("a", 2), later).unwrap().status, AckStatus::Gap, "it was left, and begins anew");
    for at in [1, 2] {
        ingest.inventory_at(&of("b", at), later).unwrap();
    }
    for at in [0, 1, 2] {
        ingest.inventory_at(&of("a", at), later).unwrap();
    }
    let index = ingest.index();
    for pod in ["a", "b"] {
        assert_eq!(index.digest(index.pod(pod).unwrap()).unwrap(), of_chain(6, 1));
    }
}
