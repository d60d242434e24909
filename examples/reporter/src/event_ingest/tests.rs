//! Transcripts of one pod's messages, and two transports at once.

use kv_index::{BlockHash, BlockSize, Config, Digest, Matches, Parent, Tier};

use super::*;
use crate::wire::Malformed;

fn hashing() -> Hashing {
    Hashing::native("sim", BlockSize::new(16).unwrap())
}

fn inbox() -> (EventIngest, Pod) {
    let index: Arc<Index> = Arc::new(Index::new(Config::default()));
    let pod = index.join("a").unwrap();
    (EventIngest::new(index, hashing()), pod)
}

fn hash(n: u64) -> BlockHash {
    BlockHash::new(n)
}

/// Report `n` stores block `n + 1`, under the one before it.
fn stored(incarnation: u64, n: u64) -> Report {
    let parent = if n == 0 { Parent::Root } else { Parent::Block(hash(n)) };
    let changes = vec![Change::Stored { parent, blocks: vec![hash(n + 1)], tier: Tier::Gpu }];
    Report { pod: "a".into(), incarnation, sequence: n, hashing: hashing(), source: EventSemantics::Copies, changes }
}

/// The first `blocks` blocks of the chain, in parts of two.
fn parts(incarnation: u64, sequence: u64, blocks: u64, copies: u32) -> Vec<Inventory> {
    let held: Vec<HeldBlock> = (1..=blocks)
        .map(|n| {
            let parent = if n == 1 { Parent::Root } else { Parent::Block(hash(n - 1)) };
            HeldBlock { copies, ..HeldBlock::new(hash(n), parent) }
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

fn digest(incarnation: u64, sequence: u64, digest: Digest) -> DigestReport {
    DigestReport { pod: "a".into(), incarnation, sequence, digest }
}

fn depth(inbox: &EventIngest, pod: Pod) -> usize {
    let chain: Vec<BlockHash> = (1..=20).map(hash).collect();
    let mut matches = Matches::default();
    inbox.index().search(&chain, &mut matches);
    matches.depth(pod.id())
}

fn say(answer: Result<Answer, Refusal>) -> Verdict {
    answer.unwrap().verdict
}

#[test]
fn a_gap_applies_nothing_and_an_inventory_heals_it() {
    let (inbox, pod) = inbox();
    assert_eq!(say(inbox.report(&stored(1, 0))), Verdict::Applied);
    assert_eq!(say(inbox.report(&stored(1, 3))), Verdict::Gap);
    assert_eq!(depth(&inbox, pod), 1);
    for (part, verdict) in parts(1, 4, 4, 1).iter().zip([Verdict::Partial, Verdict::Applied]) {
        assert_eq!(say(inbox.inventory(part)), verdict);
    }
    assert_eq!(depth(&inbox, pod), 4);
    assert_eq!(say(inbox.report(&stored(1, 3))), Verdict::Duplicate, "the inventory has it");
    assert_eq!(say(inbox.report(&stored(1, 5))), Verdict::Applied, "exactly after it");
    assert_eq!(depth(&inbox, pod), 4, "block 6 alone leads nowhere");
}

#[test]
fn an_inventory_with_nothing_missing_touches_only_what_differs() {
    let (inbox, pod) = inbox();
    for n in 0..4 {
        assert_eq!(say(inbox.report(&stored(1, n))), Verdict::Applied);
    }
    let before = inbox.index().pod_stats(pod).unwrap().applied;
    let inventory = parts(1, 4, 2, 3);
    assert_eq!(say(inbox.inventory(&inventory[0])), Verdict::Applied);
    let after = inbox.index().pod_stats(pod).unwrap().applied;
    assert_eq!((after.removed - before.removed, after.stored - before.stored), (2, 0));
    assert_eq!(say(inbox.digest(&digest(1, 5, of_chain(2, 3)))), Verdict::InSync);
    assert_eq!(say(inbox.inventory(&inventory[0])), Verdict::Duplicate);
}

#[test]
fn a_digest_is_compared_at_its_own_number_only() {
    let (inbox, _) = inbox();
    assert_eq!(say(inbox.digest(&digest(1, 0, Digest::EMPTY))), Verdict::InSync);
    inbox.report(&stored(1, 0)).unwrap();
    inbox.report(&stored(1, 1)).unwrap();
    assert_eq!(say(inbox.digest(&digest(1, 2, of_chain(2, 1)))), Verdict::InSync);
    assert_eq!(say(inbox.digest(&digest(1, 2, of_chain(1, 1)))), Verdict::Mismatch);
    assert_eq!(say(inbox.digest(&digest(1, 1, of_chain(1, 1)))), Verdict::Passed);
    assert_eq!(say(inbox.digest(&digest(1, 3, of_chain(2, 1)))), Verdict::Gap);
}

#[test]
fn a_new_life_takes_the_place_of_the_old_one() {
    let second: [fn(&EventIngest) -> Verdict; 2] =
        [|inbox| say(inbox.report(&stored(2, 0))), |inbox| say(inbox.inventory(&parts(2, 0, 1, 1)[0]))];
    for tell in second {
        let (inbox, pod) = inbox();
        for n in 0..3 {
            inbox.report(&stored(1, n)).unwrap();
        }
        assert_eq!(say(inbox.digest(&digest(2, 0, Digest::EMPTY))), Verdict::Gap);
        assert_eq!(depth(&inbox, pod), 3, "a digest changes nothing");
        assert_eq!(tell(&inbox), Verdict::Applied);
        assert_eq!(depth(&inbox, pod), 1);
        assert_eq!(say(inbox.report(&stored(1, 3))), Verdict::Stale);
        assert_eq!(say(inbox.digest(&digest(1, 3, of_chain(3, 1)))), Verdict::Stale);
        assert_eq!(say(inbox.inventory(&parts(1, 9, 2, 1)[0])), Verdict::Stale);
        assert_eq!(depth(&inbox, pod), 1);
    }
}

/// The engine still has its cache when only its reporter was started anew.
#[test]
fn while_a_new_life_lists_what_it_has_the_old_list_is_kept() {
    let (inbox, pod) = inbox();
    for n in 0..3 {
        inbox.report(&stored(1, n)).unwrap();
    }
    let parts = parts(2, 0, 4, 1);
    assert_eq!(say(inbox.inventory(&parts[0])), Verdict::Partial);
    assert_eq!(depth(&inbox, pod), 3);
    assert_eq!(say(inbox.inventory(&parts[1])), Verdict::Applied);
    assert_eq!(depth(&inbox, pod), 4);
}

#[test]
fn only_pods_that_are_to_be_reported_on_are() {
    let (inbox, pod) = inbox();
    let other = inbox.index().join("followed").unwrap();
    inbox.report(&Report { pod: "followed".into(), ..stored(1, 0) }).unwrap();
    let status = Arc::new(SourceStatus::new("pushed"));
    inbox.only(BTreeMap::from([("a".to_owned(), Arc::clone(&status))]));
    let refusal = Refusal::NotReported("followed".into());
    let elsewhere = |message: Message| match message {
        Message::Report(report) => Message::Report(Report { pod: "followed".into(), ..report }),
        Message::Digest(digest) => Message::Digest(DigestReport { pod: "followed".into(), ..digest }),
        Message::Inventory(part) => Message::Inventory(Inventory { pod: "followed".into(), ..part }),
    };
    let before = (inbox.index().digest(other), inbox.index().stats());
    // A later life would make the pod forget, were it heard.
    let messages = [
        Message::Report(stored(9, 0)),
        Message::Digest(digest(9, 0, Digest::EMPTY)),
        Message::Inventory(parts(9, 0, 2, 1).remove(0)),
    ];
    for message in messages {
        assert_eq!(inbox.message(&elsewhere(message)), Err(refusal.clone()));
    }
    assert_eq!((inbox.index().digest(other), inbox.index().stats()), before);
    assert_eq!(inbox.report(&Report { pod: "b".into(), ..stored(1, 0) }), Err(Refusal::UnknownPod("b".into())));

    assert_eq!(status.state(), SourceState::Connecting);
    inbox.report(&stored(2, 0)).unwrap();
    assert_eq!((status.state(), status.view().batches), (SourceState::Live, 1));
    inbox.report(&stored(2, 2)).unwrap();
    assert_eq!((status.state(), status.view().gaps), (SourceState::Replaying, 1));
    inbox.inventory(&parts(2, 3, 2, 1)[0]).unwrap();
    assert_eq!(status.state(), SourceState::Live);
    inbox.report(&stored(1, 3)).unwrap();
    assert_eq!(status.state(), SourceState::Live, "an earlier life is nobody to wait for");
    inbox.digest(&digest(2, 4, Digest::EMPTY)).unwrap();
    assert_eq!(status.state(), SourceState::Replaying);
    inbox.only(BTreeMap::new());
    assert_eq!(inbox.report(&stored(2, 4)), Err(Refusal::NotReported("a".into())));
    assert_eq!(depth(&inbox, pod), 2);
}

/// Were the first inventory not to leave its incarnation behind, the next life would add to it.
#[test]
fn an_inventory_as_the_first_message_is_forgotten_by_the_next_life() {
    let (inbox, pod) = inbox();
    inbox.inventory(&parts(1, 0, 2, 1)[0]).unwrap();
    assert_eq!(depth(&inbox, pod), 2);
    assert_eq!(say(inbox.report(&stored(2, 0))), Verdict::Applied);
    assert_eq!(depth(&inbox, pod), 1);
}

#[test]
fn refusals_change_nothing() {
    let (inbox, pod) = inbox();
    inbox.report(&stored(1, 0)).unwrap();
    let (before, stats) = (inbox.index().digest(pod).unwrap(), inbox.index().stats());
    let unknown = Report { pod: "b".into(), ..stored(1, 1) };
    assert_eq!(inbox.report(&unknown), Err(Refusal::UnknownPod("b".into())));
    // A later incarnation would forget everything, were it looked at.
    let sized = Report { hashing: Hashing { block_size: 32, ..hashing() }, ..stored(9, 1) };
    assert_eq!(inbox.report(&sized), Err(Refusal::BlockSize { found: 32, expected: 16 }));
    let found = Hashing::native("another model", BlockSize::new(16).unwrap());
    let otherwise = Refusal::Hashing { found, expected: hashing() };
    assert_eq!(inbox.report(&Report { hashing: found, ..stored(9, 1) }), Err(otherwise.clone()));
    assert_eq!(inbox.inventory(&Inventory { hashing: found, ..parts(9, 1, 1, 1).remove(0) }), Err(otherwise.clone()));
    assert!(otherwise.to_string().contains(&found.probe.to_string()), "{otherwise}");
    assert_eq!(say(inbox.digest(&digest(9, 0, Digest::EMPTY))), Verdict::Gap, "a digest says nothing of hashing");
    let empty = vec![Change::Removed { blocks: vec![], tier: Tier::Gpu }];
    let malformed = Report { changes: empty, ..stored(9, 1) };
    assert_eq!(inbox.report(&malformed), Err(Refusal::Malformed(Malformed::NoBlocks { at: 0 })));
    let torn = Inventory { parts: 0, ..parts(9, 1, 1, 1).remove(0) };
    assert_eq!(inbox.inventory(&torn), Err(Refusal::Malformed(Malformed::Part { part: 0, parts: 0 })));
    assert_eq!((inbox.index().digest(pod).unwrap(), inbox.index().stats()), (before, stats));
    for (refusal, status) in [
        (Refusal::UnknownPod("b".into()), 404),
        (Refusal::NotReported("b".into()), 422),
        (Refusal::BlockSize { found: 1, expected: 2 }, 422),
        (otherwise, 422),
        (Refusal::Malformed(Malformed::BlockSize), 400),
        (Refusal::Malformed(Malformed::Blocks { found: 9 }), 413),
        (Refusal::PodRetired(kv_index::PodRetired(pod)), 409),
    ] {
        assert_eq!(refusal.status().as_u16(), status, "{refusal}");
    }
}

#[test]
fn a_snapshot_goes_on_where_it_was_taken() {
    let (inbox, _) = inbox();
    for n in 0..3 {
        inbox.report(&stored(1, n)).unwrap();
    }
    let restored: Index = Index::restore(Config::default(), &inbox.index().snapshot()).unwrap();
    let restored = EventIngest::new(Arc::new(restored), hashing());
    for n in 0..5 {
        let verdict = if n < 3 { Verdict::Duplicate } else { Verdict::Applied };
        assert_eq!(say(restored.report(&stored(1, n))), verdict);
    }
    assert_eq!(say(restored.digest(&digest(1, 5, of_chain(5, 1)))), Verdict::InSync);
}

/// Each transport brings everything, at its own pace: reports, and now and then an inventory in parts.
#[test]
fn two_transports_at_once_apply_everything_once() {
    for _ in 0..50 {
        let (inbox, _) = inbox();
        let script: Vec<Message> = (0..40)
            .flat_map(|n| match n % 10 {
                9 => parts(1, n, n, 1).into_iter().map(Message::Inventory).collect(),
                _ => vec![Message::Report(stored(1, n))],
            })
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for message in &script {
                        // One transport may be ahead in parts, or behind: the message comes again until it is passed.
                        while matches!(say(inbox.message(message)), Verdict::Gap) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
        });
        // Report 9 never was: the inventories have blocks 1..=n, and after the last one nothing came.
        assert_eq!(say(inbox.digest(&digest(1, 40, of_chain(39, 1)))), Verdict::InSync);
    }
}
