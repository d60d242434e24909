//! Faults under traffic: pods that serve, of which one does not do as the others; and minutes in which all is well.

use std::ops::Range;

use kv_index::BlockHash;
use routing_exec::Failure;

use super::*;

/// How a pod hashes what it computes: model, block size, and by how much its tokens are shifted.
type Hashed = (&'static str, u32, u32);

const AS_THE_ROUTER: Hashed = ("org/m", 16, 0);

impl Scene {
    /// Three pods under traffic that is all new prompts, sixteen a second; what was found at each second.
    fn serves(&self, seconds: Range<u64>, hashed: impl Fn(&str) -> Hashed) -> Vec<Vec<FindingKind>> {
        let each = |second: u64| {
            self.after(second);
            let now = self.router.now();
            for at in 0..16 {
                let first = (second * 16 + at) as u32 * 1000;
                let prompt: Vec<u32> = (first..first + 128).collect();
                let mut routed = self.router.route(&self.router.request(now).tokens(&prompt)).unwrap();
                let pod = routed.first_pod().unwrap();
                routed.begin(0, pod).unwrap().succeeded();
                let (model, size, shift) = hashed(&routed.fleet().pod(pod.id()).unwrap().name);
                let computed: Vec<u32> = prompt.iter().map(|token| token + shift).collect();
                self.announced_by(pod, &computed, model, size);
            }
            for pod in self.router.pods() {
                self.router.report_load(pod.pod, Load::default(), now);
                self.router.set_healthy(pod.pod, true);
            }
            self.router.tick(now);
            self.found()
        };
        seconds.map(each).collect()
    }

    fn only_finding(&self) -> Finding {
        let mut found = self.router.diagnosis();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

/// Three pods, and the same samples of their traffic at every run.
fn three(builder: RouterBuilder) -> RouterBuilder {
    builder.seed(1).pod(PodSpec::new("b", "http://b:8000")).pod(PodSpec::new("c", "http://c:8000"))
}

#[test]
fn a_healthy_router_under_traffic_has_no_finding_at_any_second() {
    for profile in ["total_latency", "first_token", "cache_aware", "least_load"] {
        let scene = Scene::new(|builder| three(builder).profile(profile).health_checked());
        scene.router.pods().iter().for_each(|pod| assert!(scene.router.set_healthy(pod.pod, true)));
        for (second, found) in scene.serves(0..240, |_| AS_THE_ROUTER).into_iter().enumerate() {
            assert_eq!(found, [], "{profile}, second {second}");
        }
    }
}

#[test]
fn one_pod_whose_events_never_match_is_found_among_good_ones() {
    for (odd, words) in [
        (("org/m", 32, 0), "blocks of 32 tokens"),
        (("m", 16, 0), "of the model `m`"),
        (("org/m", 16, 1), "its tokenizer"),
    ] {
        let scene = Scene::new(three);
        let found = scene.serves(0..90, |pod| if pod == "c" { odd } else { AS_THE_ROUTER });
        assert!(found[..20].iter().all(Vec::is_empty), "not before it had the time");
        let finding = scene.only_finding();
        assert_eq!((finding.kind, finding.pod.as_deref()), (FindingKind::OddPod, Some("c")), "{finding}");
        assert!(finding.message.contains(words), "{finding}");
        // Mended, it is as good as the others.
        let found = scene.serves(90..130, |_| AS_THE_ROUTER);
        assert_eq!(found.last().unwrap(), &[]);
    }
}

#[test]
fn hashes_where_tokens_are_wanted_and_tokens_where_hashes_are_wanted_are_found() {
    let hashes: Vec<BlockHash> = (1..=32).map(BlockHash::new).collect();
    let prompt = prompt();
    let found = |builder: fn(RouterBuilder) -> RouterBuilder, tokens: bool, hashed: bool| {
        let scene = Scene::new(builder);
        scene.announced("org/m", 16);
        for at in 0..40 {
            scene.after(at);
            scene.router.tick(scene.router.now());
            let mut request = scene.router.request(scene.router.now());
            request.tokens = tokens.then_some(&prompt[..]);
            request.hashes = hashed.then_some(&hashes[..]);
            (0..8).for_each(|_| drop(scene.router.route(&request).unwrap()));
        }
        scene.router.diagnosis()
    };
    let kinds = |found: &[Finding]| found.iter().map(|finding| finding.kind).collect::<Vec<_>>();
    let ignored = found(|builder| builder, false, true);
    assert_eq!(kinds(&ignored), [FindingKind::HashesIgnored]);
    assert!(ignored[0].message.contains("320 of 320") && ignored[0].message.contains("hashes_given"), "{}", ignored[0]);
    let missing = found(RouterBuilder::hashes_given, true, false);
    assert_eq!(kinds(&missing), [FindingKind::HashesMissing]);
    assert!(missing[0].message.contains("tokens_given"), "{}", missing[0]);
    // The feed made its own hashes of tokens; that requests bring the tokens too proves it.
    let token_mode = found(RouterBuilder::hashes_given, true, true);
    assert_eq!(kinds(&token_mode), [FindingKind::TokenModeFeed]);
    assert!(token_mode[0].message.contains("token mode"), "{}", token_mode[0]);
    let unproven = found(RouterBuilder::hashes_given, false, true);
    assert_eq!(kinds(&unproven), [FindingKind::NothingMatches]);
    assert!(unproven[0].message.contains("token mode"), "{}", unproven[0]);
    assert_eq!(kinds(&found(|builder| builder, true, true)), [], "tokens are enough");
}

#[test]
fn a_pod_that_always_fails_is_found_until_it_serves_again() {
    let scene = Scene::new(|builder| three(builder).profile("least_load"));
    let fails = |seconds: Range<u64>| {
        for second in seconds {
            scene.after(second);
            scene.router.tick(scene.router.now());
            let mut routed = scene.router.route(&scene.router.request(scene.router.now()).tokens(&[1])).unwrap();
            for _ in 0..5 {
                if let Ok(attempt) = routed.begin(0, scene.pod) {
                    attempt.failed(Failure::FirstByteTimeout);
                }
            }
        }
        scene.found()
    };
    assert_eq!(fails(0..25), [], "it may be restarting");
    assert_eq!(fails(25..60), [FindingKind::FailingPod]);
    let finding = scene.only_finding();
    assert_eq!(finding.pod.as_deref(), Some("a"));
    assert!(finding.message.contains("59 s") && finding.message.contains("3 times in a row"), "{finding}");
    scene.after(200);
    scene.router.tick(scene.router.now());
    let mut routed = scene.router.route(&scene.router.request(scene.router.now()).tokens(&[1])).unwrap();
    routed.begin(0, scene.pod).unwrap().succeeded();
    assert_eq!(scene.found(), []);
}

#[test]
fn pods_that_wait_for_health_checks_in_vain_are_found() {
    let scene = Scene::new(|builder| three(builder).health_checked());
    scene.after(29);
    assert_eq!(scene.found(), []);
    scene.after(31);
    let finding = scene.only_finding();
    assert_eq!((finding.kind, &finding.pod), (FindingKind::NoHealthChecks, &None));
    assert!(finding.message.contains("any of its 3 pods") && finding.message.contains("set_healthy"), "{finding}");
    // Somebody checks, and left one out.
    scene.router.pods()[..2].iter().for_each(|pod| assert!(scene.router.set_healthy(pod.pod, false)));
    let finding = scene.only_finding();
    assert_eq!((finding.kind, finding.pod.as_deref()), (FindingKind::NoHealthChecks, Some("c")));
    scene.router.set_healthy(scene.router.pod("c").unwrap(), true);
    assert_eq!(scene.found(), []);
    let unchecked = Scene::new(three);
    unchecked.after(31);
    assert_eq!(unchecked.found(), [], "nobody said that somebody checks");
}

#[cfg(feature = "engine")]
#[test]
fn a_feed_that_stays_in_a_gap_is_found_until_it_closes() {
    let scene = Scene::new(|builder| builder);
    let feed = scene.router.feed(scene.pod).unwrap();
    let receive = |sequence| feed.receive_batch(sequence, &kv_index::engine::EngineBatch::default()).unwrap();
    receive(0);
    receive(5);
    scene.after(29);
    assert_eq!(scene.found(), []);
    scene.after(45);
    let finding = scene.only_finding();
    assert_eq!((finding.kind, finding.pod.as_deref()), (FindingKind::FeedBehind, Some("a")));
    assert!(finding.message.contains("for 45 s") && finding.message.contains("missing"), "{finding}");
    (1..6).for_each(|sequence| drop(receive(sequence)));
    assert_eq!(scene.found(), []);
}

#[cfg(feature = "engine")]
#[test]
fn a_follower_that_stays_out_of_step_is_found_in_whatever_way() {
    use kv_index::engine::{Disconnect, Follower, FollowerConfig, Message, ReplayForm, ReplayReply};

    let scene = Scene::new(|builder| builder);
    let config = FollowerConfig::new(scene.router.feed_config(scene.pod).unwrap());
    let mut follower = Follower::new(Arc::clone(scene.router.index()), scene.pod, config, scene.router.now()).unwrap();
    let found = |words: &str| {
        let finding = scene.only_finding();
        assert_eq!((finding.kind, finding.pod.as_deref()), (FindingKind::FeedBehind, Some("a")), "{finding}");
        assert!(finding.message.contains(words), "{finding}");
    };
    assert_eq!(scene.found(), []);
    scene.after(40);
    scene.router.tick(scene.router.now());
    scene.routed(Some(&prompt()));
    found("cannot be subscribed to");
    let payload = [&[0x93, 0xcb][..], &1.0_f64.to_be_bytes(), &[0x90, 0xc0]].concat();
    let live = |sequence| Message { topic: b"t", sequence, payload: &payload }.to_frames();
    follower.connected(scene.router.now());
    follower.message(&live(0), scene.router.now()).unwrap();
    follower.reply(&ReplayReply::End.to_frames(ReplayForm::WithTopic), scene.router.now()).unwrap();
    assert_eq!(scene.found(), [], "all is well");
    follower.message(&live(7), scene.router.now()).unwrap();
    scene.after(80);
    scene.router.tick(scene.router.now());
    found("asked for in vain");
    for sequence in [8, 9, 10] {
        follower.message(&live(sequence), scene.router.now()).unwrap();
        follower.replay_broken(Disconnect::Closed, scene.router.now());
        follower.tick(follower.deadline()).unwrap();
    }
    found("does not replay");
}
