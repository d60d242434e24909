//! Breakers against the literal model of one pod's.

use std::collections::BTreeSet;

use proptest::prelude::*;
use routing_exec::{Admission, Permit};

use crate::*;

/// One pod's breaker, literally.
#[derive(Clone, Debug)]
struct Model {
    generation: usize,
    state: Told,
    /// Which requests were let through since it last opened, closed or recovered.
    current: BTreeSet<usize>,
    /// Failures since the last success that nobody confirmed.
    unconfirmed: u32,
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
            *self = Self { generation, state: CLOSED, current: BTreeSet::new(), unconfirmed: 0 };
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

    fn judge(&mut self, permit: usize, sample: &BreakerSample, now: u64) {
        if !self.current.contains(&permit) {
            return;
        }
        let well = *sample == GOOD;
        if well {
            self.unconfirmed = 0;
        }
        if *sample == UNCONFIRMED {
            self.unconfirmed += 1;
            if self.unconfirmed <= 15 && matches!(self.state, Told::Closed { .. }) {
                return;
            }
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
    Judge(prop::sample::Index, BreakerSample),
    Recovered,
    Tick,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Admit),
        3 => any::<prop::sample::Index>().prop_map(Op::GiveBack),
        6 => (any::<prop::sample::Index>(), sample()).prop_map(|(which, sample)| Op::Judge(which, sample)),
        1 => Just(Op::Recovered),
        2 => Just(Op::Tick),
        3 => (1..30_u64).prop_map(Op::Wait),
    ]
}

fn sample() -> impl Strategy<Value = BreakerSample> {
    prop_oneof![4 => Just(GOOD), 4 => Just(BAD), 4 => Just(UNCONFIRMED)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn breakers_do_as_the_model_does(ops in prop::collection::vec((op(), 0..3_usize, 0..40_usize), 0..200)) {
        let ((breakers, open_breakers), base) = (breakers(config()), start());
        let mut models = vec![Model { generation: 0, state: CLOSED, current: BTreeSet::new(), unconfirmed: 0 }; 3];
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
                Op::Judge(which, sample) if !admitted.is_empty() => {
                    // Mostly of the latest; now and then of one long ago.
                    let latest = admitted.len().min(3 + which.index(admitted.len()) / 2);
                    let (id, generation, count, admitted) = admitted[admitted.len() - 1 - which.index(latest)];
                    breakers.record(admitted, &sample, at);
                    if models[id].hears(generation) {
                        models[id].judge(count, &sample, now);
                    }
                }
                Op::Judge(..) => {}
                Op::Recovered => {
                    breakers.recovered(pod);
                    if models[id].hears(generation) {
                        models[id] = Model { generation, state: CLOSED, current: BTreeSet::new(), unconfirmed: 0 };
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
