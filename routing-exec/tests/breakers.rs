//! Breakers as executors and deciders see them: who is let through, and which open_breakers are said to be open.

#![expect(clippy::unwrap_used, reason = "a fleet that cannot be set up is a failed test")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kv_index::{Config, Index};
use proptest::prelude::*;
use routing_core::{OpenBreakers, Pod};
use routing_exec::{Admission, BreakerConfig, BreakerSample, Breakers, Failure, Permit};

const BAD: BreakerSample = BreakerSample::Failure(Failure::FirstByteTimeout);
const GOOD: BreakerSample = BreakerSample::Success(None);

/// Three ids in three generations each: `pods()[generation][id]`.
fn pods() -> &'static [[Pod; 3]; 3] {
    static PODS: OnceLock<[[Pod; 3]; 3]> = OnceLock::new();
    PODS.get_or_init(|| {
        let index: Index = Index::new(Config::default());
        std::array::from_fn(|generation| {
            let pods = ["a", "b", "c"].map(|name| index.join(&format!("{name}{generation}")).unwrap());
            pods.iter().for_each(|pod| assert!(index.retire(*pod)));
            while index.sweep(1 << 20).pending > 0 {}
            pods
        })
    })
}

#[expect(clippy::disallowed_methods, reason = "some instant to count from")]
fn start() -> Instant {
    Instant::now()
}

fn config() -> BreakerConfig {
    let (open_duration, slow_floor) = (Duration::from_secs(10), Duration::from_secs(5));
    BreakerConfig {
        failure_threshold: 2,
        open_duration,
        max_probes: 2,
        success_threshold: 2,
        slow_factor: Some(10.0),
        slow_floor,
    }
}

fn breakers(config: BreakerConfig) -> (Arc<Breakers>, Arc<OpenBreakers>) {
    let open_breakers = Arc::new(OpenBreakers::new());
    (Arc::new(Breakers::new(config, Arc::clone(&open_breakers))), open_breakers)
}

fn after(now: Instant, seconds: u64) -> Instant {
    now.checked_add(Duration::from_secs(seconds)).unwrap()
}

/// A request that is let through and judged at once; one that is not is not judged.
fn judge(breakers: &Arc<Breakers>, pod: Pod, sample: &BreakerSample, now: Instant) {
    if let Some(permit) = breakers.admit(pod, now) {
        breakers.record(permit.admission(), sample, now);
    }
}

fn open(breakers: &Arc<Breakers>, pod: Pod, now: Instant) {
    (0..2).for_each(|_| judge(breakers, pod, &BAD, now));
}

#[test]
fn a_pod_that_fails_in_a_row_is_given_nothing_then_a_little_then_everything() {
    let ((breakers, open_breakers), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    assert!(open_breakers.opened().contains(pod.id()) && breakers.admit(pod, now).is_none());
    assert!(breakers.admit(pods()[0][1], now).is_some(), "others are not concerned");
    breakers.tick(after(now, 9));
    assert!(open_breakers.opened().contains(pod.id()));
    breakers.tick(after(now, 10));
    assert!(open_breakers.opened().is_empty(), "deciders may pick it again");
    let later = after(now, 10);
    let probes = [breakers.admit(pod, later), breakers.admit(pod, later)];
    assert!(probes.iter().all(Option::is_some) && breakers.admit(pod, later).is_none());
    probes.iter().flatten().for_each(|probe| breakers.record(probe.admission(), &GOOD, later));
    assert!((0..9).all(|_| breakers.admit(pod, later).is_some()));
}

#[test]
fn a_place_is_given_back_once_judged_or_not() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    let later = after(now, 10);
    let probe = breakers.admit(pod, later).unwrap();
    breakers.record(probe.admission(), &GOOD, later);
    drop(probe);
    let places: Vec<_> = (0..5).filter_map(|_| breakers.admit(pod, later)).collect();
    assert_eq!(places.len(), 2, "one success does not close it, and its place is free again, once");
    // It opens and is tried out anew: places of the time before are not places of this one.
    breakers.record(places[0].admission(), &BAD, later);
    let much_later = after(later, 100);
    let probes: Vec<_> = (0..5).filter_map(|_| breakers.admit(pod, much_later)).collect();
    drop(places);
    assert!(probes.len() == 2 && breakers.admit(pod, much_later).is_none());
}

