//! One injected fault for each kind of finding, and none where all is well.

mod faults;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kv_index::{BlockSize, ChainHasher, ChainSeed, ChangeObserver, Event, EventSemantics, FeedProblem, Pod, Stored};
use routing_core::Load;
use routing_exec::{AttemptRecord, DispatchOutcome, DispatchReport, TokenUsage};

use super::*;
use crate::cache_audit::{AuditedPrompt, Expectation};
use crate::{PodSpec, RouterBuilder};

/// A router with a clock that is moved by hand, and one pod.
struct Scene {
    router: Router,
    pod: Pod,
    millis: Arc<AtomicU64>,
}

impl Scene {
    fn new(edit: impl FnOnce(RouterBuilder) -> RouterBuilder) -> Self {
        let (start, millis) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let read = Arc::clone(&millis);
        let builder = Router::builder("org/m").pod(PodSpec::new("a", "http://a:8000")).tokens_given();
        let builder = builder.clock(move || start + Duration::from_millis(read.load(Ordering::Relaxed)));
        let router = edit(builder).build().unwrap();
        let pod = router.pod("a").unwrap();
        Self { router, pod, millis }
    }

    /// Blocks of a prompt are announced, as somebody hashed them.
    fn announced(&self, model: &str, size: u32) {
        self.announced_by(self.pod, &prompt(), model, size);
    }

    fn announced_by(&self, pod: Pod, prompt: &[u32], model: &str, size: u32) {
        let hasher = ChainHasher::new(ChainSeed::new(model), BlockSize::new(size).unwrap());
        let blocks = hasher.hash(prompt);
        let event = Event::Stored(Stored::prompt(&blocks));
        self.router.index().apply(pod, EventSemantics::Membership, &event).unwrap();
        self.router.cache_audit().change_log(pod).changed(&event);
    }

    fn routed(&self, tokens: Option<&[u32]>) {
        for _ in 0..40 {
            let mut request = self.router.request(self.router.now());
            request.tokens = tokens;
            self.router.route(&request).unwrap();
        }
    }

    /// Requests for half a minute.
    fn waited(&self, tokens: Option<&[u32]>) {
        for second in [0, 16, 32] {
            self.after(second);
            self.router.tick(self.router.now());
            self.routed(tokens);
        }
    }

    /// Answers in which the engine counts prompt and cached tokens, of which 64 were expected.
    fn answered(&self, prompt_tokens: u64, cached: u64) {
        let expected = Expectation {
            pod: self.pod,
            name: "a".into(),
            tokens: Some(64),
            decided: self.router.now(),
            is_suspended: false,
        };
        for _ in 0..40 {
            let mut report = DispatchReport::new(DispatchOutcome::Completed(200));
            let usage = TokenUsage::new(prompt_tokens, cached);
            report.attempts.push(AttemptRecord::completed("s".into(), self.pod, self.router.now(), Some(usage)));
            let audited = AuditedPrompt { tokens: 512, block_tokens: 16, hashes: &Vec::new };
            self.router.cache_audit().record(std::slice::from_ref(&expected), &report, &audited);
        }
        self.router.cache_audit().settle(true);
    }

    fn after(&self, seconds: u64) {
        self.millis.store(seconds * 1000, Ordering::Relaxed);
    }

    fn found(&self) -> Vec<FindingKind> {
        self.router.diagnosis().into_iter().map(|finding| finding.kind).collect()
    }
}

fn prompt() -> Vec<u32> {
    (0..512).collect()
}

#[test]
fn where_all_is_well_nothing_is_found() {
    let scene = Scene::new(|builder| builder);
    assert_eq!(scene.found(), [], "nothing was seen yet");
    scene.announced("org/m", 16);
    scene.routed(Some(&prompt()));
    scene.answered(512, 64);
    scene.router.report_load(scene.pod, Load::default(), scene.router.now());
    scene.router.tick(scene.router.now());
    assert_eq!(scene.found(), []);
}

