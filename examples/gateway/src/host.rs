//! A run's host: counts its load, decides anew when pods fail, writes down what became of it.

use std::sync::Arc;
use std::time::Instant;

use kv_index::{BlockSize, PodSet};
use routing_core::{InFlightGuard, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::{DispatchHost, DispatchReport};
use routing_plugins::load::{LoadGuard, OutputEstimate, Work};

use super::serving::Serving;
use super::shared::Shared;
use super::wanted::Wanted;

/// The host of one run.
pub(super) struct Hosted {
    shared: Arc<Shared>,
    serving: Arc<Serving>,
    wanted: Arc<Wanted>,
    key: u64,
    /// Whether a prefill pod was asked.
    prefilled: bool,
}

impl Hosted {
    pub(super) fn new(shared: Arc<Shared>, serving: Arc<Serving>, wanted: Arc<Wanted>, key: u64) -> Self {
        Self { shared, serving, wanted, key, prefilled: false }
    }

    /// What the request costs a pod.
    fn work(&self, pod: Pod, step: &PlanStep) -> Work {
        let prompt = self.wanted.tokens.len() as u64;
        let work = Work::of(prompt);
        // What the plan knows is about the first candidate.
        let held = step.cache.filter(|_| step.candidates.first().is_some_and(|first| first.pod == pod));
        let work = match (held, BlockSize::new(self.shared.model.block_size.get())) {
            // What another pod computed comes over the wire.
            _ if step.role == Role::Decode && self.prefilled => work.held(prompt),
            (Some(cache), Some(size)) => work.held_blocks(cache.held, size),
            _ => work,
        };
        if step.role == Role::Prefill {
            return work.output(1);
        }
        work.output(OutputEstimate::default().of(prompt, self.wanted.asked.most_output))
    }
}

impl DispatchHost for Hosted {
    type Guard = Share;

    fn begin_attempt(&mut self, pod: Pod, step: &PlanStep) -> Share {
        let guard = self.shared.plugin_state.load.begin(pod, self.work(pod, step));
        self.shared.book.asked(self.key, pod, step.role, self.prefilled);
        self.prefilled |= step.role == Role::Prefill;
        let answers = (step.role != Role::Prefill).then(|| (Arc::clone(&self.shared), self.key));
        Share { guard, answers }
    }

    fn replan(&mut self, failed: &[Pod]) -> Option<RoutingPlan> {
        // The newest fleet: the one that the first plan was made on has pods that failed.
        let serving = self.shared.serving.load_full();
        let mut excluded = PodSet::EMPTY;
        for pod in failed {
            excluded.insert(pod.id());
        }
        let request = self.wanted.request(&self.shared.model.name, Instant::now());
        let plan = serving.decide(&request, excluded, None).ok();
        self.serving = serving;
        plan
    }

    fn finished(&mut self, report: DispatchReport) {
        self.shared.book.finished(self.key, &report);
    }
}

/// A request's share of a pod's load.
pub(super) struct Share {
    guard: LoadGuard,
    /// Whose first byte it is, if the pod's answer is the client's.
    answers: Option<(Arc<Shared>, u64)>,
}

impl InFlightGuard for Share {
    fn first_byte(&mut self) {
        self.guard.first_token();
        if let Some((shared, key)) = self.answers.take() {
            shared.book.first_byte(key);
        }
    }
}
