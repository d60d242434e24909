use super::*;
use crate::load::{PodLoad, handles, start};

const SECOND: Duration = Duration::from_secs(1);

/// So many requests a second apart, each of which takes so long; the instant after the last.
fn send(paces: &PodPaces, pod: Pod, (expected, took): (f64, f64), times: u32, from: Instant) -> Instant {
    for at in 0..times {
        let now = from + SECOND * at;
        paces.expect(pod, prefill(expected), now);
        let took = Duration::from_secs_f64(took);
        paces.first_token(paces.sample(pod, now).unwrap(), took, now);
    }
    from + SECOND * times
}

fn prefill(seconds: f64) -> ExpectedPrefill {
    ExpectedPrefill::new(CostModel::FUSED, seconds)
}

fn near(pace: f64, expected: f64) -> bool {
    (pace / expected - 1.0).abs() < 0.07
}

#[test]
fn a_pod_three_times_as_slow_or_fast_is_known_within_a_minute_of_traffic() {
    for factor in [3.0, 1.0 / 3.0] {
        let (paces, pods) = (PodPaces::default(), handles(1, 2));
        let now = send(&paces, pods[0][0], (0.2, 0.2 * factor), 60, start());
        assert!((paces.of(pods[0][0].id()) / factor - 1.0).abs() < 0.2, "{}", paces.of(pods[0][0].id()));
        send(&paces, pods[0][0], (0.2, 0.2 * factor), 60, now);
        assert!(near(paces.of(pods[0][0].id()), factor));
        assert_eq!(paces.of(pods[0][1].id()), paces.typical(), "of another pod nothing is known");
        assert!((paces.typical() > 1.2) == (factor > 1.0), "but that it is of this fleet: {}", paces.typical());
    }
}

#[test]
fn pods_that_are_alike_stay_alike() {
    let (paces, pods) = (PodPaces::default(), handles(1, 2));
    for (pod, took) in pods[0].iter().zip([0.202, 0.198]) {
        send(&paces, *pod, (0.2, took), 60, start());
    }
    assert_eq!([0, 1].map(|at| paces.of(pods[0][at].id())), [1.0; 2]);
}

#[test]
fn one_odd_first_token_says_little() {
    let (paces, pod) = (PodPaces::default(), handles(1, 1)[0][0]);
    let now = send(&paces, pod, (0.2, 0.2), 50, start());
    send(&paces, pod, (0.2, 1_000.0), 1, now);
    assert!(paces.of(pod.id()) < 1.1, "{}", paces.of(pod.id()));
}

#[test]
fn short_ones_say_little() {
    let (paces, pod) = (PodPaces::default(), handles(1, 1)[0][0]);
    send(&paces, pod, (0.000_1, 0.05), 20, start());
    assert!(paces.of(pod.id()) < 1.2, "{}", paces.of(pod.id()));
}

#[test]
fn who_is_not_asked_fades_to_what_the_fleet_is() {
    let (paces, pods) = (PodPaces::default(), handles(1, 2));
    let [slow, other] = [pods[0][0], pods[0][1]];
    let now = send(&paces, slow, (0.2, 0.8), 100, start());
    assert!(near(paces.of(slow.id()), 4.0));
    let after = send(&paces, other, (0.2, 0.2), 600, now);
    assert!(near(paces.of(other.id()), 1.0) && paces.of(slow.id()) < 1.2, "{}", paces.of(slow.id()));
    send(&paces, slow, (0.2, 0.8), 60, after);
    assert!(paces.of(slow.id()) > 3.0, "and is soon known again");
}