#[test]
fn a_replaced_pod_starts_closed_and_hears_nothing_of_the_old_one() {
    let ((breakers, open_breakers), now) = (breakers(config()), start());
    let (old, new) = (pods()[0][0], pods()[1][0]);
    assert_eq!(old.id(), new.id());
    open(&breakers, old, now);
    assert!(breakers.admit(new, now).is_some() && open_breakers.opened().is_empty());
    open(&breakers, old, now);
    breakers.recovered(old);
    assert!(breakers.admit(old, now).is_none(), "nothing goes to a pod that is gone");
    assert!(breakers.admit(new, now).is_some() && open_breakers.opened().is_empty());
    open(&breakers, new, now);
    let later = after(now, 10);
    let probes: Vec<_> = (0..2).filter_map(|_| breakers.admit(new, later)).collect();
    breakers.recovered(pods()[2][0]);
    drop(probes);
    assert!(breakers.admit(pods()[2][0], later).is_some());
}

#[test]
fn recovery_seen_by_health_closes_early() {
    let ((breakers, open_breakers), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    breakers.recovered(pod);
    assert!(open_breakers.opened().is_empty() && breakers.admit(pod, now).is_some());
    judge(&breakers, pod, &BAD, now);
    assert!(open_breakers.opened().is_empty(), "and failures before it are forgotten");
}

#[test]
fn what_was_let_through_before_a_circuit_opened_or_recovered_decides_nothing() {
    let ((breakers, open_breakers), now, pod) = (breakers(config()), start(), pods()[0][0]);
    let old = breakers.admit(pod, now).unwrap().admission();
    open(&breakers, pod, now);
    let later = after(now, 10);
    let probe = breakers.admit(pod, later).unwrap();
    breakers.record(old, &BAD, later);
    assert!(open_breakers.opened().is_empty(), "it does not open again");
    (0..9).for_each(|_| breakers.record(old, &GOOD, later));
    let places: Vec<_> = (0..5).filter_map(|_| breakers.admit(pod, later)).collect();
    assert_eq!(places.len(), 1, "nor does it close");
    (0..2).for_each(|_| breakers.record(probe.admission(), &GOOD, later));
    (0..9).for_each(|_| breakers.record(old, &BAD, later));
    (0..9).for_each(|_| breakers.record(probe.admission(), &BAD, later));
    assert!(open_breakers.opened().is_empty(), "and closed it stays");
    let before = breakers.admit(pod, later).unwrap().admission();
    breakers.recovered(pod);
    (0..9).for_each(|_| breakers.record(before, &BAD, later));
    assert!(open_breakers.opened().is_empty());
}

#[test]
fn a_place_of_before_a_recovery_is_none_after_it() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    let before = breakers.admit(pod, after(now, 10));
    assert!(before.is_some());
    breakers.recovered(pod);
    open(&breakers, pod, after(now, 10));
    let later = after(now, 20);
    let probes: Vec<_> = (0..5).filter_map(|_| breakers.admit(pod, later)).collect();
    drop(before);
    assert!(probes.len() == 2 && breakers.admit(pod, later).is_none());
}

