//! What worlds are made of: pods, plans, dialects, failures and a hook that says no.

use std::num::NonZeroU16;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, response};
use kv_index::{Config, Index};
use routing_core::{FailurePolicy, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::handoff::{Api, Handoff, HandoffError, HandoffMode, HandoffReuse, LegBody, LegContext, UsageFix};
use routing_exec::{DispatchPolicy, Failure, Hook, HookError, Target};

/// Pods 0 to 31, all of generation 1.
pub(crate) fn pod(at: usize) -> Pod {
    static PODS: OnceLock<Vec<Pod>> = OnceLock::new();
    PODS.get_or_init(|| {
        let index: Index = Index::new(Config::default());
        (0..32).map(|at| index.join(&format!("pod-{at}")).unwrap()).collect()
    })[at]
}

#[expect(clippy::disallowed_methods, reason = "some instant to count from")]
pub(crate) fn some_instant() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A dialect that writes into each request what the dispatch told it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) mode: HandoffMode,
    pub(crate) reuse: HandoffReuse,
}

pub(crate) const REUSABLE: Dialect = Dialect { mode: HandoffMode::Serial, reuse: HandoffReuse::Always };
pub(crate) const ONE_USE: Dialect = Dialect { mode: HandoffMode::Serial, reuse: HandoffReuse::Never };
pub(crate) const CONCURRENT: Dialect = Dialect { mode: HandoffMode::Concurrent, reuse: HandoffReuse::Never };

impl Handoff for Dialect {
    fn carries(&self, _: Role) -> bool {
        true
    }

    fn mode(&self) -> HandoffMode {
        self.mode
    }

    fn reuse(&self) -> HandoffReuse {
        self.reuse
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        assert!(leg.prefill.is_none() || leg.prefill != leg.pod, "handed off from a pod to itself");
        let prefill = leg.prefill.map_or_else(|| "nobody".to_owned(), |pod| pod.id().index().to_string());
        let prefilled = leg.prefilled.map_or("nothing".into(), String::from_utf8_lossy);
        let text = format!("{} after {prefill} said {prefilled} in {}", leg.step, leg.transfer);
        Ok(LegBody::new(text))
    }

    fn usage(&self, _: Api, _: bool, _: Option<&[u8]>) -> Option<UsageFix> {
        None
    }
}

pub(crate) fn step(name: &str, pods: &[usize]) -> PlanStep {
    let role = match name {
        "prefill" => Role::Prefill,
        "decode" => Role::Decode,
        "encode" => Role::Encode,
        _ => Role::Both,
    };
    let pods: Vec<Pod> = pods.iter().map(|at| pod(*at)).collect();
    PlanStep::new(name, role, &pods)
}

pub(crate) fn plan(steps: impl IntoIterator<Item = PlanStep>) -> RoutingPlan {
    RoutingPlan::new(1, steps)
}

/// Prefill and decode, on these pods.
pub(crate) fn two(prefill: &[usize], decode: &[usize]) -> RoutingPlan {
    plan([step("prefill", prefill), step("decode", decode)])
}

pub(crate) fn single(pods: &[usize]) -> RoutingPlan {
    plan([step("both", pods)])
}

/// Patience in round numbers: 10 s for prefill, 5 s for a first byte, 20 s for a whole answer of one pod, 3 s between chunks, and no
/// end of it in all.
pub(crate) fn patience() -> DispatchPolicy {
    DispatchPolicy::default()
        .prefill_first_byte_timeout(seconds(10))
        .first_byte_timeout(seconds(5))
        .per_try_timeout(seconds(20))
        .request_timeout(Duration::MAX)
        .idle_timeout(seconds(3))
        .max_buffered_bytes(64)
        .retry_after(seconds(7))
        // Most streams here are shorter than engines' are.
        .require_done(false)
}

pub(crate) fn connect() -> Failure {
    Failure::Connect("refused".into())
}

/// This process has no descriptor left.
pub(crate) fn local() -> Failure {
    Failure::LocalResources("too many open files".into())
}

pub(crate) fn cut() -> Failure {
    Failure::Truncated("reset".into())
}

/// A hook that says no at one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refuses(pub(crate) &'static str, pub(crate) u16);

impl Refuses {
    fn at(&self, place: &str) -> Result<(), HookError> {
        let no = HookError::new("refuses", place, NonZeroU16::new(self.1).unwrap());
        if place == self.0 { Err(no) } else { Ok(()) }
    }
}

impl Hook for Refuses {
    fn name(&self) -> &str {
        "refuses"
    }

    fn before_send(&mut self, to: &Target<'_>, _: &mut Request<Bytes>) -> Result<(), HookError> {
        self.at(to.step)
    }

    fn on_response_head(&mut self, _: Pod, _: &mut response::Parts) -> Result<(), HookError> {
        self.at("head")
    }

    fn on_chunk(&mut self, chunk: Bytes) -> Result<Bytes, HookError> {
        if chunk.starts_with(b"no") { self.at("chunk").map(|()| chunk) } else { Ok(chunk) }
    }
}

pub(crate) const POLICIES: [FailurePolicy; 4] =
    [FailurePolicy::NextCandidate, FailurePolicy::Skip, FailurePolicy::Replan, FailurePolicy::Fail];
