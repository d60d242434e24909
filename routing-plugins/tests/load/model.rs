//! Whatever is done with guards and reports, the tracker answers as a list of live guards does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{Pod, PodId};
use proptest::prelude::*;
use routing_core::Load;
use routing_plugins::load::{InFlight, LoadGuard, LoadTracker, PodLoad, Work};

use super::{GENERATIONS, IDS, handles};

/// What a host does. Pods are `(generation, id)`; guards are counted among the live ones, from whichever end.
#[derive(Clone, Debug)]
enum Op {
    Begin((usize, usize), Work),
    FirstToken(prop::sample::Index),
    Generated(prop::sample::Index, u64),
    End(prop::sample::Index),
    Drop(prop::sample::Index),
    Report((usize, usize), Load, u64),
}

fn op() -> impl Strategy<Value = Op> {
    // New generations come rarely, as the weights have it: else hardly any guard would still count.
    let pod = || (prop_oneof![40 => Just(0), 3 => Just(1), 2 => Just(2), 1 => Just(3)], 0..IDS);
    // Mostly of a size that overlaps with reports, sometimes of any.
    let tokens = || prop_oneof![8 => 0..2000u64, 1 => any::<u64>()];
    let requests = || prop_oneof![8 => 0..8u32, 1 => any::<u32>()];
    let work = (tokens(), tokens(), tokens()).prop_map(|(prompt_tokens, uncached_tokens, output_tokens)| Work {
        prompt_tokens,
        uncached_tokens,
        output_tokens,
    });
    let load = (requests(), requests(), tokens(), 0..=4u8).prop_map(|(running, waiting, tokens, quarters)| Load {
        running,
        waiting,
        tokens,
        kv_used: f32::from(quarters) / 4.0,
    });
    prop_oneof![
        6 => (pod(), work).prop_map(|(pod, work)| Op::Begin(pod, work)),
        2 => any::<prop::sample::Index>().prop_map(Op::FirstToken),
        2 => (any::<prop::sample::Index>(), tokens()).prop_map(|(guard, tokens)| Op::Generated(guard, tokens)),
        2 => any::<prop::sample::Index>().prop_map(Op::End),
        2 => any::<prop::sample::Index>().prop_map(Op::Drop),
        3 => (pod(), load, 0..20u64).prop_map(|(pod, load, at)| Op::Report(pod, load, at)),
    ]
}

/// A request that is not done.
#[derive(Clone, Copy, Debug)]
struct Live {
    pod: Pod,
    work: Work,
    generated: u64,
    first_token: bool,
}

#[derive(Clone, Copy, Debug)]
struct Reported {
    load: Load,
    at: u64,
    /// What was in flight from here then.
    own: InFlight,
}

/// The contract: live requests summed up when somebody asks.
#[derive(Debug, Default)]
struct Model {
    live: Vec<Live>,
    /// The pod that has an id, and what it reported last.
    current: [Option<(Pod, Option<Reported>)>; IDS],
}

impl Model {
    /// A pod that shows itself; true if it has its id now.
    fn shows(&mut self, pod: Pod) -> bool {
        let current = &mut self.current[pod.id().index()];
        if current.is_none_or(|(known, _)| known < pod) {
            *current = Some((pod, None));
        }
        current.is_some_and(|(known, _)| known == pod)
    }

    fn begin(&mut self, pod: Pod, work: Work) {
        self.shows(pod);
        self.live.push(Live { pod, work, generated: 0, first_token: false });
    }

    fn report(&mut self, pod: Pod, load: Load, at: u64) -> bool {
        let own = self.in_flight(pod);
        if !self.shows(pod) {
            return false;
        }
        let Some((_, reported)) = &mut self.current[pod.id().index()] else { return false };
        let taken = reported.is_none_or(|known| at >= known.at);
        if taken {
            *reported = Some(Reported { load, at, own });
        }
        taken
    }

    fn in_flight(&self, pod: Pod) -> InFlight {
        let mut sum = InFlight::default();
        let is_current = self.current[pod.id().index()].is_some_and(|(current, _)| current == pod);
        let most = |tokens: u64| tokens.min(u64::from(u32::MAX));
        for live in self.live.iter().filter(|live| is_current && live.pod == pod) {
            sum.requests += 1;
            sum.prompt_tokens += most(live.work.prompt_tokens);
            sum.output_tokens += most(live.work.output_tokens).max(most(live.generated));
            if !live.first_token {
                sum.prefilling += 1;
                sum.uncached_tokens += most(live.work.uncached_tokens);
            }
        }
        sum
    }

    fn load(&self, pod: Pod, elsewhere: Load, now: u64, stale_after: u64) -> PodLoad {
        let own = self.in_flight(pod);
        let current = self.current[pod.id().index()].filter(|(current, _)| *current == pod);
        let Some(reported) = current.and_then(|(_, reported)| reported) else {
            let seen = merged(own, elsewhere, InFlight::default(), InFlight::default());
            return PodLoad { waiting_elsewhere: waiting_elsewhere(elsewhere, own), ..seen };
        };
        let age = now.saturating_sub(reported.at);
        let stale = age > stale_after;
        PodLoad { age: Some(Duration::from_millis(age)), stale, ..merged(own, reported.load, own, reported.own) }
    }
}