/// Hosts tell when an answer is over, which may take longer than what is learned is left alone.
#[test]
fn what_is_told_late_is_not_forgotten_at_once() {
    let (paces, pods): (PodPaces, _) = (PodPaces::default(), handles(1, 2));
    let (late, begin) = (40 * SECOND, start());
    for at in 0..200 {
        let now = begin + SECOND * at;
        for (pod, took) in [(pods[0][0], 600), (pods[0][1], 200)] {
            paces.expect(pod, prefill(0.2), now);
            let sample = paces.sample(pod, now).unwrap();
            paces.first_token(sample, Duration::from_millis(took), now + late);
        }
    }
    assert!(paces.of(pods[0][0].id()) > 2.7, "{}", paces.of(pods[0][0].id()));
}

#[test]
fn a_new_pod_begins_as_the_fleet_is() {
    let (paces, pods) = (PodPaces::default(), handles(2, 1));
    let [old, new] = [pods[0][0], pods[1][0]];
    let now = send(&paces, old, (0.2, 0.6), 400, start());
    paces.expect(old, prefill(0.2), now);
    let late = paces.sample(old, now).unwrap();
    paces.expect(new, prefill(0.2), now);
    assert!(near(paces.of(new.id()), 3.0));
    assert!(paces.sample(old, now).is_none());
    paces.first_token(late, 100 * SECOND, now);
    assert!(near(paces.of(new.id()), 3.0), "what the old one did says nothing of it");
}

#[test]
fn a_sample_is_of_its_decision() {
    let (paces, pods, now) = (<PodPaces>::default(), handles(1, 2), start());
    assert!(paces.sample(pods[0][0], now).is_none());
    paces.expect(pods[0][0], prefill(1.0), now);
    assert!(paces.sample(pods[0][1], now).is_none() && paces.sample(pods[0][0], now + SECOND).is_none());
    assert!(paces.sample(pods[0][0], now).is_some());
    for seconds in [None, Some(f64::NAN), Some(f64::INFINITY)] {
        paces.expect(pods[0][0], prefill(1.0).first_token(seconds), now);
        paces.first_token(paces.sample(pods[0][0], now).unwrap(), 9 * SECOND, now);
    }
    assert_eq!(paces.of(pods[0][0].id()), 1.0, "where it is not known what to expect nothing is learned");
}

/// Answers of so many tokens on a pod with so many requests of 1,000 tokens, and prompts of so many seconds computed meanwhile: each
/// takes what it should at these paces.
fn answer(
    paces: &PodPaces,
    pod: Pod,
    (tokens, beside): (u64, f64),
    (slow_prefill, slow_decode): (f64, f64),
    at: Instant,
) {
    let load = PodLoad { requests: 8, tokens: 8_000, ..PodLoad::default() };
    paces.expect(pod, prefill(0.2), at);
    let sample = paces.sample(pod, at).unwrap();
    paces.first_token(sample, Duration::from_secs_f64(0.2 * slow_prefill), at);
    let began = paces.decode_sample(sample, &load);
    let work = if beside > 0.0 {
        paces.expect(pod, prefill(beside).first_token(None), at);
        beside - CostModel::FUSED.fixed.get()
    } else {
        0.0
    };
    let step = CostModel::FUSED.step(&[], 8, 8_000).as_secs_f64();
    let took = (tokens - 1) as f64 * step * slow_decode + work * slow_prefill;
    let ended = paces.decode_sample(sample, &load);
    paces.decoded(began, ended, tokens, Duration::from_secs_f64(took), at);
}

#[test]
fn a_pod_of_another_kind_is_known_by_both_within_a_minute_of_traffic() {
    for (slow_prefill, slow_decode) in [(3.0, 3.0), (2.0, 0.5), (1.0, 3.0), (0.5, 1.5)] {
        for beside in [0.0, 0.4] {
            let (paces, pods) = (PodPaces::default(), handles(1, 2));
            for at in 0..120 {
                let now = start() + SECOND * at / 2;
                answer(&paces, pods[0][0], (200, beside), (slow_prefill, slow_decode), now);
                answer(&paces, pods[0][1], (200, beside), (1.0, 1.0), now);
            }
            let known = [0, 1].map(|at| pods[0][at].id()).map(|pod| (paces.of(pod), paces.decoding(pod)));
            for ((known, of), kind) in [((known[0].1, slow_decode), "decode"), ((known[0].0, slow_prefill), "prefill")]
            {
                assert!((known / of - 1.0).abs() < 0.25, "{kind} {known} of {of}, {beside} s beside");
            }
            assert!((known[1].1 - 1.0).abs() < 0.15, "the other one {}", known[1].1);
        }
    }
}