#[test]
fn another_block_size_is_found_by_the_engines_word_or_by_trying() {
    let scene = Scene::new(|builder| builder);
    scene.router.cache_audit().change_log(scene.pod).problem(FeedProblem::BlockSize { engine: 32, index: 16 });
    let [finding] = &scene.router.diagnosis()[..] else { panic!("one finding") };
    assert_eq!((finding.kind, finding.pod.as_deref()), (FindingKind::BlockSize, Some("a")));
    assert!(finding.to_string().contains("block_size(32)"), "{finding}");
    let scene = Scene::new(|builder| builder);
    scene.announced("org/m", 64);
    scene.routed(Some(&prompt()));
    assert_eq!(scene.found(), [FindingKind::BlockSize]);
    assert!(scene.router.diagnosis()[0].message.contains("64 tokens"));
}

#[test]
fn another_model_name_is_found_by_trying() {
    for name in ["m", "alias"] {
        let scene = Scene::new(|builder| builder.alias("alias"));
        scene.announced(name, 16);
        scene.routed(Some(&prompt()));
        assert_eq!(scene.found(), [FindingKind::ModelName]);
    }
    let scene = Scene::new(|builder| builder);
    scene.announced("m", 16);
    scene.routed(Some(&prompt()[..40]));
    assert_eq!(scene.found(), [FindingKind::ModelName], "a short prompt will do");
    let scene = Scene::new(|builder| builder);
    scene.announced("something else", 16);
    scene.routed(Some(&prompt()));
    assert_eq!(scene.found(), [], "it may still be announced");
    scene.waited(Some(&prompt()));
    assert_eq!(scene.found(), [FindingKind::NothingMatches], "what cannot be proven is not claimed");
}

#[test]
fn another_seed_is_what_the_verifier_says() {
    let scene = Scene::new(|builder| builder);
    scene.router.cache_audit().change_log(scene.pod).problem(FeedProblem::Hashes(&"another PYTHONHASHSEED"));
    assert_eq!(scene.found(), [FindingKind::EngineHashes]);
    assert!(scene.router.diagnosis()[0].message.contains("PYTHONHASHSEED"));
}

#[test]
fn a_tokenizer_that_is_missing_or_another_one_is_found() {
    let scene = Scene::new(|builder| builder);
    scene.announced("org/m", 16);
    scene.routed(None);
    assert_eq!(scene.found(), [FindingKind::NoTokens]);
    let scene = Scene::new(|builder| builder.profile("round_robin"));
    scene.routed(None);
    assert_eq!(scene.found(), [], "a profile that does not go by tokens needs none");
    scene.answered(700, 0);
    assert_eq!(scene.found(), [FindingKind::Tokenizer]);
}

#[test]
fn a_pod_without_events_is_found_under_a_cache_aware_profile() {
    for (profile, found) in [("cache_aware", &[FindingKind::NoEvents][..]), ("least_load", &[])] {
        let scene = Scene::new(|builder| builder.profile(profile));
        scene.routed(Some(&prompt()));
        assert_eq!(scene.found(), [], "it may still come");
        scene.after(40);
        scene.router.tick(scene.router.now());
        scene.routed(Some(&prompt()));
        assert_eq!(scene.found(), found);
    }
    let scene = Scene::new(|builder| builder.pod(PodSpec::new("idle", "http://idle:8000").draining()));
    scene.announced("org/m", 16);
    scene.waited(Some(&prompt()));
    assert_eq!(scene.found(), [], "who was sent nothing has nothing to announce");
}

#[test]
fn expected_tokens_that_engines_do_not_confirm_are_found() {
    let scene = Scene::new(|builder| builder);
    scene.announced("org/m", 16);
    scene.answered(512, 0);
    assert_eq!(scene.found(), [FindingKind::UnconfirmedCache]);
}

#[test]
fn stale_loads_clocks_and_housekeeping_are_found() {
    let scene = Scene::new(|builder| builder.profile("round_robin"));
    scene.router.report_load(scene.pod, Load::default(), scene.router.now());
    let early = scene.router.now();
    scene.after(60);
    scene.router.route(&scene.router.request(early).tokens(&[1])).unwrap();
    assert_eq!(scene.found(), [FindingKind::StaleLoad, FindingKind::StaleClock, FindingKind::NoHousekeeping]);
    scene.router.tick(scene.router.now());
    scene.router.report_load(scene.pod, Load::default(), scene.router.now());
    scene.routed(None);
    assert_eq!(scene.found(), []);
}