/// The larger of what is in flight and of what was reported, changed by what was sent and done since.
fn merged(own: InFlight, load: Load, now: InFlight, then: InFlight) -> PodLoad {
    let tokens = |own: InFlight| i128::from(own.prompt_tokens) + i128::from(own.output_tokens);
    let requests =
        i128::from(load.running) + i128::from(load.waiting) + i128::from(now.requests) - i128::from(then.requests);
    let sum = i128::from(load.tokens) + tokens(now) - tokens(then);
    PodLoad {
        in_flight: own,
        requests: requests.clamp(own.requests.into(), u32::MAX.into()) as u32,
        running: load.running,
        waiting: load.waiting,
        waiting_elsewhere: waiting_elsewhere(load, then),
        tokens: sum.clamp(tokens(own), u64::MAX.into()) as u64,
        kv_used: load.kv_used,
        age: None,
        stale: false,
    }
}

/// Those that wait and cannot be from here: each request from here without a first token may be one that waits, and no more are
/// others' than there are requests beyond those from here.
fn waiting_elsewhere(load: Load, then: InFlight) -> u32 {
    let others = u64::from(load.running) + u64::from(load.waiting);
    let others = others.saturating_sub(then.requests.into()).min(u32::MAX.into()) as u32;
    load.waiting.saturating_sub(then.prefilling).min(others)
}

/// Both, side by side.
struct Both {
    tracker: Arc<LoadTracker>,
    guards: Vec<LoadGuard>,
    model: Model,
    pods: Vec<Vec<Pod>>,
    start: Instant,
}

impl Both {
    #[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
    fn new() -> Self {
        let tracker = Arc::new(LoadTracker::default());
        Self { tracker, guards: Vec::new(), model: Model::default(), pods: handles(), start: Instant::now() }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let guards = self.guards.len();
        match *op {
            Op::Begin((generation, id), work) => {
                let pod = self.pods[generation][id];
                self.guards.push(self.tracker.begin(pod, work));
                self.model.begin(pod, work);
            }
            Op::Report((generation, id), load, at) => {
                let pod = self.pods[generation][id];
                let taken = self.tracker.report(pod, load, self.at(at));
                prop_assert_eq!(taken, self.model.report(pod, load, at));
            }
            _ if guards == 0 => {}
            Op::FirstToken(at) => {
                self.guards[at.index(guards)].first_token();
                self.model.live[at.index(guards)].first_token = true;
            }
            Op::Generated(at, tokens) => {
                self.guards[at.index(guards)].generated(tokens);
                let live = &mut self.model.live[at.index(guards)];
                live.generated = live.generated.max(tokens);
                live.first_token |= tokens > 0;
            }
            Op::End(at) => {
                self.guards.remove(at.index(guards)).end();
                self.model.live.remove(at.index(guards));
            }
            Op::Drop(at) => {
                drop(self.guards.remove(at.index(guards)));
                self.model.live.remove(at.index(guards));
            }
        }
        Ok(())
    }

    fn agree(&self) -> Result<(), TestCaseError> {
        const ELSEWHERE: Load = Load { running: 3, waiting: 1, tokens: 700, kv_used: 0.75 };
        const NOW: u64 = 15;
        for &pod in self.pods.iter().flatten() {
            for stale_after in [0, 5, 100] {
                let expected = self.model.load(pod, ELSEWHERE, NOW, stale_after);
                let found = self.tracker.load_of(pod, ELSEWHERE, self.at(NOW), Duration::from_millis(stale_after));
                prop_assert_eq!(found, expected, "{:?}, stale after {}", pod, stale_after);
            }
        }
        for (id, current) in self.model.current.iter().enumerate() {
            let expected = current.map(|(pod, _)| self.model.in_flight(pod)).unwrap_or_default();
            prop_assert_eq!(self.tracker.in_flight(PodId::new(id as u16)), expected);
        }
        Ok(())
    }
}

proptest! {
    /// Whatever is done, after each step the tracker says what the model says, and in the end nothing is left.
    #[test]
    fn the_tracker_agrees_with_the_model(
        ops in prop::collection::vec(op(), 0..120),
        order in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let mut both = Both::new();
        prop_assert_eq!(both.pods.len(), GENERATIONS);
        for op in &ops {
            both.apply(op)?;
            both.agree()?;
        }
        for &at in order.iter().cycle().take(ops.len()) {
            both.apply(&Op::Drop(at))?;
            both.agree()?;
        }
        prop_assert!(both.guards.is_empty(), "no more were made than there are ops");
        for id in 0..IDS as u16 {
            prop_assert_eq!(both.tracker.in_flight(PodId::new(id)), InFlight::default());
        }
    }
}