#[test]
fn who_was_never_seen_to_decode_is_as_slow_at_it_as_at_prompts() {
    let (paces, pods) = (PodPaces::default(), handles(1, 2));
    let now = send(&paces, pods[0][0], (0.2, 0.8), 100, start());
    assert!(near(paces.decoding(pods[0][0].id()), 4.0), "{}", paces.decoding(pods[0][0].id()));
    assert_eq!(paces.decoding(pods[0][1].id()), paces.typical());
    for at in 0..100 {
        answer(&paces, pods[0][0], (200, 0.0), (4.0, 1.0), now + SECOND * at);
    }
    assert!(near(paces.decoding(pods[0][0].id()), 1.0), "{}", paces.decoding(pods[0][0].id()));
}

#[test]
fn an_answer_beside_prompts_that_nobody_here_knows_says_nothing() {
    let (paces, pod): (PodPaces, _) = (PodPaces::default(), handles(1, 1)[0][0]);
    let now = start();
    paces.expect(pod, prefill(0.2), now);
    let sample = paces.sample(pod, now).unwrap();
    let load = PodLoad { requests: 8, waiting_elsewhere: 2, tokens: 8_000, ..PodLoad::default() };
    for (began, ended) in [(load, PodLoad::default()), (PodLoad::default(), load)] {
        let [began, ended] = [began, ended].map(|load| paces.decode_sample(sample, &load));
        paces.decoded(began, ended, 100, 50 * SECOND, now);
    }
    for (tokens, took) in [(0, SECOND), (1, SECOND), (100, Duration::ZERO)] {
        let idle = paces.decode_sample(sample, &PodLoad::default());
        paces.decoded(idle, idle, tokens, took, now);
    }
    assert_eq!(paces.decoding(pod.id()), 1.0);
}

#[test]
fn no_number_is_too_much() {
    let (paces, pod) = (PodPaces::default(), handles(1, 1)[0][0]);
    for (expected, took) in [(0.0, 1e9), (f64::MAX, 1e-9), (1e-300, 1e9), (1.0, 0.0)] {
        send(&paces, pod, (expected, took), 300, start());
        assert!((0.01..100.0).contains(&paces.of(pod.id())));
    }
}

#[test]
fn the_table_is_what_each_pod_is_asked_for() {
    let (paces, pods) = (<PodPaces>::default(), handles(2, 20));
    let agrees = |paces: &PodPaces| {
        let table = paces.table();
        let all = table.blocks.iter().flat_map(|block| block.prefill.into_iter().zip(block.decoding));
        let asked = (0..PodSet::<DEFAULT_POD_WORDS>::CAPACITY as u16)
            .map(PodId::new)
            .map(|pod| (paces.of(pod), paces.decoding(pod)));
        let typical = (table.typical.prefill, table.typical.decoding);
        all.eq(asked) && typical == (paces.typical(), paces.typical_decoding())
    };
    assert!(agrees(&paces), "nothing is known");
    for (at, slow) in (0..90).zip([3.0, 1.0, 0.2, 7.0].iter().cycle()) {
        // Now and then a new pod has the id, and now and then nothing comes for long.
        let (pod, now) = (pods[usize::from(at > 60)][at as usize % 17], start() + SECOND * (at + 60 * (at / 30)));
        if at % 3 == 0 {
            answer(&paces, pod, (200, 0.0), (*slow, 2.0 / slow), now);
        } else {
            send(&paces, pod, (0.5, 0.5 * slow), 1, now);
        }
        assert!(agrees(&paces), "after {at}");
    }
}