#[test]
fn a_first_byte_much_later_than_usual_is_a_failure() {
    let slow = BreakerSample::Success(Some(Duration::from_secs(6)));
    let usual = |breakers: &Arc<Breakers>, times: usize| {
        (0..times).for_each(|_| {
            judge(breakers, pods()[0][1], &BreakerSample::Success(Some(Duration::from_millis(100))), start())
        });
    };
    let opens = |config: BreakerConfig, before: usize, sample: &BreakerSample| {
        let (breakers, open_breakers) = breakers(BreakerConfig { failure_threshold: 1, ..config });
        usual(&breakers, before);
        judge(&breakers, pods()[0][0], sample, start());
        !open_breakers.opened().is_empty()
    };
    assert!(opens(config(), 50, &slow));
    assert!(!opens(config(), 49, &slow), "too few to call anything usual");
    assert!(!opens(config(), 50, &BreakerSample::Success(Some(Duration::from_secs(5)))), "never slow");
    assert!(!opens(BreakerConfig { slow_factor: None, ..config() }, 50, &slow));
    assert!(!opens(BreakerConfig { slow_factor: Some(f64::NAN), ..config() }, 50, &slow));
    assert!(!opens(BreakerConfig { slow_factor: Some(100.0), ..config() }, 50, &slow));
    assert!(!opens(config(), 50, &GOOD), "an answer that tells no time is not slow");
}

