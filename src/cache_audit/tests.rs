use kv_index::{ChangeObserver, Config, Event, Index, Removed, Stored, Tier};
use routing_exec::{AttemptRecord, DispatchOutcome, TokenUsage};

use super::*;

/// A request of four blocks of 16 tokens and one token more, sent to one pod that expects some of it to be cached.
struct Scene {
    audit: CacheAudit,
    expectation: Expectation,
    blocks: Vec<BlockHash>,
}

impl Scene {
    fn expecting(tokens: u64) -> Self {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        let expectation =
            Expectation { pod, name: "a".into(), tokens: Some(tokens), decided: Instant::now(), is_suspended: false };
        let audit = CacheAudit::new(Arc::new(Instant::now));
        // Its event source has one.
        let _ = audit.change_log(pod);
        Self { audit, expectation, blocks: (1..=4).map(BlockHash::new).collect() }
    }

    fn heard(&self, event: &Event<'_>) {
        self.audit.change_log(self.expectation.pod).changed(event);
    }

    /// The engine's report, and the cause of a difference.
    fn reported(&self, cached: u64) -> (CacheAccuracy, Option<Cause>) {
        let (pod, usage) = (self.expectation.pod, TokenUsage::new(65, cached));
        let mut report = DispatchReport::new(DispatchOutcome::Completed(200));
        report.attempts.push(AttemptRecord::completed("decode".into(), pod, Instant::now(), Some(usage)));
        let hashes = || self.blocks.clone();
        let prompt = AuditedPrompt { tokens: 65, block_tokens: 16, hashes: &hashes };
        let audited = self.audit.record(std::slice::from_ref(&self.expectation), &report, &prompt).expect("reported");
        self.audit.settle(true);
        (self.audit.of("a"), audited.cause.get().copied())
    }
}

#[test]
fn what_was_expected_and_came_is_exact() {
    let (accuracy, cause) = Scene::expecting(64).reported(64);
    assert_eq!((accuracy.exact, accuracy.over, accuracy.under, cause), (1, 0, 0, None));
    assert!(accuracy.causes.is_empty());
}

#[test]
fn an_eviction_of_the_first_missing_block_explains_what_is_missing() {
    let scene = Scene::expecting(64);
    scene.heard(&Event::Removed(Removed { blocks: &scene.blocks[2..3], tier: Tier::Gpu }));
    scene.heard(&Event::Stored(Stored::prompt(&scene.blocks)));
    let (accuracy, cause) = scene.reported(32);
    assert_eq!((accuracy.over, accuracy.over_tokens, cause), (1, 32, Some(Cause::Evicted)));
    assert_eq!(accuracy.causes["evicted"], 1);
    // Another block's does not.
    let scene = Scene::expecting(64);
    scene.heard(&Event::Removed(Removed { blocks: &scene.blocks[3..], tier: Tier::Gpu }));
    assert_eq!(scene.reported(32).1, Some(Cause::Unexplained));
}

#[test]
fn an_eviction_after_the_block_was_computed_anew_explains_nothing() {
    let scene = Scene::expecting(64);
    scene.heard(&Event::Stored(Stored::prompt(&scene.blocks)));
    scene.heard(&Event::Removed(Removed { blocks: &scene.blocks, tier: Tier::Gpu }));
    assert_eq!(scene.reported(0).1, Some(Cause::Unexplained));
}

#[test]
fn a_cleared_cache_explains_what_is_missing_and_stores_explain_what_is_there() {
    let scene = Scene::expecting(64);
    scene.heard(&Event::Cleared);
    assert_eq!(scene.reported(0).1, Some(Cause::Cleared));
    let scene = Scene::expecting(16);
    scene.heard(&Event::Stored(Stored::prompt(&scene.blocks[..3])));
    let (accuracy, cause) = scene.reported(48);
    assert_eq!((accuracy.under, accuracy.under_tokens, cause), (1, 32, Some(Cause::Stored)));
    assert_eq!(scene.reported(64).1, Some(Cause::Unexplained), "the fourth block was not stored");
}

#[test]
fn what_was_stored_anew_after_the_cache_was_cleared_explains_what_is_there() {
    let scene = Scene::expecting(16);
    scene.heard(&Event::Cleared);
    scene.heard(&Event::Stored(Stored::prompt(&scene.blocks[..3])));
    assert_eq!(scene.reported(48).1, Some(Cause::Stored));
    assert_eq!(scene.reported(64).1, Some(Cause::Unexplained), "the fourth block was not stored");
    // A block that leaves was there, and should have been expected.
    let scene = Scene::expecting(16);
    scene.heard(&Event::Removed(Removed { blocks: &scene.blocks, tier: Tier::Gpu }));
    scene.heard(&Event::Stored(Stored::prompt(&scene.blocks)));
    assert_eq!(scene.reported(48).1, Some(Cause::Unexplained));
}

#[test]
fn blocks_whose_events_were_lost_explain_what_is_there_and_not_what_is_missing() {
    let scene = Scene::expecting(16);
    scene.audit.change_log(scene.expectation.pod).forgot();
    assert_eq!(scene.reported(64).1, Some(Cause::EventsLost));
    assert_eq!(scene.reported(0).1, Some(Cause::Unexplained));
    scene.heard(&Event::Cleared);
    assert_eq!(scene.reported(64).1, Some(Cause::Unexplained), "the engine itself cleared its cache");
}

#[test]
fn a_difference_waits_for_its_event_and_an_event_that_comes_late_is_told_apart() {
    let scene = Scene::expecting(0);
    let open = |ended| Open {
        ended,
        expectation: scene.expectation.clone(),
        blocks: scene.blocks[..2].to_vec(),
        is_over: false,
        cause: Arc::default(),
    };
    let ended = Instant::now() - Duration::from_secs(3);
    let difference = open(ended);
    let cause = Arc::clone(&difference.cause);
    scene.audit.open.lock().push_back(difference);
    scene.audit.settle(false);
    assert_eq!((cause.get(), scene.audit.open.lock().len()), (None, 1), "it may come yet");
    scene.heard(&Event::Stored(Stored::prompt(&scene.blocks)));
    scene.audit.settle(false);
    assert_eq!(cause.get(), Some(&Cause::EventsLate));
    let difference = open(Instant::now());
    assert_eq!(difference.cause(&scene.audit.change_log(scene.expectation.pod)), Some(Cause::Stored));
}

#[test]
fn of_a_pod_without_events_nothing_is_expected() {
    let mut scene = Scene::expecting(0);
    scene.expectation.is_suspended = true;
    assert_eq!(scene.reported(64).1, Some(Cause::NoEvents));
    assert_eq!(scene.reported(0).1, None);
    let scene = Scene::expecting(0);
    scene.audit.retain(|_| false);
    assert_eq!(scene.reported(64).1, Some(Cause::NoEvents), "it has no source");
}