#[test]
fn times_beyond_measure_do_no_harm() {
    let (breakers, _) = breakers(config());
    (0..200).for_each(|_| judge(&breakers, pods()[0][0], &BreakerSample::Success(Some(Duration::MAX)), start()));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn probes_are_limited_however_many_ask_at_once() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    for round in 1..200 {
        open(&breakers, pod, after(now, round * 1_000));
        let (later, inside, most) = (after(now, round * 1_000 + 500), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        if let Some(permit) = breakers.admit(pod, later) {
                            // Relaxed: counters of a test.
                            let now_inside = inside.fetch_add(1, Ordering::Relaxed) + 1;
                            most.fetch_max(now_inside, Ordering::Relaxed);
                            inside.fetch_sub(1, Ordering::Relaxed);
                            drop(permit);
                        }
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        breakers.recovered(pod);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn a_circuit_that_opens_while_others_are_looked_at_is_looked_at_too() {
    let (now, pods) = (start(), pods()[0]);
    for round in 0..300 {
        let (breakers, open_breakers) = breakers(BreakerConfig { failure_threshold: 1, ..config() });
        judge(&breakers, pods[2], &BAD, now);
        std::thread::scope(|scope| {
            scope.spawn(|| breakers.tick(after(now, 10)));
            scope.spawn(|| judge(&breakers, pods[0], &BAD, after(now, 10)));
        });
        breakers.tick(after(now, 20));
        assert!(open_breakers.opened().is_empty(), "round {round}");
    }
}

/// One pod's breaker, literally.
#[derive(Clone, Debug)]
struct Model {
    generation: usize,
    state: Told,
    /// Which requests were let through since it last opened, closed or recovered.
    current: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
enum Told {
    Closed { failures: u32 },
    Open { until: u64, times: u32 },
    HalfOpen { inside: BTreeSet<usize>, successes: u32, times: u32 },
}

const CLOSED: Told = Told::Closed { failures: 0 };

impl Model {
    /// Whether a pod of this generation is heard; a newer one takes the older one's place.
    fn hears(&mut self, generation: usize) -> bool {
        if generation > self.generation {
            *self = Self { generation, state: CLOSED, current: BTreeSet::new() };
        }
        generation == self.generation
    }

    fn tick(&mut self, now: u64) {
        if let Told::Open { until, times } = self.state {
            if now >= until {
                self.state = Told::HalfOpen { inside: BTreeSet::new(), successes: 0, times };
            }
        }
    }

    fn admit(&mut self, permit: usize, now: u64) -> bool {
        self.tick(now);
        let admitted = match &mut self.state {
            Told::Closed { .. } => true,
            Told::Open { .. } => false,
            Told::HalfOpen { inside, .. } => inside.len() < 2 && inside.insert(permit),
        };
        if admitted {
            self.current.insert(permit);
        }
        admitted
    }

    fn judge(&mut self, permit: usize, well: bool, now: u64) {
        if !self.current.contains(&permit) {
            return;
        }
        let before = std::mem::discriminant(&self.state);
        self.judge_current(well, now);
        if std::mem::discriminant(&self.state) != before {
            self.current.clear();
        }
    }

    fn judge_current(&mut self, well: bool, now: u64) {
        let opened = |times: u32| Told::Open { until: now + (10 << times.min(3)), times: times + 1 };
        match &mut self.state {
            Told::Closed { failures } if well => *failures = 0,
            Told::Closed { failures: 1 } => self.state = opened(0),
            Told::Closed { failures } => *failures += 1,
            Told::Open { .. } => {}
            Told::HalfOpen { times, .. } if !well => self.state = opened(*times),
            Told::HalfOpen { successes: 1, .. } => self.state = CLOSED,
            Told::HalfOpen { successes, .. } => *successes += 1,
        }
    }

    fn gives_back(&mut self, permit: usize) {
        if let Told::HalfOpen { inside, .. } = &mut self.state {
            inside.remove(&permit);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Admit,
    GiveBack(prop::sample::Index),
    Judge(prop::sample::Index, bool),
    Recovered,
    Tick,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Admit),
        3 => any::<prop::sample::Index>().prop_map(Op::GiveBack),
        6 => (any::<prop::sample::Index>(), prop::bool::weighted(0.4)).prop_map(|(which, well)| Op::Judge(which, well)),
        1 => Just(Op::Recovered),
        2 => Just(Op::Tick),
        3 => (1..30_u64).prop_map(Op::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn breakers_do_as_the_model_does(ops in prop::collection::vec((op(), 0..3_usize, 0..40_usize), 0..200)) {
        let ((breakers, open_breakers), base) = (breakers(config()), start());
        let mut models = vec![Model { generation: 0, state: CLOSED, current: BTreeSet::new() }; 3];
        let (mut permits, mut now, mut count) = (Vec::<(usize, usize, Permit)>::new(), 0, 0);
        // Every request that was let through, whether its permit is still held or not.
        let mut admitted = Vec::<(usize, usize, usize, Admission)>::new();
        for (op, id, generation) in ops {
            // Mostly the first generation; now and then a newer one, and then late news of an older.
            let generation = generation.saturating_sub(37);
            let (pod, at) = (pods()[generation][id], after(base, now));
            match op {
                Op::Admit => {
                    count += 1;
                    let expected = models[id].hears(generation) && models[id].admit(count, now);
                    let permit = breakers.admit(pod, at);
                    prop_assert_eq!(permit.is_some(), expected);
                    admitted.extend(permit.iter().map(|permit| (id, generation, count, permit.admission())));
                    permits.extend(permit.map(|permit| (id, count, permit)));
                }
                Op::GiveBack(which) if !permits.is_empty() => {
                    let (id, count, permit) = permits.swap_remove(which.index(permits.len()));
                    models[id].gives_back(count);
                    drop(permit);
                }
                Op::GiveBack(_) => {}
                Op::Judge(which, well) if !admitted.is_empty() => {
                    // Mostly of the latest; now and then of one long ago.
                    let latest = admitted.len().min(3 + which.index(admitted.len()) / 2);
                    let (id, generation, count, admitted) = admitted[admitted.len() - 1 - which.index(latest)];
                    breakers.record(admitted, if well { &GOOD } else { &BAD }, at);
                    if models[id].hears(generation) {
                        models[id].judge(count, well, now);
                    }
                }
                Op::Judge(..) => {}
                Op::Recovered => {
                    breakers.recovered(pod);
                    if models[id].hears(generation) {
                        models[id] = Model { generation, state: CLOSED, current: BTreeSet::new() };
                    }
                }
                Op::Tick => {
                    breakers.tick(at);
                    models.iter_mut().for_each(|model| model.tick(now));
                }
                Op::Wait(time) => now += time,
            }
            let open = models.iter().map(|model| matches!(model.state, Told::Open { .. }));
            let said = pods()[0].map(|pod| open_breakers.opened().contains(pod.id()));
            prop_assert!(open.eq(said), "{:?} {:?}", models, said);
        }
    }
}
